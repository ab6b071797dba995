-- nn_reduce.lua: reductions, scans and what is made of them, of the module `nn` (nn.lua). `axes` is
-- one axis or a list, by default all; the reduced dimensions are dropped unless `keep`.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, bits_of, is_float = tools.fail, tools.define, tools.bits_of, tools.is_float

-- Of axes, or of all.
local function bits_for(x, axes) return axes and bits_of(axes) or (1 << #shape(x)) - 1 end

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

-- row: a reduction by its attributes.
local function reduces(row)
  return function(x, axes, keep)
    local bits = bits_for(x, axes)
    return squeeze(row(x, {axes = bits}), bits, keep)
  end
end
local arguments = "(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)"
function tools.reduction(name, row) define(name .. arguments, "", reduces(row)) end -- a model's own

local function floats(name, x)
  if is_float(x) then return x end
  fail("%s: wants floats, not %s; x:to(\"f32\") makes them", name, core.dtype(x))
end

-- The power 1/p of a sum of sizes, whose derivative at 0 is 0, as torch's norm and std have it.
local function root(sum, p)
  local y = p == 2 and op.sqrt(sum) or op.pow(sum, 1 / p)
  return nn.custom_gradient(y, {sum}, function(g)
    local zero = op.eq(sum, 0.0)
    return op.where(zero, 0.0, g * y / op.where(zero, 1.0, sum * p))
  end)
end

-- ---- sums and the like ------------------------------------------------------------------------

-- Of integers and bools exact, in i32.
define("sum(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.sum", reduces(op.reduce_sum))
-- Of integers and bools exact, in i32.
define("prod(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.prod", reduces(op.reduce_prod))
define("mean(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.mean", function(x, axes, keep)
  local bits = bits_for(floats("mean", x), axes)
  return squeeze(op.reduce_sum(x, {axes = bits}) * (1 / count_of(x, bits)), bits, keep)
end)
-- NaN counts as 0.
define("nansum(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.nansum", function(x, axes, keep)
  return nn.sum(is_float(x) and op.where(op.ne(x, x), 0.0, x) or x, axes, keep)
end)
-- NaN does not count.
define("nanmean(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.nanmean", function(x, axes, keep)
  local known = op.eq(floats("nanmean", x), x)
  return nn.sum(op.where(known, x, 0.0), axes, keep) / nn.sum(known:to("f32"), axes, keep)
end)
-- How many elements are not 0, as i32.
define("count_nonzero(x: tensor, axes: axes = nil)", "torch.count_nonzero", function(x, axes)
  return nn.sum(op.ne(x, 0), axes)
end)
-- The logarithm of the sum of exponentials.
define("logsumexp(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.logsumexp", reduces(op.reduce_lse))

-- ---- the largest and the smallest -------------------------------------------------------------

local function in_own_dtype(row)
  return reduces(function(x, bits)
    local dtype = core.dtype(x)
    local y = row(x, bits)
    return (dtype == "u8" or dtype == "bool") and nn.to(y, dtype) or y
  end)
end
-- The largest element.
define("amax(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.amax", in_own_dtype(op.reduce_max))
-- The smallest element.
define("amin(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.amin", in_own_dtype(op.reduce_min))
-- Both: two results.
define("aminmax(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.aminmax", function(x, axes, keep)
  return nn.amin(x, axes, keep), nn.amax(x, axes, keep)
end)
-- The place of an extreme along the axes. Of integers: the first that is as large, which is exact
-- where floats are not.
local function place_of(row, extreme)
  local of_floats = reduces(row)
  return function(x, axes, keep)
    if is_float(x) or tools.product(shape(x)) == 0 then return of_floats(x, axes, keep) end
    local dims, bits, place, stride = shape(x), bits_for(x, axes), 0, 1
    for axis = #dims, 1, -1 do
      if bits >> (axis - 1) & 1 == 1 then
        place, stride = nn.index(dims, axis) * stride + place, stride * dims[axis]
      end
    end
    if stride == 1 then place = nn.zeros(dims, {dtype = "i32"}) end
    local most = extreme(nn.to(x, "i32"), {axes = bits})
    local first = op.where(op.eq(nn.to(x, "i32"), most), place, stride)
    return squeeze(op.reduce_min(first, {axes = bits}), bits, keep)
  end
end
-- The place of the largest element along the axes, counted row-major from 0, as i32. The lowest
-- place wins; NaN comes before all numbers.
define("argmax(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.argmax", place_of(op.reduce_argmax, op.reduce_max))
-- Likewise of the smallest.
define("argmin(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.argmin", place_of(op.reduce_argmin, op.reduce_min))

-- Of truths, or of numbers that are not 0.
define("all(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)", "torch.all",
       reduces(function(x, bits) return op.reduce_all(nn.to(x, "f32"), bits) end))
define("any(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)", "torch.any",
       reduces(function(x, bits) return op.reduce_any(nn.to(x, "f32"), bits) end))

-- ---- scans ------------------------------------------------------------------------------------
-- Each element becomes what the elements up to it along the axis, itself included, come to.

local function scans(row) return function(x, axis) return row(x, {axis = axis - 1}) end end
-- Their sum; of integers and bools exact, in i32.
define("cumsum(x: tensor, axis: axis = -1)", "torch.cumsum", scans(op.scan_sum))
-- Their product; of integers and bools exact, in i32.
define("cumprod(x: tensor, axis: axis = -1)", "torch.cumprod", scans(op.scan_prod))
-- The logarithm of the sum of their exponentials.
define("logcumsumexp(x: tensor, axis: axis = -1)", "torch.logcumsumexp", scans(op.scan_lse))
-- Their extreme, and a second result: its place from 0, of equal ones the last one's.
local function extremes(row)
  return function(x, axis)
    local y = row(x, {axis = axis - 1})
    local place = op.where(op.eq(x, y), nn.index(shape(x), axis), 0)
    return y, op.scan_max(place, {axis = axis - 1})
  end
end
-- The largest of them, and its place.
define("cummax(x: tensor, axis: axis = -1)", "torch.cummax", extremes(op.scan_max))
-- The smallest of them, and its place.
define("cummin(x: tensor, axis: axis = -1)", "torch.cummin", extremes(op.scan_min))
-- x with `before` ahead of it and `behind` after it, if they are there.
local function extended(x, axis, before, behind)
  local parts = {x}
  if before then table.insert(parts, 1, before) end
  parts[#parts + 1] = behind
  return #parts > 1 and nn.concat(parts, axis) or x
end
local function pairs_of(x, axis) -- each element but the first, and the one before it
  local n = shape(x)[axis]
  return nn.slice(x, axis, 2, n), nn.slice(x, axis, 1, n - 1)
end
-- Differences of neighbours along an axis, n times, of x with these tensors before and behind it;
-- of bools, whether they differ.
define([[diff(x: tensor, n: amount = 1, axis: axis = -1, prepend: tensor = nil,
       append: tensor = nil)]], "torch.diff", function(x, n, axis, prepend, append)
  if n == 0 then return x end
  x = extended(x, axis, prepend, append)
  for _ = 1, n do
    if shape(x)[axis] < 2 then return nn.slice(x, axis, 1, 0) end
    local b, a = pairs_of(x, axis)
    if core.dtype(x) == "bool" then x = op.logical_xor(b, a) else x = b - a end
  end
  return x
end)

-- The area between each two neighbours. between: how far they are from each other: a number, or the
-- places of the points, a tensor along the axis or one that broadcasts to y.
local function areas(y, between, axis)
  local b, a = pairs_of(y, axis)
  if core.is_tensor(between) and #shape(between) > 0 then
    if #shape(between) == 1 then between = tools.along(between, #shape(y), axis) end
    local far, near = pairs_of(between, axis + #shape(between) - #shape(y))
    return (a + b) * (far - near) * 0.5
  end
  return (a + b) * 0.5 * between
end
-- The integral along an axis by the trapezoidal rule: of points dx apart, or of points at the
-- places x, a tensor.
define("trapezoid|trapz(y: tensor, dx|x: value = 1, axis: axis = -1)",
       "torch.trapezoid", function(y, dx, axis)
  return nn.sum(areas(y, dx, axis), axis)
end)
-- The same up to each point but the first.
define("cumulative_trapezoid(y: tensor, dx|x: value = 1, axis: axis = -1)",
       "torch.cumulative_trapezoid", function(y, dx, axis)
  return nn.cumsum(areas(y, dx, axis), axis)
end)

-- ---- moments and norms ------------------------------------------------------------------------

-- The sum of squared distances from the mean over count - correction; exact where the mean is large
-- beside the deviation.
local function variance(name, x, bits, correction)
  local n = count_of(x, bits)
  return op.reduce_var(floats(name, x), {axes = bits}) * (n / math.max(n - correction, 0))
end
-- The sum of squared distances from the mean over (count - correction); NaN of too few elements.
define("var(x: tensor, axes: axes = nil, keep|keepdim: boolean = false, correction: whole = 1)",
       "torch.var", function(x, axes, keep, correction)
  local bits = bits_for(x, axes)
  return squeeze(variance("var", x, bits, correction), bits, keep)
end)
-- Its root.
define("std(x: tensor, axes: axes = nil, keep|keepdim: boolean = false, correction: whole = 1)",
       "torch.std", function(x, axes, keep, correction)
  local bits = bits_for(x, axes)
  return squeeze(root(variance("std", x, bits, correction), 2), bits, keep)
end)
-- var and mean: two results.
define([[var_mean(x: tensor, axes: axes = nil, keep|keepdim: boolean = false,
       correction: whole = 1)]], "torch.var_mean", function(x, axes, keep, correction)
  return nn.var(x, axes, keep, correction), nn.mean(x, axes, keep)
end)
-- std and mean: two results.
define([[std_mean(x: tensor, axes: axes = nil, keep|keepdim: boolean = false,
       correction: whole = 1)]], "torch.std_mean", function(x, axes, keep, correction)
  return nn.std(x, axes, keep, correction), nn.mean(x, axes, keep)
end)
-- (sum |x|^p)^(1/p); p = inf: the largest |x|, -inf: the smallest, 0: how many are not 0.
define("norm(x: tensor, p: number = 2, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.norm", function(x, p, axes, keep)
  local size = op.abs(floats("norm", x))
  if p == math.huge then return nn.amax(size, axes, keep) end
  if p == -math.huge then return nn.amin(size, axes, keep) end
  if p == 0 then return nn.sum(op.ne(x, 0):to("f32"), axes, keep) end
  if p == 1 then return nn.sum(size, axes, keep) end
  return root(nn.sum(p == 2 and x * x or op.pow(size, p), axes, keep), p + 0.0)
end)
-- The norm of x - y.
define("dist(x: tensor, y: tensor, p: number = 2)", "torch.dist", function(x, y, p)
  return nn.norm(x - y, p)
end)
-- x over its norm along an axis, or over eps where that is larger.
define("normalize(x: tensor, p: number = 2, axis: axis = 2, eps: number = 1e-12)",
       "F.normalize", function(x, p, axis, eps)
  return x / op.max(nn.norm(x, p, axis, true), eps)
end)
-- The cosine of the angle between rows of x and y along an axis; norms below eps count as eps.
define("cosine_similarity(x: tensor, y: tensor, axis: axis = 2, eps: number = 1e-8)",
       "F.cosine_similarity, nn.CosineSimilarity", function(x, y, axis, eps)
  local function size(v) return op.max(op.sqrt(nn.sum(v * v, axis)), eps) end
  return nn.sum(x * y, axis) / (size(x) * size(y))
end)
-- The norm of x - y + eps along the last axis.
define([[pairwise_distance(x: tensor, y: tensor, p: number = 2, eps: number = 1e-6,
       keep|keepdim: boolean = false)]],
       "F.pairwise_distance, nn.PairwiseDistance", function(x, y, p, eps, keep)
  return nn.norm(x - y + eps, p, -1, keep)
end)
-- Of each row of x (..., P, M) and each of y (..., R, M) the norm of their difference: (..., P, R).
define("cdist(x: tensor, y: tensor, p: number = 2)", "torch.cdist", function(x, y, p)
  if p < 0 then fail("cdist: p = %g: wants at least 0", p) end
  return nn.norm(nn.unsqueeze(x, -2) - nn.unsqueeze(y, -3), p, -1)
end)

-- Distances of all pairs of rows of (N, M), each once: (N (N - 1) / 2).
define("pdist(x: tensor, p: number = 2)", "F.pdist, torch.pdist", function(x, p)
  local n = shape(x)[1]
  if #shape(x) ~= 2 or n < 2 then
    fail("pdist: wants (N, M) with at least two rows, not %s", tostring(x))
  end
  if p < 0 then fail("pdist: p = %g: wants at least 0", p) end
  local rows = {}
  for i = 1, n - 1 do rows[i] = nn.norm(nn.slice(x, 1, i, i) - nn.slice(x, 1, i + 1, n), p, 2) end
  return nn.concat(rows, 1)
end)
-- The covariance matrix of variables (rows) over observations (columns); of a vector its variance.
define("cov(x: tensor, {correction: whole = 1})", "torch.cov", function(x, o)
  if #shape(x) < 2 then
    return nn.reshape(nn.cov(op.reshape(x, {dims = {1, nn.numel(x)}}), o), {})
  end
  if #shape(x) ~= 2 then fail("cov: wants (variables, observations), not %s", tostring(x)) end
  local d = x - nn.mean(x, 2, true)
  return op.matmul(d, nn.transpose(d)) * (1 / math.max(shape(x)[2] - o.correction, 0))
end)
-- Of rows of observations the correlation of each two.
define("corrcoef(x: tensor)", "torch.corrcoef", function(x)
  if #shape(x) < 2 then
    return nn.reshape(nn.corrcoef(op.reshape(x, {dims = {1, nn.numel(x)}})), {})
  end
  if #shape(x) ~= 2 then fail("corrcoef: wants (variables, observations), not %s", tostring(x)) end
  local d = x - nn.mean(x, 2, true)
  local rows = d * op.rsqrt(nn.sum(d * d, 2, true))
  return nn.clamp(op.matmul(rows, nn.transpose(rows)), -1.0, 1.0)
end)
-- The sum over what broadcasting to x would have repeated: a tensor of these sizes.
define("sum_to_size(x: tensor, sizes: sizes)", "Tensor.sum_to_size", function(x, sizes)
  local dims, over = shape(x), {}
  local ahead = #dims - #sizes
  for i, d in ipairs(dims) do
    local to = sizes[i - ahead]
    if i <= ahead or to == 1 and d ~= 1 then over[#over + 1] = i
    elseif to ~= d then
      fail("sum_to_size: (%s) does not broadcast to %s", table.concat(sizes, ", "), tostring(x))
    end
  end
  if ahead < 0 then
    fail("sum_to_size: (%s) does not broadcast to %s", table.concat(sizes, ", "), tostring(x))
  end
  return op.reshape(#over > 0 and nn.sum(x, over, true) or x, {dims = sizes})
end)
-- Rows along an axis whose norm is above `most` scaled down to it.
define("renorm(x: tensor, p: number, axis: axis, most|maxnorm: number)",
       "torch.renorm", function(x, p, axis, most)
  local others = {}
  for i = 1, #shape(x) do if i ~= axis then others[#others + 1] = i end end
  local size = nn.norm(x, p, others, true)
  return op.where(op.gt(size, most), x * (most / (size + 1e-7)), x)
end)

-- ---- softmax ----------------------------------------------------------------------------------

-- A row that is long, or lies across memory, may not be kept in registers: each sweep reads it
-- again.
local function is_read_again(x, bits)
  return bits ~= 1 << (#shape(x) - 1) or count_of(x, bits) > 16384
end
tools.is_read_again = is_read_again

-- What is subtracted before exponentials: it cancels out, and so do derivatives by it.
local function largest(reduce, x, bits) return op.stop_gradient(reduce(x, {axes = bits})) end

-- exp(x) over the sum of exp(x) along one axis.
define("softmax(x: tensor, axis: axis = -1)", "F.softmax, nn.Softmax", function(x, axis)
  local bits = 1 << (axis - 1)
  if is_read_again(x, bits) then -- twice, not three times
    return op.exp(x - largest(op.reduce_most, x, bits)) / op.reduce_expsum(x, {axes = bits})
  end
  local e = op.exp(x - largest(op.reduce_max, x, bits))
  return e / op.reduce_sum(e, {axes = bits})
end)
-- Its logarithm.
define("log_softmax(x: tensor, axis: axis = -1)", "F.log_softmax, nn.LogSoftmax", function(x, axis)
  local bits = 1 << (axis - 1)
  if is_read_again(x, bits) then
    return x - largest(op.reduce_most, x, bits) - op.log(op.reduce_expsum(x, {axes = bits}))
  end
  local d = x - largest(op.reduce_max, x, bits)
  return d - op.log(op.reduce_sum(op.exp(d), {axes = bits}))
end)
-- softmax(-x).
define("softmin(x: tensor, axis: axis = -1)", "F.softmin, nn.Softmin", function(x, axis)
  return nn.softmax(-x, axis)
end)
-- softmax over the channels of pictures.
define("softmax2d(x: tensor)", "nn.Softmax2d", function(x) return nn.softmax(x, -3) end)
