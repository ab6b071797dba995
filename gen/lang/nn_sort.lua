-- nn_sort.lua: sorting and selection by order, of the module `nn` (nn.lua). Sorts are stable; NaN
-- counts as larger than all numbers.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, is_float = tools.fail, tools.define, tools.is_float

local kFew = 64 -- elements that the op keeps sorted while it reads a row

-- ---- orders -----------------------------------------------------------------------------------

-- The positions of the `count` (at most kFew) first elements along an axis.
local function first_of(x, axis, count, descending)
  return op.topk(x, {axis = axis - 1, count = count, smallest = descending and 0 or 1})
end

-- The sorting permutation of all elements along an axis.
local function order(x, axis, descending)
  local n = shape(x)[axis]
  if n == 0 then return nn.zeros(shape(x), {dtype = "i32"}) end
  if n <= kFew then return first_of(x, axis, n, descending) end
  return op.sort_runs(x, {axis = axis - 1, count = n, smallest = descending and 0 or 1})
end

-- The k largest elements along an axis and their positions in it as i32, counted from 0: two
-- tensors with k elements along the axis, the largest first; with largest = false the smallest.
define([[topk(x: tensor, k: amount, axis: axis = -1, {largest: boolean = true,
       sorted: boolean = true})]], "torch.topk", function(x, k, axis, o)
  local n = shape(x)[axis]
  if k > n then fail("topk: %d of %d elements along axis %d of %s", k, n, axis, tostring(x)) end
  local places
  if k == 0 or k > kFew then
    places = nn.slice(order(x, axis, o.largest), axis, 1, k)
  else
    places = first_of(x, axis, k, o.largest)
  end
  return op.take_along(x, places, {axis = axis - 1}), places
end)
-- Stable sort along an axis: the sorted elements and their previous positions, two tensors. Up to
-- 2048 elements are sorted in one kernel; of more, each doubling takes one more.
define("sort(x: tensor, axis: axis = -1, descending: boolean = false, {stable: boolean = true})",
       "torch.sort", function(x, axis, descending)
  local places = order(x, axis, descending)
  return op.take_along(x, places, {axis = axis - 1}), places
end)
-- sort along the first axis.
define("msort(x: tensor)", "torch.msort", function(x) return (nn.sort(x, 1)) end)
-- The positions that sort returns.
define([[argsort(x: tensor, axis: axis = -1, descending: boolean = false,
       {stable: boolean = true})]], "torch.argsort", function(x, axis, descending)
  return order(x, axis, descending)
end)
-- The k-th smallest element along an axis, and its position.
define("kthvalue(x: tensor, k: count, axis: axis = -1, keep|keepdim: boolean = false)",
       "torch.kthvalue", function(x, k, axis, keep)
  local n = shape(x)[axis]
  if k > n then fail("kthvalue: k = %d of %d elements", k, n) end
  local values, places = nn.sort(x, axis)
  values, places = nn.slice(values, axis, k, k), nn.slice(places, axis, k, k)
  if keep then return values, places end
  return nn.squeeze(values, axis), nn.squeeze(places, axis)
end)
-- The implementation of functions with an optional axis: without one x is flattened; the axis is
-- dropped from the result unless `keep`.
local function along_or_all(what, x, axis)
  axis = axis ~= nil and tools.axis_or_only(what .. ": axis", axis, x)
  if axis and #shape(x) > 0 then return x, axis end
  return nn.ravel(x), 1
end
local function without(y, x, axis, given, keep)
  if not keep then return nn.squeeze(y, axis) end
  if given ~= nil and #shape(x) > 0 then return y end
  local ones = {}
  for i = 1, #shape(x) do ones[i] = 1 end
  return op.reshape(y, {dims = ones})
end

-- The element of x at a position; its gradient is shared by all elements equal to it, as in PyTorch
-- when no axis is given.
local function shared(value, flat)
  return nn.custom_gradient(value, {flat}, function(g)
    local chosen = op.eq(flat, value) | (op.ne(flat, flat) & op.ne(value, value))
    local share = chosen:to("f32")
    return share * (g / nn.sum(share, 1, true))
  end)
end

-- The median (the lower of two) of all elements, or along an axis with its position; NaN, with the
-- position of the first NaN, if there is one.
define("median(x: tensor, axis: any = nil, keep|keepdim: boolean = false)",
       "torch.median", function(x, axis, keep)
  local flat, a = along_or_all("median", x, axis)
  if shape(flat)[a] == 0 then fail("median: %s has no elements to choose from", tostring(x)) end
  local value, place = nn.kthvalue(flat, (shape(flat)[a] + 1) // 2, a, true)
  if is_float(x) then
    place = op.where(nn.any(nn.isnan(flat), a, true), nn.argmax(flat, a, true), place)
    value = op.take_along(flat, place, {axis = a - 1})
    if axis == nil then value = shared(value, flat) end
  end
  value = without(value, x, a, axis, keep)
  if axis == nil then return value end
  return value, without(place, x, a, axis, keep)
end)

-- ---- quantiles --------------------------------------------------------------------------------

-- Interpolation mode `how` for a position between two neighbours: the lower index and the fraction
-- toward the upper. m: provides rounding, math's or op's.
local function quantile_place(place, how, m)
  local low = m.floor(place)
  if how == "lower" then return low, 0 end
  if how == "higher" then return m.ceil(place), 0 end
  if how == "nearest" then return m.round(place), 0 end
  if how == "midpoint" then return low, (m.ceil(place) - low) * 0.5 end
  return low, place - low
end
local of_numbers = {floor = math.floor, ceil = math.ceil, round = function(v) -- halves to even
  local low = math.floor(v)
  return v - low < 0.5 and low or v - low > 0.5 and low + 1 or low + low % 2
end}

-- f(q) for a number from 0 to 1, or for each of a list, in a new first dimension.
local function of_each(what, q, f)
  local list = type(q) == "table" and q or {q}
  local parts = {}
  if #list == 0 then fail("%s: expected q, a number from 0 to 1 or a list of them", what) end
  for i, v in ipairs(list) do
    if type(v) ~= "number" or not (v >= 0 and v <= 1) then
      fail("%s: q = %s: expected 0 to 1", what, tools.said(v))
    end
    parts[i] = f(v)
  end
  return type(q) == "table" and nn.stack(parts, 1) or parts[1]
end
-- The q-th quantile, q from 0 to 1 or a list, of all elements or along an axis, with
-- `interpolation` between neighbours; NaN if an element is.
define([[quantile(x: tensor, q: any, axis: any = nil, keep|keepdim: boolean = false,
       {interpolation: linear/lower/higher/midpoint/nearest = linear})]],
       "torch.quantile", function(x, q, axis, keep, o)
  local flat, a = along_or_all("quantile", x, axis)
  local sorted, n = nn.sort(flat, a), shape(flat)[a]
  local unknown = nn.any(nn.isnan(flat), a, true)
  local function at(place) return nn.slice(sorted, a, place, place) end
  return of_each("quantile", q, function(v)
    local low, part = quantile_place(v * (n - 1), o.interpolation, of_numbers)
    local y = at(low + 1)
    if part > 0 then y = y + (at(low + 2) - y) * (part + 0.0) end
    return without(op.where(unknown, 0 / 0, y), x, a, axis, keep)
  end)
end)
-- The quantile of the elements that are not NaN; NaN if there are none.
define([[nanquantile(x: tensor, q: any, axis: any = nil, keep|keepdim: boolean = false,
       {interpolation: linear/lower/higher/midpoint/nearest = linear})]],
       "torch.nanquantile", function(x, q, axis, keep, o)
  local flat, a = along_or_all("nanquantile", x, axis)
  local known = op.eq(flat, flat)
  local sorted = nn.sort(op.where(known, flat, math.huge), a)
  local last = nn.sum(known, a, true):to("f32") - 1.0
  local function at(place)
    return op.take_along(sorted, nn.to(place, "i32"), {axis = a - 1})
  end
  return of_each("nanquantile", q, function(v)
    local place = op.max(last, 0.0) * (v + 0.0)
    local low, part = quantile_place(place, o.interpolation, op)
    local y = at(low)
    if part ~= 0 then -- the difference of equal infinities
      local above = at(op.ceil(place))
      y = op.where(op.eq(y, above), y, y + (above - y) * part)
    end
    return without(op.where(op.lt(last, 0.0), 0 / 0, y), x, a, axis, keep)
  end)
end)
-- The median of the elements that are not NaN, the lower of two; of all, or along an axis with its
-- position.
define("nanmedian(x: tensor, axis: any = nil, keep|keepdim: boolean = false)",
       "torch.nanmedian", function(x, axis, keep)
  local flat, a = along_or_all("nanmedian", x, axis)
  local middle = op.floordiv(op.max(nn.sum(op.eq(flat, flat), a, true) - 1, 0), 2)
  local place = op.take_along(nn.argsort(flat, a), middle, {axis = a - 1}) -- NaN comes last
  local value = op.take_along(flat, place, {axis = a - 1})
  if axis == nil then return without(shared(value, flat), x, a, axis, keep) end
  return without(value, x, a, axis, keep), without(place, x, a, axis, keep)
end)
-- The most frequent value along an axis (the smallest of several), and its last position.
define("mode(x: tensor, axis: axis = -1, keep|keepdim: boolean = false)",
       "torch.mode", function(x, axis, keep)
  local sorted, places = nn.sort(x, axis)
  local ones = {}
  for i = 1, #shape(x) do ones[i] = i == axis and shape(x)[axis] or 1 end
  local at = nn.index(ones, axis)
  local begins = op.eq(at, 0) | op.ne(sorted, nn.roll(sorted, 1, axis)) -- a run of equal elements
  local length = at - op.scan_max(op.where(begins, at, 0), {axis = axis - 1}) -- of it so far
  local last = nn.argmax(length, axis, true)
  local value = op.take_along(sorted, last, {axis = axis - 1})
  local place = op.take_along(places, last, {axis = axis - 1})
  if keep then return value, place end
  return nn.squeeze(value, axis), nn.squeeze(place, axis)
end)
