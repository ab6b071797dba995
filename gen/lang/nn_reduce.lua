-- nn_reduce.lua: reductions and what is made of them, of the module `nn` (nn.lua).
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, layer, tensor = tools.fail, tools.layer, tools.tensor
local axes_bits, axis_of = tools.axes_bits, tools.axis_of

local function count_of(x, bits)
  local n = 1
  for i, d in ipairs(shape(x)) do if bits >> (i - 1) & 1 == 1 then n = n * d end end
  return n
end

-- Drops the reduced dimensions unless `keep`.
local function squeeze(x, bits, keep)
  if keep then return x end
  local dims = {}
  for i, d in ipairs(shape(x)) do if bits >> (i - 1) & 1 == 0 then dims[#dims + 1] = d end end
  return op.reshape(x, {dims = dims})
end

-- sum, prod, amax, amin, mean (x, axes, keep): over an axis or a list of axes (default: all).
-- all, any, logsumexp likewise. Sums and products of integers and bools are exact, in i32; the largest and
-- the smallest have the dtype of x.
local function reduction(name, row)
  layer(name, function(x, axes, keep)
    local bits = axes_bits(name, tensor(name, x), axes)
    return squeeze(row(x, {axes = bits}), bits, keep)
  end)
end
tools.reduction = reduction
for name, row in pairs{sum = "reduce_sum", prod = "reduce_prod", logsumexp = "reduce_lse"} do
  reduction(name, op[row])
end
for name, row in pairs{amax = "reduce_max", amin = "reduce_min"} do
  reduction(name, function(x, bits)
    local dtype = core.dtype(x)
    local y = op[row](x, bits)
    return (dtype == "u8" or dtype == "bool") and nn.to(y, dtype) or y
  end)
end
for _, name in ipairs{"all", "any"} do -- of truths, or of numbers that are not 0
  reduction(name, function(x, bits) return op["reduce_" .. name](nn.to(x, "f32"), bits) end)
end
layer("mean", function(x, axes, keep)
  local bits = axes_bits("mean", tensor("mean", x), axes)
  if not core.dtype(x):find("f") then
    fail("mean: wants floats, not %s; x:to(\"f32\") makes them", core.dtype(x))
  end
  return squeeze(op.reduce_sum(x, {axes = bits}) * (1 / count_of(x, bits)), bits, keep)
end)

-- argmax, argmin (x, axes, keep): the place of the largest (smallest) element along the axes, counted
-- row-major from 0, as i32. The lowest place wins; NaN comes before all numbers.
for _, name in ipairs{"argmax", "argmin"} do reduction(name, op["reduce_" .. name]) end

-- cumsum, cumprod, logcumsumexp (x, axis): of x's shape; each element is the sum (the product, the logarithm
-- of the sum of exponentials) of the elements up to it along the axis, the last by default, itself included.
-- Sums and products of integers and bools are exact, in i32. As torch.cumsum.
for name, row in pairs{cumsum = "scan_sum", cumprod = "scan_prod", logcumsumexp = "scan_lse"} do
  layer(name, function(x, axis)
    return op[row](x, {axis = axis_of(name, tensor(name, x), axis or -1)})
  end)
end

-- topk(x, k, axis): the k (at most 64) largest elements along an axis, the last by default, and their places
-- in it as i32, counted from 0: two tensors of x's shape with k elements along the axis, the largest first.
-- Of equal elements the lower place stands first, NaN before all numbers. As torch.topk.
layer("topk", function(x, k, axis)
  local at = axis_of("topk", tensor("topk", x), axis or -1)
  local places = op.topk(x, {axis = at, count = tools.count("topk: k", k)})
  return op.take_along(x, places, {axis = at}), places
end)

-- var, std (x, axes, keep, correction = 1): the sum of squared distances from the mean over count -
-- correction, as PyTorch's; exact where the mean is large beside the deviation.
local function variance(name, x, bits, correction)
  local n = count_of(tensor(name, x), bits)
  if n <= correction then
    fail("%s: %d elements, less the correction %d, leave none", name, n, correction)
  end
  return op.reduce_var(x, {axes = bits}) * (n / (n - correction))
end
layer("var", function(x, axes, keep, correction)
  local bits = axes_bits("var", tensor("var", x), axes)
  return squeeze(variance("var", x, bits, correction or 1), bits, keep)
end)
layer("std", function(x, axes, keep, correction)
  local bits = axes_bits("std", tensor("std", x), axes)
  return squeeze(op.sqrt(variance("std", x, bits, correction or 1)), bits, keep)
end)

-- A row that is long, or lies across memory, may not be kept in registers: each sweep reads it again.
local function is_read_again(x, bits)
  return bits ~= 1 << (#shape(x) - 1) or count_of(x, bits) > 16384
end
tools.is_read_again = is_read_again

-- softmax, log_softmax (x, axis): along one axis, the last by default.
layer("softmax", function(x, axis)
  local bits = axes_bits("softmax", tensor("softmax", x), axis or -1)
  if is_read_again(x, bits) then -- twice, not three times
    return op.exp(x - op.reduce_most(x, {axes = bits})) / op.reduce_expsum(x, {axes = bits})
  end
  local e = op.exp(x - op.reduce_max(x, {axes = bits}))
  return e / op.reduce_sum(e, {axes = bits})
end)
layer("log_softmax", function(x, axis)
  local bits = axes_bits("log_softmax", tensor("log_softmax", x), axis or -1)
  if is_read_again(x, bits) then
    return x - op.reduce_most(x, {axes = bits}) - op.log(op.reduce_expsum(x, {axes = bits}))
  end
  local d = x - op.reduce_max(x, {axes = bits})
  return d - op.log(op.reduce_sum(op.exp(d), {axes = bits}))
end)
