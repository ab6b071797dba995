-- nn_reduce.lua: reductions, scans and functions built from them, of the module `nn` (nn.lua).
-- `axes` is one axis or a list, by default all; the reduced dimensions are dropped unless `keep`.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, bits_of, is_float = tools.fail, tools.define, tools.bits_of, tools.is_float

-- Axes as a bit mask; nil: all.
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

-- row: attributes -> a reduction.
local function reduces(row)
  return function(x, axes, keep)
    local bits = bits_for(x, axes)
    return squeeze(row(x, {axes = bits}), bits, keep)
  end
end
local arguments = "(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)"
function tools.reduction(name, row) define(name .. arguments, "", reduces(row)) end -- a model's

local function floats(name, x)
  if is_float(x) then return x end
  fail("%s: expected floats, got %s; x:to(\"f32\") converts", name, core.dtype(x))
end
tools.axes_given = {bits = bits_for, count = count_of, squeeze = squeeze, floats = floats}

-- ---- sums and the like ------------------------------------------------------------------------

-- The sum; of integers and bools exact, in i32.
define("sum(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.sum", reduces(op.reduce_sum))
-- The product; of integers and bools exact, in i32.
define("prod(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.prod", reduces(op.reduce_prod))
define("mean(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.mean", function(x, axes, keep)
  local bits = bits_for(floats("mean", x), axes)
  return squeeze(op.reduce_sum(x, {axes = bits}) * (1 / count_of(x, bits)), bits, keep)
end)
-- The sum, with NaN counted as 0.
define("nansum(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.nansum", function(x, axes, keep)
  return nn.sum(is_float(x) and op.where(op.ne(x, x), 0.0, x) or x, axes, keep)
end)
-- The mean of the elements that are not NaN.
define("nanmean(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.nanmean", function(x, axes, keep)
  local known = op.eq(floats("nanmean", x), x)
  return nn.sum(op.where(known, x, 0.0), axes, keep) / nn.sum(known, axes, keep)
end)
-- The number of non-zero elements, as i32.
define("count_nonzero(x: tensor, axes: axes = nil)", "torch.count_nonzero", function(x, axes)
  return nn.sum(op.ne(x, 0), axes)
end)
-- The logarithm of the sum of exponentials.
define("logsumexp(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.logsumexp", function(x, axes, keep)
  return reduces(op.reduce_lse)(is_float(x) and x or nn.to(x, "f32"), axes, keep)
end)
-- Sums x to these sizes: the inverse of broadcasting.
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

-- ---- minimum and maximum ------------------------------------------------------------------------

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
-- The smallest and the largest element: two results.
define("aminmax(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.aminmax", function(x, axes, keep)
  return nn.amin(x, axes, keep), nn.amax(x, axes, keep)
end)
-- The position of an extreme along the axes. For integers: the first element equal to it, which is
-- exact where floats are not.
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
-- The position of the largest element along the axes, counted row-major from 0, as i32. The lowest
-- position wins ties; NaN is larger than all numbers.
define("argmax(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.argmax", place_of(op.reduce_argmax, op.reduce_max))
-- The position of the smallest element, as argmax; NaN is smaller than all numbers.
define("argmin(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.argmin", place_of(op.reduce_argmin, op.reduce_min))

-- Logical reduction of bools, or of numbers as x != 0.
define("all(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)", "torch.all",
       reduces(function(x, bits) return op.reduce_all(nn.to(x, "f32"), bits) end))
define("any(x: tensor, axes: axes = nil, keep|keepdim: boolean = false)", "torch.any",
       reduces(function(x, bits) return op.reduce_any(nn.to(x, "f32"), bits) end))

-- ---- scans ------------------------------------------------------------------------------------
-- Each element becomes the accumulation of the elements up to and including it along the axis.

local function scans(row) return function(x, axis) return row(x, {axis = axis - 1}) end end
-- Cumulative sum; of integers and bools exact, in i32.
define("cumsum(x: tensor, axis: axis = -1)", "torch.cumsum", scans(op.scan_sum))
-- Cumulative product; of integers and bools exact, in i32.
define("cumprod(x: tensor, axis: axis = -1)", "torch.cumprod", scans(op.scan_prod))
-- Cumulative log-sum-exp.
define("logcumsumexp(x: tensor, axis: axis = -1)", "torch.logcumsumexp", scans(op.scan_lse))
-- A running extreme, and its position from 0 as a second result, the last of equal ones; NaN is
-- more extreme than all numbers.
local function extremes(row)
  return function(x, axis)
    local along = {axis = axis - 1}
    local most = row(x, along)
    local same = op.eq(x, most)
    local place = op.where(is_float(x) and same | op.ne(x, x) or same, nn.index(shape(x), axis), 0)
    place = op.scan_max(place, along)
    if not is_float(x) then return most, place end
    return nn.custom_gradient(most, {x}, function(g) -- to the elements at `place`
      return tools.taken_gradient(g, x, place, axis)
    end), place
  end
end
-- The running maximum, and its position.
define("cummax(x: tensor, axis: axis = -1)", "torch.cummax", extremes(op.scan_max))
-- The running minimum, and its position.
define("cummin(x: tensor, axis: axis = -1)", "torch.cummin", extremes(op.scan_min))
-- x with `before` prepended and `behind` appended, if given.
local function extended(x, axis, before, behind)
  local parts = {x}
  if before then table.insert(parts, 1, before) end
  parts[#parts + 1] = behind
  return #parts > 1 and nn.concat(parts, axis) or x
end
local function pairs_of(x, axis) -- each element except the first, and its predecessor
  local n = shape(x)[axis]
  return nn.slice(x, axis, 2, n), nn.slice(x, axis, 1, n - 1)
end
-- The n-th differences of neighbours along an axis, of x extended by these tensors before and after
-- it; of bools, whether neighbours differ.
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

-- The trapezoid areas between neighbours. between: their distance, a number, or the coordinates of
-- the points, a tensor along the axis or one that broadcasts to y.
local function areas(what, y, between, axis)
  local b, a = pairs_of(y, axis)
  if core.is_tensor(between) and #shape(between) > 0 then
    local places, n = between, shape(y)[axis]
    if #shape(places) == 1 then places = tools.along(places, #shape(y), axis) end
    local along = axis + #shape(places) - #shape(y)
    if shape(places)[along] ~= n then
      fail("%s: x: expected %d coordinates along axis %d, or one per interval, got %s",
           what, n, axis, tostring(between))
    end
    local far, near = pairs_of(places, along)
    return (a + b) * (far - near) * 0.5
  end
  return (a + b) * 0.5 * between
end
-- The integral along an axis by the trapezoidal rule, for points dx apart or points at the
-- coordinates x, a tensor.
define("trapezoid|trapz(y: tensor, dx|x: value = 1, axis: axis = -1)",
       "torch.trapezoid", function(y, dx, axis)
  return nn.sum(areas("trapezoid", y, dx, axis), axis)
end)
-- The cumulative integral, as trapezoid, at each point except the first.
define("cumulative_trapezoid(y: tensor, dx|x: value = 1, axis: axis = -1)",
       "torch.cumulative_trapezoid", function(y, dx, axis)
  return nn.cumsum(areas("cumulative_trapezoid", y, dx, axis), axis)
end)

-- Finite-difference weights of three points, `near` and `far` apart, for the derivative at the
-- first, the middle and the last of them.
local function slope_weights(near, far)
  local both = near + far
  return {{-(near + both) / (near * both), both / (near * far), -near / (far * both)},
          {-far / (near * both), (far - near) / (near * far), near / (far * both)},
          {far / (near * both), -both / (near * far), (far + both) / (far * both)}}
end
-- The derivative along an axis of values `between` apart: a number, or a tensor of coordinates.
local function slope(x, axis, between, edge_order)
  local n, rank = shape(x)[axis], #shape(x)
  if n <= edge_order then
    fail("gradient: axis %d of %s: expected at least %d elements for edge_order = %d", axis,
         tostring(x), edge_order + 1, edge_order)
  end
  local function at(v, first, last) return nn.slice(v, axis, first, last) end
  local gaps
  if core.is_tensor(between) then
    if #shape(between) ~= 1 or shape(between)[1] ~= n then
      fail("gradient: spacing: expected (%d), the coordinates along axis %d, got %s", n, axis,
           tostring(between))
    end
    gaps = nn.diff(tools.along(between, rank, axis), 1, axis)
  end
  local function gap(first, last) return gaps and at(gaps, first, last) or between + 0.0 end
  -- At position `place` of each triple; the triples start at `first` to `last`.
  local function of_three(place, first, last)
    local weights = slope_weights(gap(first, last), gap(first + 1, last + 1))[place]
    local sum = at(x, first, last) * weights[1] + at(x, first + 2, last + 2) * weights[3]
    return weights[2] == 0 and sum or sum + at(x, first + 1, last + 1) * weights[2]
  end
  local function of_two(first)
    return (at(x, first + 1, first + 1) - at(x, first, first)) / gap(first, first)
  end
  local parts = {edge_order == 2 and of_three(1, 1, 1) or of_two(1)}
  if n > 2 then parts[2] = of_three(2, 1, n - 2) end
  parts[#parts + 1] = edge_order == 2 and of_three(3, n - 2, n - 2) or of_two(n - 1)
  return nn.concat(parts, axis)
end
-- Derivatives along each of the axes, by default all, one result per axis: central differences,
-- one-sided at both ends, from two values, or three with edge_order = 2. spacing: the distance of
-- values, a number, or a list with a number or a tensor of coordinates for each axis.
define("gradient(x: tensor, {spacing: any = 1, axes: axes = nil, edge_order: whole = 1})",
       "torch.gradient", function(x, o)
  floats("gradient", x)
  if o.edge_order ~= 1 and o.edge_order ~= 2 then
    fail("gradient: edge_order = %d: expected 1 or 2", o.edge_order)
  end
  local axes, of_axis, results = o.axes or {}, o.spacing, {}
  if not o.axes then for i = 1, #shape(x) do axes[i] = i end end
  if core.is_tensor(of_axis) then of_axis = {of_axis} end
  if type(of_axis) == "number" then
    of_axis = {}
    for i = 1, #axes do of_axis[i] = o.spacing end
  end
  if type(of_axis) ~= "table" or #of_axis ~= #axes then
    fail("gradient: spacing: expected a number, or a list of one for each of %d axes, got %s",
         #axes, tools.said(o.spacing))
  end
  for i, axis in ipairs(axes) do
    if type(of_axis[i]) ~= "number" then tools.tensor("gradient: spacing", of_axis[i]) end
    results[i] = slope(x, axis, of_axis[i], o.edge_order)
  end
  return table.unpack(results)
end)

-- ---- softmax ----------------------------------------------------------------------------------

-- Is a row too long, or strided, to be kept in registers, so that each sweep rereads it?
local function is_read_again(x, bits)
  return bits ~= 1 << (#shape(x) - 1) or count_of(x, bits) > 16384
end
tools.is_read_again = is_read_again

-- The shift before exponentials; it cancels out, so it gets no gradient.
local function largest(reduce, x, bits) return op.stop_gradient(reduce(x, {axes = bits})) end

-- exp(x) divided by its sum along one axis.
define("softmax(x: tensor, axis: axis = -1)", "F.softmax, nn.Softmax", function(x, axis)
  local bits = 1 << (axis - 1)
  floats("softmax", x)
  if is_read_again(x, bits) then -- two sweeps, not three
    return op.exp(x - largest(op.reduce_most, x, bits)) / op.reduce_expsum(x, {axes = bits})
  end
  local e = op.exp(x - largest(op.reduce_max, x, bits))
  return e / op.reduce_sum(e, {axes = bits})
end)
-- The logarithm of softmax.
define("log_softmax(x: tensor, axis: axis = -1)", "F.log_softmax, nn.LogSoftmax", function(x, axis)
  local bits = 1 << (axis - 1)
  floats("log_softmax", x)
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
-- softmax over the channels of images.
define("softmax2d(x: tensor)", "nn.Softmax2d", function(x) return nn.softmax(x, -3) end)
