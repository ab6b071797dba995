-- A case for each rule of nn.grad: inputs a (and b, c), all in one loss; tests/gen/test_grad.c
-- holds the gradients to central differences.
local nn = require "nn"
local cfg = nn.config{case = "add"}
local cases, op = {}, nn.op

local made, tensors, names = {}, {}, {}
local function input(name, dims) -- the same one when it is asked for again
  if not made[name] then
    made[name] = nn.input(name, dims)
    tensors[#tensors + 1], names[#names + 1] = made[name], name
  end
  return made[name]
end
local function a(...) return input("a", {...}) end
local function b(...) return input("b", {...}) end
local function c(...) return input("c", {...}) end

function cases.add() return a(3, 4) + b(4) end -- broadcast
function cases.mul() return a(2, 1, 4) * b(3, 1) - a() end
function cases.shared() local x = a(5); return x * x / (x + 2) end -- read several times
function cases.functions()
  local x = a(6)
  return nn.exp(x) + nn.log(x) * x:sqrt() + x:tanh() * x:sigmoid() + x:silu() + x:gelu()
    + nn.rsqrt(x) + x ^ 2
end
function cases.choices()
  local x, y = a(8), b(8)
  return op.max(x, y) + op.where(op.gt(x, 1), x * y, y) + op.min(x, 1) * nn.abs(x - 0.9)
    + nn.relu(x - 1)
end
function cases.sums() local x = a(3, 4, 2); return x:sum({1, 3}) * x:mean(2, true):sum() end
function cases.extremes() local x = a(3, 7); return x:amax(2) * 2 + x:amin(2) end
function cases.norms()
  local x = a(4, 6)
  return (x - x:mean(2, true)) * nn.rsqrt(x:var(2, true) + 0.1) * b(6)
end
function cases.softmax() return a(3, 5):softmax() * b(3, 5) + a():logsumexp(2, true) end
function cases.cancelled() -- by softmax, twice too
  local x = a(3, 5)
  local d = x + b(3, 1) - x:amax(2, true)
  local e = d:exp()
  return (d - d:amax(2, true)):log_softmax() * c(3, 5) + e / e:sum(2, true)
end
function cases.cancelled_masked() -- by softmax of what a condition leaves
  local x, m = a(3, 5), nn.index({3, 5}, 2):le(nn.index({3, 5}, 1) + 1)
  local e = nn.where(m, (x - x:amax(2, true)):exp(), 0)
  local f = nn.where(m, x - x:amax(2, true), -math.huge):exp()
  return e / e:sum(2, true) * b(3, 5) + f / f:sum(2, true) * c(3, 5)
end
function cases.not_cancelled_masked() -- by a softmax of two
  local x, m = a(3, 5), nn.index({3, 5}, 2):le(nn.index({3, 5}, 1) + 1)
  local e = nn.where(m, (x - x:amax(2, true)):exp(), 0.5)
  return e / e:sum(2, true) * b(3, 5)
end
function cases.not_cancelled() -- by sums along another axis, of more, or where more is read
  local x = a(3, 5)
  local d = x - x:amax(2, true)
  local e = d:exp()
  return e / e:sum(1, true) * b(3, 5) + e / (e:sum(2, true) + 1) + d * d
end
function cases.not_cancelled_alone() -- likewise, each in a loss without the others
  local x = a(3, 5)
  local e = (x - x:amax(2, true)):exp()
  return e / e:sum(1, true) * b(3, 5)
end
function cases.prod() return a(2, 5):prod(2) end
function cases.scan() return a(3, 6):cumsum(2) * b(3, 6) end
function cases.log_sums() return a(3, 6):logcumsumexp(2) * b(3, 6) end
function cases.log_sums_twice() -- and by axis 1; weights of both signs
  local x = a(4, 3)
  return nn.grad((x:logcumsumexp(1) * (b(4, 3) - 1)):sum(), x) ^ 2 * c(3)
end
function cases.log_sums_thrice()
  local x = a(2, 4)
  local first = nn.grad((x:logcumsumexp(2) * (b(2, 4) - 1)):sum(), x)
  return nn.grad((first ^ 3):sum(), x) ^ 2
end
function cases.products() return a(3, 6):cumprod(2) * b(3, 6) end
function cases.matmul() return a(2, 3, 4):matmul(b(4, 5)) end
function cases.batched() return a(2, 3, 4):matmul(b(2, 4, 5)):matmul(c(5, 2)) end
function cases.conv()
  return op.conv2d(a(2, 4, 7, 6), b(6, 2, 3, 2),
                   {stride = {2, 1}, pad = {1, 0, 0, 1}, dilation = {1, 2}, groups = 2})
end
function cases.transposed()
  return op.conv2d_data(a(1, 4, 3, 3), b(4, 2, 3, 3),
                        {stride = {2, 2}, pad = {1, 1, 1, 1}, size = {5, 5}})
end
function cases.filter()
  return op.conv2d_filter(a(1, 3, 3, 3), b(1, 2, 5, 5),
                          {stride = {2, 2}, pad = {1, 1, 1, 1}, size = {3, 3}})
end
function cases.pooled() return a(1, 3, 6, 5):avg_pool2d{kernel = 2} * b(3, 1, 1) end
function cases.max_pooled() return a(2, 3, 7, 6):max_pool2d{kernel = {2, 3}} * b(3, 1, 1) end
function cases.max_pooled_over()
  return a(2, 3, 7, 6):max_pool2d{kernel = 3, stride = 2, pad = 1} * b(3, 1, 1)
end
function cases.max_pooled_dilated()
  return a(1, 2, 8, 7):max_pool2d{kernel = {2, 3}, stride = {3, 1}, dilation = {3, 2}, pad = 1}
    * b(2, 1, 1)
end
function cases.max_pooled_dense() return a(1, 2, 5, 7):max_pool2d{kernel = {3, 2}, stride = 1} end
function cases.moved()
  local x = a(2, 3, 4)
  local y = x:permute{3, 1, 2}:reshape{4, 6}
  return nn.concat({nn.slice(y, 2, 2, 4), y:exp()}, 2) * b(4, 9)
    + op.pad(nn.slice(y, 2, 1, 3), {dims = {0, 2}, ends = {0, 4}})
end
function cases.gathered()
  local ids = nn.input("ids", {2, 3}, {dtype = "i32", below = 4})
  return nn.gather(a(5, 4, 2), ids, 2) * b(2, 3, 2)
end
function cases.chosen()
  local ids = nn.input("ids", {3, 2}, {dtype = "i32", below = 4})
  return nn.take_along(a(3, 4), ids, 2) * b(3, 2)
end
function cases.top() local values = a(3, 6):topk(2); return values * b(3, 2) end
function cases.stopped() local x = a(4); return x * nn.stop_gradient(x * 1) end
function cases.network() -- convolutions, a sum of two branches, a pool, a cross-entropy
  local ids = nn.input("ids", {2}, {dtype = "i32", below = 3})
  local x = nn.relu(op.conv2d(a(2, 2, 6, 6), b(3, 2, 3, 3),
                              {stride = {2, 2}, pad = {1, 1, 1, 1}}) - 4)
  x = (x + nn.relu(op.conv2d(x, c(3, 3, 3, 3), {pad = {1, 1, 1, 1}}) - 30)):avg_pool2d{kernel = 3}
  local logits = x:reshape{2, 3} * 0.3
  return logits:logsumexp(2) - nn.take_along(logits, ids:reshape{2, 1}, 2):reshape{2}
end
function cases.twice() -- a gradient penalty
  local x, w = a(3, 4), b(4, 2)
  local y = nn.tanh(x:matmul(w))
  local g = nn.grad((y * y):sum(), x)
  return (g * g):sum() + y:mean()
end

function cases.batch_norm() -- its own rule
  return a(3, 2, 4, 3):batch_norm2d("bn", {training = true}) * b(2, 1, 1)
end
function cases.batch_norm_twice()
  local x = a(3, 2, 2, 3)
  local y = x:batch_norm2d("bn", {training = true, affine = false})
  local g = nn.grad((y * y * y):sum(), x)
  return g * g + y
end
function cases.custom() -- a rule of the model's own, here the true one
  local x, w = a(3, 4), b(4)
  return nn.custom_gradient(x * x * w, {x, w}, function(g)
    return g * x * w * 2, (g * x * x):sum(1)
  end) + x
end
function cases.own() -- rows of the model's own: of two inputs, with a kink, of part of the numbers
  local scaled = nn.op_row{name = "scaled_log", nin = 2, cuda = "nn_log($1) * $2",
    ref = function(x, k) return math.log(x) * k end,
    grad = function(g, y, x, k) return g * k / x, g * nn.log(x) end}
  local bound = nn.op_row{name = "at_least_one", cuda = "nn_max($1, 1.f)",
    ref = function(x) return math.max(x, 1) end,
    grad = function(g, y, x) return where(lt(x, 1), 0.0, g) end}
  local known = nn.op_row{name = "times", nin = 2, cuda = "$1 * $2", -- the second is a constant
    ref = function(x, k) return x * k end, grad = function(g, y, x, k) return g * k, nil end}
  return scaled(a(3, 4), b(4)) + bound(a()) + known(b(), nn.stop_gradient(b()) * 0 + 2.0)
end
function cases.own_reduction()
  local squares = nn.op_row{name = "mean_square", class = "reduce", result = "a.sum / a.count",
    ref_result = function(sum, count) return sum / count end, acc = {name = "squares",
      {"sum", init = "0.f", element = "$1 * $1", combine = "a.sum + b.sum",
       ref = function(sum, count, x) return sum + x * x end},
      {"count", init = "0.f", element = "1.f", combine = "a.count + b.count",
       ref = function(sum, count, x) return count + 1 end}},
    grad = function(g, y, x) return g * x * (2 * y:numel() / x:numel()) end}
  local total = nn.op_row{name = "total", class = "reduce", cuda = "$1 + $2", init = "0.f",
    ref = function(x, y) return x + y end, grad = function(g) return g end}
  return squares(a(3, 4, 2), {1, 3}) * total(a(), {1, 3}) + squares(a()) * b(4)
end

local y = cases[cfg.case]()
local loss = (y * nn.sin(y * 0.7 + 0.3)):sum()
nn.output("loss", loss)
for i, g in ipairs{table.unpack(nn.grad(loss, tensors))} do -- it is all that nn.grad gives
  nn.output("d" .. names[i], g) end
