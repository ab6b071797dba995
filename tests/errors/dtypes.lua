local nn = require "nn"
local case = nn.config{case = ""}.case
local i, b = nn.input("i", {4, 4}, {dtype = "i32", below = 5}), nn.input("b", {4, 4}, {dtype = "bool"})
if case == "product" then nn.output("y", i:linear("l", {out = 3})) end
if case == "sum" then nn.output("y", b:mean()) end
if case == "minus" then nn.output("y", b - b) end
if case == "dtype" then nn.input("z", {3}, {dtype = "int3"}) end
if case == "to" then nn.output("y", i:to("f8")) end
if case == "below" then nn.input("z", {3}, {below = 4}) end
if case == "index" then nn.index({3, 4}, 3) end
if case == "precision" then nn.precision("fp8", function() end) end
if case == "concat" then nn.output("y", nn.op.concat(i, nn.input("x", {4, 4}), {axis = 0})) end
if case == "kind" then nn.random({3}, {kind = "gauss"}) end
if case == "gather" then nn.output("y", nn.gather(nn.input("x", {4, 4}), nn.input("f", {2}))) end
if case == "axis" then nn.output("y", nn.gather(i, i, 3)) end
if case == "along" then nn.output("y", nn.input("x", {4, 3}):take_along(i, 1)) end
if case == "scan" then nn.output("y", i:logcumsumexp(1)) end
if case == "softmax" then nn.output("y", i:softmax()) end
if case == "log_softmax" then nn.output("y", b:log_softmax()) end
if case == "few" then nn.output("y", (nn.input("x", {4, 100}):topk(5, 1))) end
if case == "scan axis" then nn.output("y", i:cumsum(3)) end
if case == "literal" then nn.output("y", i + 3000000000) end
if case == "literals" then nn.output("y", nn.where(b, i, -3000000000)) end
if case == "where" then nn.output("y", nn.where(i:float(), i, 0)) end
if case == "fill" then nn.output("y", i:masked_fill(i, 0)) end
if case == "scatter" then nn.output("y", i:masked_scatter(i, i)) end
local images = nn.input("images", {2, 4, 3, 3}, {dtype = "i32"})
if case == "batch_norm2d" then nn.output("y", images:batch_norm2d("bn")) end
if case == "batch_norm" then nn.output("y", nn.functional.batch_norm(images, nil, nil, {training = true})) end
if case == "layer_norm" then nn.output("y", i:layer_norm("ln")) end
if case == "rms_norm" then nn.output("y", i:rms_norm("rms")) end
if case == "group_norm" then nn.output("y", images:group_norm("gn", {groups = 2})) end
if case == "instance_norm2d" then nn.output("y", images:instance_norm2d("in")) end
if case == "gelu" then nn.output("y", i:gelu()) end
if case == "silu" then nn.output("y", i:silu()) end
if case == "elu" then nn.output("y", i:elu()) end
if case == "softplus" then nn.output("y", b:softplus()) end
if case == "mish" then nn.output("y", b:mish()) end
