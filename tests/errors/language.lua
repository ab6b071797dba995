local nn = require "nn"
local case = nn.config{case = ""}.case
local x, y = nn.input("x", {2, 4, 6, 6}), nn.input("y", {2, 4, 6, 6})
if case == "less" then nn.output("z", nn.where(x > 1, x, y)) end
if case == "equal" then nn.output("z", nn.where(x == 1, x, y)) end
if case == "equal method" then nn.output("z", (x == 1):to("f32")) end
if case == "equal product" then nn.output("z", (x == 1) * y) end
if case == "equal tensors" then nn.output("z", x == y and x or y) end
if case == "and" then nn.output("z", nn.where(x:gt(0) and x:lt(1), x .. y, y)) end
if case == "two axes" then nn.output("z", x:sum(2, 3)) end
if case == "dim" then nn.output("z", x:sum{dim = 1}) end
if case == "option" then nn.output("z", x:softmax{axes = 2}) end
if case == "nearest" then nn.output("z", x:padd{1, 1}) end
if case == "too many" then nn.output("z", x:relu(2)) end
if case == "twice" then nn.output("z", x:slice(2, 1, {axis = 3})) end
if case == "missing" then nn.output("z", x:slice()) end
if case == "step" then nn.output("z", x:slice(2, 1, 4, 0)) end
if case == "slice" then nn.output("z", x:slice(2, 0, 9)) end
if case == "mode" then nn.output("z", x:pad({1, 1}, "mirror")) end
if case == "reflect" then nn.output("z", x:pad({7, 1}, "reflect")) end
if case == "pool rank" then nn.output("z", x:at(1):at(1):max_pool2d(2)) end
if case == "item" then nn.output("z", x:sum():item()) end
if case == "size" then x:sum():backward() end
if case == "nonzero" then nn.output("z", x:nonzero()) end
if case == "einsum" then nn.output("z", nn.einsum("bchw,bcxw->bchx", x, y:slice(4, 1, 5))) end
if case == "einsum result" then nn.output("z", nn.einsum("bchw->bz", x)) end
if case == "numbers" then nn.output("z", nn.tensor{{1, 2}, {3}} + x) end
if case == "heads" then nn.output("z", x:flatten(3):multi_head_attention("a", {heads = 5})) end
if case == "states" then nn.output("z", (x:flatten(3):lstm("l", {hidden = 4, h = x}))) end
if case == "module" then nn.output("z", nn.ReLU()(x)) end
if case == "in place" then nn.output("z", x:sigmoid_()) end
if case == "element" then nn.output("z", x[1]) end
if case == "transposed" then nn.output("z", x.T) end
if case == "torch" then nn.output("z", torch.relu(x)) end
if case == "sizes" then nn.output("z", x:view(2, "4")) end
