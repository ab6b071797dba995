-- Graphs of fusion.lua that show where results are stored: in a concat, where moves lead, as elements
-- are reduced. at_most(count) says how many kernels a case may have.
local nn = require "nn"
return function(at_most)
local cases = {}

function cases.places() -- rows and scans write where a concat, or a stack, lies
  local x, y = nn.input("x", {24, 40}), nn.input("y", {24, 40})
  nn.output("beside", nn.concat({x:softmax(), x:linear("l", {out = 40})}, 2))
  nn.output("below", nn.concat({x:layer_norm("norm"), x:cumsum(2)}, 1))
  nn.output("stacked", nn.stack({(x * 2):softmax(), y:linear("m", {out = 40})}, 1))
  at_most(4)
end
function cases.steps() -- each reads the one before where that lies in a stack of them all
  local w, made, beside = nn.input("w", {40, 40}), {}, {}
  local x, y = nn.input("x", {24, 40}), nn.input("y", {24, 40})
  for i = 1, 4 do
    x = x:matmul(w):tanh()
    y = i % 2 == 1 and (y * 2):softmax() or y:matmul(w):relu()
    made[i], beside[i] = x, y
  end
  nn.output("steps", nn.stack(made, 1))
  nn.output("beside", nn.stack(beside, 2)) -- in pieces
  nn.output("layer", (nn.input("sequence", {3, 4, 32}):rnn("r", {hidden = 64})))
  at_most(11) -- without two that init runs
end
function cases.joined() -- reductions write where a concat lies, too, in one piece or in several
  local x, y = nn.input("x", {24, 40}), nn.input("y", {30, 40})
  local image = nn.input("image", {3, 10, 5, 7})
  nn.output("columns", nn.concat({x:mean(1, true), x:amax(1, true)}, 1))
  nn.output("rows", nn.concat({x:mean(2, true), x:amax(2, true)}, 2))
  nn.output("channels", nn.concat({image:mean(2, true), image:amax(2, true)}, 2))
  nn.output("pixels", nn.concat({(image * 2):mean{3, 4}, image:amax{3, 4}}, 2))
  nn.output("apart", nn.concat({(x * 2):exp():sum(1), y:sum(1)}, 1))
  at_most(5)
end
function cases.tokens() -- maps of what windows make of pixels, and of tokens that these are seen as
  local function tokens(name)
    return nn.input(name, {2, 48, 16}):linear(name .. "_in", {out = 16})
  end
  local x = tokens("x")
  local function over(y, window) -- (B, N, C) as a picture of 8 x 6, and back
    local picture = y:transpose(2, 3):reshape{2, 16, 8, 6}
    return window(picture):reshape{2, 16, 48}:transpose(2, 3)
  end
  local function depthwise(name)
    return function(y) return y:conv2d(name, {out = 16, kernel = 3, pad = 1, groups = 16}) end
  end
  nn.output("mixed", over(tokens("y"), depthwise("mix")):gelu())
  nn.output("placed", (x + over(x, depthwise("place"))) * nn.input("scale", {16}))
  local function pooled(y) return y:avg_pool2d(3, {stride = 1, pad = 1}) end
  nn.output("pooled", over(tokens("z"), pooled):silu())
  at_most(6)
end
-- Rows are stored where moves lead: windows of a picture, heads, a part of a stack, squares.
function cases.led()
  local x, y = nn.input("x", {2, 12, 12, 40}), nn.input("y", {3, 20, 48})
  local normed, cut = x:layer_norm("norm"), {2, 3, 4, 3, 4, 40}
  nn.output("rows", normed:amax(4)) -- read where they are, too
  nn.output("windows", normed:roll({-2, 1}, {2, 3}):reshape(cut):permute(1, 2, 4, 3, 5, 6)
                             :reshape(18, 16, 40))
  nn.output("heads", (y * 2):softmax():reshape(3, 20, 4, 12):permute(1, 3, 2, 4))
  nn.output("stacked", nn.concat({y:softmax():permute(2, 1, 3):reshape(60, 48),
                                  nn.input("z", {8, 48}):log_softmax()}, 1))
  nn.output("square", nn.input("s", {16, 16, 8}):rms_norm("rms"):permute(2, 1, 3))
  nn.output("across", nn.input("t", {12, 40, 64}):softmax(2):permute(2, 1, 3))
  at_most(6)
end
function cases.rolled() -- what a roll moves is read by maps and norms in one kernel each
  local x, y = nn.input("x", {24, 96}), nn.input("y", {24, 96})
  local once = x:roll(3, 2)
  local twice = once:roll(5, 1)
  nn.output("twice", twice); nn.output("product", once * twice)
  nn.output("norms", y:layer_norm("a"):tanh() * (y * 2):roll(2, 1):layer_norm("b"))
  at_most(2)
end
function cases.pooled() -- a product converts what its image is reduced to as it stores that
  local x = nn.input("x", {2, 16, 9, 8}):conv2d("c", {out = 32, kernel = 3, pad = 1}):relu()
  nn.output("mean", x:mean({3, 4}):linear("f", {out = 16}))
  nn.output("most", x:amax({3, 4}):linear("g", {out = 16}))
  at_most(4) -- in 16 bits; a copy of x among them
end
-- What maps make of elements is stored by the kernel that reduces these, or reduces them.
function cases.stored_bias()
  local g = nn.where(nn.input("y", {70, 45}):gt(0), nn.input("g", {70, 45}), 0.0)
  nn.output("slope", g); nn.output("bias", g:sum(1))
  at_most(1)
end
function cases.stored_total() -- of what takes long to compute
  local x = nn.input("x", {350, 360})
  local y = (x:tanh() * 3):exp():sin() + x:erf()
  nn.output("y", y); nn.output("total", y:sum())
  at_most(1)
end
function cases.stored_channels()
  local x = nn.input("image", {3, 10, 5, 7})
  nn.output("y", x:gelu()); nn.output("mean", x:gelu():mean{1, 3, 4})
  nn.output("var", x:var{1, 3, 4})
  at_most(1)
end
function cases.dense() -- layers that each read all before them, a part of one tensor
  local made = {nn.input("x", {2, 8, 6, 6}):conv2d("c0", {out = 16, kernel = 3, pad = 1})}
  for i = 1, 3 do
    local all = #made > 1 and nn.concat(made, 2) or made[1]
    local own = all:batch_norm2d("n" .. i, {training = true}):relu()
    made[i + 1] = own:conv2d("c" .. i, {out = 8, kernel = 3, pad = 1})
  end
  nn.output("y", nn.concat(made, 2))
  at_most(9)
end
return cases
end
