-- Right kernels whose results rounding may take far from the oracle's: few digits are left of 1 -
-- sigmoid(9) and of the differences of a running sum beside its terms, and beside an edge floor
-- gives the next number; and a kernel finds again which element is the largest. wrong = true: a kernel that is off beside it, which is found.
local nn = require "nn"
local cfg = nn.config{case = "digits", wrong = false}
local i = nn.index({64, 32}, 1):to("f32") * 32 + nn.index({64, 32}, 2):to("f32")
  + nn.input("zero", {64, 32}) * 0
if cfg.wrong then nn.op_row{name = "off", cuda = "$1 * 1.0001f", ref = function(x) return x end} end
local function made(x) return cfg.wrong and nn.op.off(x) or x end
local y
if cfg.case == "digits" then y = 1 - made(nn.sigmoid(i * (1 / 1024) + 8.5))
elseif cfg.case == "edges" then y = made(nn.floor(i / 49 * 49))
elseif cfg.case == "sums" then
  local x = nn.input("x", {400, 300})
  y = made(x:cumsum(2)):diff(1, 2) - x:slice(2, 2, -1)
elseif cfg.case == "largest" then
  local x = nn.input("x", {8, 64, 32})
  y = made(nn.grad(x:gelu():amax(2):square():sum(), x)) + x
elseif cfg.case == "places" then
  local x = nn.input("x", {8, 64, 32})
  y = nn.grad(nn.cummax(x:gelu(), 2):square():sum(), x)
elseif cfg.case == "steep" then -- scores of deviation 30, some masked; where they come from
  local x = nn.input("x", {1, 17, 32})
  local function heads(name)
    return x:matmul(nn.input(name, {32, 32})):view(1, 17, 2, 16):transpose(2, 3)
  end
  local z = nn.attention(heads("q"), heads("k"), heads("v"), {causal = true})
  y = nn.grad((z * nn.input("dz", z.shape)):sum(), x)
elseif cfg.case == "steeper" then -- of deviation 1600: rounding chooses another key
  local function scaled(name) return nn.input(name, {1, 2, 100, 32}) * 40.0 end
  local q, k, v = scaled("q"), scaled("k"), nn.input("v", {1, 2, 100, 32})
  local z = nn.functional.scaled_dot_product_attention(q, k, v)
  y = nn.grad((z * nn.input("dz", z.shape)):sum(), q)
elseif cfg.case == "padded" then -- rows to whose every score -1e9 is added: all are alike
  local q, k = nn.input("q", {2, 40, 16}), nn.input("k", {2, 40, 16})
  local v, i = nn.input("v", {2, 40, 16}), nn.index({40, 1}, 1)
  local s = q:matmul(k:transpose()) * 0.3 + nn.where(nn.index({1, 40}, 2):gt(i - 5), -1e9, 0.0)
  y = s:softmax():matmul(made(v))
  nn.output("rows", made((nn.input("x", {8, 64}) - 1e9):softmax()))
elseif cfg.case == "tables" then -- what two products read of positions alone
  local x, w = nn.input("x", {64, 40}), nn.input("w", {96, 32, 3, 3})
  local d = nn.cos(nn.exp(nn.index({64, 48}, 1):float() * 0.1)):linear("p", {out = 40}) - x
  nn.output("of_matmul", nn.grad((d * d):mean(), nn.parameters()[1]))
  local image = (nn.index({1152}, 1):float() * 1.7):cos():reshape{1, 32, 6, 6}
  nn.output("of_conv", nn.functional.conv2d(image, w, nil, {pad = 1}))
  y = nn.functional.conv2d(image, w * 2.0, nil, {pad = 1, stride = 2})
elseif cfg.case == "behind" then -- derivatives that jump, behind products of what kernels round
  local a, b, w = nn.input("a", {70, 33}), nn.input("b", {33, 129}), nn.input("w", {129})
  local add = nn.op_row{name = "near", cuda = "$1 + 0.1f", ref = function(x) return x end}
  local h = a:matmul(b)
  if cfg.wrong then h = add(h) end
  nn.output("relu", h:relu():sum(1))
  nn.output("relu_grad", nn.gt(h, 0):to("f32") * w)
  nn.output("abs_grad", nn.where(nn.gt(h, 0), w, -w))
  y = nn.gt(h, 0):to("f32"):sum(2)
elseif cfg.case == "ids" then -- one of 400 is the neighbour of the right one
  local add = nn.op_row{name = "next", nin = 2, cuda = "$1 + ($2 == 77.f ? 1.f : 0.f)",
                        ref = function(a, b) return a end}
  local h = nn.input("x", {400, 64}):matmul(nn.input("w", {64, 500}))
  local ids = nn.argmax(h, 2)
  y = cfg.wrong and add(ids:float(), nn.index({400}, 1):float()):to("i32") or ids
  nn.output("sorted", nn.argsort(h:slice(2, 1, 40):sigmoid(), 2))
  nn.output("cut", (h * 20):to("i32"))
elseif cfg.case == "moments" then -- sums of a mean of 0, and third moments, cancel
  local x = nn.input("x", {2, 40001})
  local z = x:layer_norm("ln")
  nn.output("sum", z:sum())
  local other = nn.input("other", {2, 40001})
  nn.output("apart", (x - x:mean(2, true)):sum() - (other - other:mean(2, true)):sum())
  y = made(nn.grad((z * z * z):sum(), x))
elseif cfg.case == "difference" then y = made(nn.exp(i * 1e-3)) - nn.exp(i * 1e-3 + 1e-6) end
nn.output("y", y)
