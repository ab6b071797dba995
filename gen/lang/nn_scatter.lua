-- nn_scatter.lua: scattering, of the module `nn` (nn.lua): elements stored at positions given by
-- integers. Positions count from 0, as in PyTorch's index tensors.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, with = tools.fail, tools.define, tools.with

-- ---- scatter ----------------------------------------------------------------------------------

-- ids, checked to be positions among `size` elements: as a gather of those positions, whose ids are
-- checked.
local function named(ids, size) return op.gather(nn.index({size}, 1), ids, {axis = 0}) end

-- 1.0 at each id along a new last dimension, else 0.0.
define("one_hot(ids: tensor, size|num_classes: count)", "F.one_hot", function(ids, size)
  local dims, wide = shape(ids), {}
  if tools.is_float(ids) then
    fail("one_hot: expected integers, got %s; ids:long() converts", core.dtype(ids))
  end
  for i = 1, #dims do wide[i] = 1 end
  dims[#dims + 1], wide[#wide + 1] = 1, size
  return op.eq(op.reshape(named(ids, size), {dims = dims}), nn.index(wide, #wide)):to("f32")
end)

-- Are there too many pairs of `ids` and `size` positions to compare each with each? By the cost
-- model, comparing is faster with 1024 pairs per row and slower with 16384.
function tools.many_pairs(ids, size) return ids > 8 and ids * size >= 4096 end

-- Adds elements by ids along the last axis, both (..., N), into (..., size): bit-reproducible,
-- integers exact. Elements whose id is not 0 to size - 1 are dropped.
function tools.scatter_rows(ids, from, size)
  local dims, n = shape(ids), shape(ids)[#shape(ids)]
  local batches = tools.product(dims, 1, #dims - 1)
  local wide = with(dims, #dims, size)
  if tools.product(wide) * n == 0 then return nn.zeros(wide, {dtype = core.dtype(from)}) end
  return nn.precision("fp32", function()
    local each = batches == 1 and {n} or {batches, n}
    local sums = op.scatter_sum(op.reshape(ids, {dims = each}),
                                op.reshape(from, {dims = each}), {count = size})
    return op.reshape(sums, {dims = wide})
  end)
end

-- Rows (N, ...) added by their ids (N) into (size, ...): the gradient of gather.
local function added_rows(what, ids, rows, size)
  local dims = shape(rows)
  if #shape(ids) ~= 1 or shape(ids)[1] ~= dims[1] then
    fail("%s: expected an id for each row, got %s and %s", what, tostring(ids), tostring(rows))
  end
  local n, wide = dims[1], with(dims, 1, size)
  local each = #dims > 1 and {n, tools.product(dims, 2)} or {n}
  if n * tools.product(wide) == 0 then return nn.zeros(wide, {dtype = core.dtype(rows)}) end
  return nn.precision("fp32", function()
    local sums = op.scatter_sum(named(ids, size), op.reshape(rows, {dims = each}), {count = size})
    return op.reshape(sums, {dims = wide})
  end)
end
-- y converted to the dtype of x if x is u8 or bool, as PyTorch's additions are.
local function as_given(y, x)
  local dtype = core.dtype(x)
  return (dtype == "bool" or dtype == "u8") and nn.to(y, dtype) or y
end
-- x with the elements `from` added at the positions ids along an axis; or, for ids (N) and rows (N,
-- ...), nn.scatter_add(ids, rows, size): the rows added by their ids into (size, ...).
define("scatter_add(x: tensor, axis|rows: any, ids|index|size: any, from|src: tensor = nil)",
       "torch.scatter_add", function(x, axis, ids, from)
  if core.is_tensor(axis) then
    return added_rows("scatter_add", x, axis, tools.count("scatter_add: size", ids))
  end
  if not from then fail("scatter_add: expected an axis, ids and the values to add") end
  axis = tools.axis_or_only("scatter_add: axis", axis, x)
  tools.tensor("scatter_add: ids", ids)
  return nn.scatter_reduce(x, axis, ids, from, "sum")
end)
-- x with the rows `from` added at the ids along an axis.
define([[index_add(x: tensor, axis: axis, ids|index: tensor, from|source: tensor,
       {alpha: number = 1})]], "torch.index_add", function(x, axis, ids, from, o)
  local n = shape(x)[axis]
  local sums = added_rows("index_add", ids, nn.movedim(from, axis, 1), n)
  return as_given(x + nn.movedim(sums, 1, axis) * o.alpha, x)
end)
-- The number of times each integer below `size` occurs in ids, as i32; or the sum of its `weights`.
define("bincount(ids: tensor, size|minlength: count, weights: tensor = nil)",
       "torch.bincount", function(ids, size, weights)
  local dims = shape(ids)
  if #dims ~= 1 or weights and table.concat(shape(weights), ",") ~= table.concat(dims, ",") then
    fail("bincount: expected ids (n)%s, got %s%s", weights and " and weights (n)" or "",
         tostring(ids), weights and " and " .. tostring(weights) or "")
  end
  weights = weights and tools.is_float(weights) and weights or weights and nn.to(weights, "f32")
  return tools.scatter_rows(ids, weights or nn.ones(dims, {dtype = "i32"}), size)
end)

-- The identities of max and min for x's dtype.
local function least(x) return tools.is_float(x) and -math.huge or -0x80000000 end
local function most(x) return tools.is_float(x) and math.huge or 0x7fffffff end
-- x with its leading corner replaced by `values`.
local function in_corner(values, x)
  local of, inside = shape(values), nil
  local before, behind = {}, {}
  for i, d in ipairs(shape(x)) do
    before[i], behind[i] = 0, d - of[i]
    if d ~= of[i] then
      local row = {}
      for j = 1, #of do row[j] = j == i and d or 1 end
      local here = op.lt(nn.index(row, i), of[i])
      inside = inside and inside & here or here
    end
  end
  return inside and op.where(inside, op.pad(values, {dims = before, ends = behind}), x) or values
end
-- The part of x that ids may change along an axis, and the part of `from` that they read: ids may
-- be smaller than x on the other axes, and smaller than `from` on all.
local function reached(what, x, axis, ids, from)
  local of = shape(ids)
  local small = #of == #shape(x) and tools.corner(x, of, axis)
  if not small then
    fail("%s: ids %s exceed %s in a dimension other than axis %d", what, tostring(ids),
         tostring(x), axis)
  end
  if not core.is_tensor(from) then return small, from end
  local taken = #shape(from) == #of and of[axis] <= shape(from)[axis] and
      tools.corner(from, of, axis)
  if not taken then fail("%s: ids %s are larger than %s", what, tostring(ids), tostring(from)) end
  return small, nn.narrow(taken, axis, 1, of[axis])
end
-- Does the m-th id along an axis name the n-th place? (..., n, m, ...)
local function hits(x, axis, ids)
  local row = {}
  for i = 1, #shape(ids) + 1 do row[i] = 1 end
  local size = shape(x)[axis]
  return op.eq(nn.unsqueeze(named(ids, size), axis), nn.index(with(row, axis, size), axis)), row
end
-- The last of the ids along an axis that names each of `size` places, -1 where none does: by
-- comparing each with each, or of many, by a sort: the last of a run of equal ids.
local kManyPairs = 1 << 26 -- comparing so many is modelled to take 42 to 47 us, the sort 12 to 15
local function last_ids(x, axis, ids)
  local count, size = shape(ids)[axis], shape(x)[axis]
  if tools.product(shape(ids)) * size < kManyPairs then
    local hit, row = hits(x, axis, ids)
    return nn.amax(op.where(hit, nn.index(with(row, axis + 1, count), axis + 1), -1), axis + 1)
  end
  local sorted, order = nn.sort(nn.movedim(named(ids, size), axis, -1))
  local rank = #shape(ids)
  local at = nn.index({count}, 1)
  local ends = op.eq(at, count - 1) | op.ne(sorted, nn.roll(sorted, -1, rank))
  local last = tools.scatter_rows(op.where(ends, sorted, -1), order + 1, size) - 1
  return nn.movedim(last, -1, axis)
end
-- x with `from` (a number, or a tensor at least as large as ids) stored at the positions ids along
-- the axis; the last of equal ids wins. ids may be smaller than x on the other axes. reduce: add
-- to, or multiply, the previous value.
define([[scatter(x: tensor, axis: axis, ids|index: tensor, from|src|value: element,
       {reduce: none/add/multiply = none})]], "torch.scatter", function(x, axis, ids, from, o)
  if o.reduce ~= "none" then
    if not core.is_tensor(from) then from = nn.full_like(nn.to(ids, core.dtype(x)), from) end
    return nn.scatter_reduce(x, axis, ids, from, o.reduce == "add" and "sum" or "prod")
  end
  local own, taken = reached("scatter", x, axis, ids, from)
  if tools.product(shape(ids)) == 0 then return x end
  local last = last_ids(x, axis, ids)
  if core.is_tensor(taken) then
    taken = op.take_along(taken, op.max(last, 0), {axis = axis - 1})
  end
  local y = op.where(op.ge(last, 0), tools.as_element("scatter", taken, x), own)
  return in_corner(as_given(y, x), x)
end)
-- x with the elements of `from`, in row-major order, where mask is true; x and mask broadcast to
-- each other.
define("masked_scatter(x: tensor, mask: condition, from|source: tensor)",
       "Tensor.masked_scatter", function(x, mask, from)
  local n = tools.product(shape(from))
  x, mask = nn.broadcast_tensors{x, mask}
  if tools.product(shape(x)) == 0 or n == 0 then return x end
  local flat = nn.ravel(mask)
  local place = op.min(op.max(nn.cumsum(flat:to("i32"), 1) - 1, 0), n - 1)
  local taken = op.gather(nn.ravel(from), place, {axis = 0})
  return op.where(mask, op.reshape(taken, {dims = shape(x)}), x)
end)
-- x with `from` stored at the row-major positions ids, which count from the end if negative; the
-- last of equal ids wins, with accumulate all are added.
define("put(x: tensor, ids|index: tensor, from|source: tensor, accumulate: boolean = false)",
       "torch.put", function(x, ids, from, accumulate)
  local flat, places, given = nn.ravel(x), nn.ravel(ids), nn.ravel(from)
  if shape(places)[1] ~= shape(given)[1] then
    fail("put: expected as many elements as %s, got %s", tostring(ids), tostring(from))
  end
  places = tools.from_end(places, shape(flat)[1])
  local y
  if accumulate then y = nn.scatter_add(flat, 1, places, given)
  else y = nn.scatter(flat, 1, places, given) end
  return nn.reshape(y, shape(x))
end)
-- x with `from` stored at the positions given by the integer tensors `ids`, one per leading axis of
-- x; with fewer tensors than axes whole slices are stored. ids broadcast, and count from the end if
-- negative. `from`, a tensor or a number, broadcasts to the positions; the last of equal ones wins,
-- with accumulate all are added.
define([[index_put(x: tensor, ids|indices: tensors, from|values: value,
       accumulate: boolean = false)]], "Tensor.index_put", function(x, ids, from, accumulate)
  local dims = shape(x)
  if #ids > #dims then
    fail("index_put: %d tensors of ids for the axes of %s", #ids, tostring(x))
  end
  local place
  for i, id in ipairs(ids) do
    if tools.is_float(id) or core.dtype(id) == "bool" then
      fail("index_put: ids[%d]: expected integers, got %s%s", i, core.dtype(id),
           core.dtype(id) == "bool" and "; nn.where puts by truths" or "")
    end
    local own = tools.from_end(id, dims[i])
    place = place and place * dims[i] + own or own
  end
  local wide, of_parts = shape(place), {}
  local count = tools.product(wide)
  for i = #ids + 1, #dims do
    wide[#wide + 1], of_parts[#of_parts + 1] = dims[i], dims[i]
  end
  local parts = op.reshape(x, {dims = {tools.product(dims, 1, #ids), table.unpack(of_parts)}})
  if core.is_tensor(from) then from = nn.expand(from, wide) else from = nn.full(wide, from) end
  from = op.reshape(nn.to(from, core.dtype(x)), {dims = {count, table.unpack(of_parts)}})
  place = op.reshape(place, {dims = {count}})
  if accumulate then parts = nn.index_add(parts, 1, place, from)
  else parts = nn.index_copy(parts, 1, place, from) end
  return op.reshape(parts, {dims = dims})
end)
-- x with the rows `from` stored at ids (N) along an axis.
define("index_copy(x: tensor, axis: axis, ids|index: tensor, from|source: tensor)",
       "torch.index_copy", function(x, axis, ids, from)
  local dims = shape(x)
  local wide = with(dims, axis, tools.product(shape(ids)))
  if wide[axis] == 1 then -- one position: a state that is updated so is written in place
    local place = tools.along(named(op.reshape(ids, {dims = {1}}), dims[axis]), #dims, axis)
    local along = {}
    for d = 1, #dims do along[d] = d == axis and dims[d] or 1 end
    local here = op.eq(nn.index(along, axis), place)
    return op.where(here, nn.to(nn.expand(from, wide), core.dtype(x)), x)
  end
  return nn.scatter(x, axis, nn.expand(tools.along(ids, #wide, axis), wide), from)
end)
-- x with a number stored at ids (N) along an axis.
define("index_fill(x: tensor, axis: axis, ids|index: tensor, value: element)",
       "torch.index_fill", function(x, axis, ids, value)
  local dims = shape(x)
  local place = nn.unsqueeze(nn.index({dims[axis]}), 2)
  local hit = nn.any(op.eq(place, nn.reshape(named(ids, dims[axis]), {1, -1})), 2)
  return nn.masked_fill(x, tools.along(hit, #dims, axis), value)
end)
-- x with `from` stored as element `index` (from 1) of an axis.
define("select_scatter(x: tensor, from|src: tensor, axis: axis, index: whole)",
       "torch.select_scatter", function(x, from, axis, index)
  local want = shape(x)
  table.remove(want, axis)
  if table.concat(shape(from), ", ") ~= table.concat(want, ", ") then
    fail("select_scatter: from: expected (%s), got %s", table.concat(want, ", "), tostring(from))
  end
  return nn.slice_scatter(x, nn.unsqueeze(from, axis), axis, index, index)
end)
-- x with `from` stored as every step-th of the elements first to last of an axis.
define([[slice_scatter(x: tensor, from|src: tensor, axis: axis = 1, first: whole = nil,
       last: whole = nil, step: count = 1)]],
       "torch.slice_scatter", function(x, from, axis, first, last, step)
  local dims = shape(x)
  local places = nn.slice(nn.index({dims[axis]}), 1, first, last, step)
  local wanted = with(dims, axis, shape(places)[1])
  if table.concat(wanted, ",") ~= table.concat(shape(from), ",") then
    fail("slice_scatter: the slice of %s is (%s), got %s", tostring(x),
         table.concat(wanted, ", "), tostring(from))
  end
  if tools.product(wanted) == 0 then return x end
  local row = {}
  for i = 1, #dims do row[i] = 1 end
  first = first or 1
  first = math.max(first < 0 and dims[axis] + 1 + first or first, 1)
  local from_first = nn.index(with(row, axis, dims[axis]), axis) - (first - 1)
  local at = op.floordiv(from_first, step)
  local here = op.eq(at * step, from_first) & op.ge(at, 0) & op.lt(at, wanted[axis])
  at = op.reshape(op.min(op.max(at, 0), wanted[axis] - 1), {dims = {dims[axis]}})
  return op.where(here, op.gather(from, at, {axis = axis - 1}), x)
end)

-- x with the elements `from` reduced into the positions ids along an axis, as PyTorch's
-- scatter_reduce; ids may be smaller than x on the other axes, and smaller than `from`.
-- include_self = false: previous values at these positions are ignored. Bools stay bools, u8 stays
-- u8.
define([[scatter_reduce(x: tensor, axis: axis, ids|index: tensor, from|src: tensor,
       reduce: sum/prod/mean/amax/amin, {include_self: boolean = true})]],
       "torch.scatter_reduce", function(x, axis, ids, from, reduce, o)
  local own_x, taken = reached("scatter_reduce", x, axis, ids, from)
  if tools.product(shape(ids)) == 0 then return x end
  -- Elements without a match are replaced by the identity.
  local hit = hits(x, axis, ids)
  local zero, one = tools.as_element("", 0, x), tools.as_element("", 1, x)
  local function reduced(f, none)
    return f(op.where(hit, nn.unsqueeze(taken, axis), none), axis + 1)
  end
  local function summed(none) -- of few ids, each position compares all ids
    local size = shape(x)[axis]
    if not tools.many_pairs(shape(ids)[axis], size) then return reduced(nn.sum, none) end
    local places = nn.movedim(named(ids, size), axis, -1)
    local sums = tools.scatter_rows(places, nn.movedim(taken, axis, -1), size)
    return nn.movedim(sums, -1, axis)
  end
  local self, any = o.include_self, nn.any(hit, axis + 1)
  local function own(none) return self and own_x or op.where(any, none, own_x) end
  -- The gradient is shared by all elements equal to the extreme, the previous value included.
  local function extreme(of_two, f, none)
    local all, before = op.where(hit, nn.unsqueeze(taken, axis), none), own(none)
    local y = of_two(before, f(all, axis + 1))
    return nn.custom_gradient(y, {before, all}, function(g)
      local itself = op.eq(before, y):to("f32")
      local others = (op.eq(all, nn.unsqueeze(y, axis + 1)) & hit):to("f32")
      local share = g / (itself + nn.sum(others, axis + 1))
      return share * itself, nn.unsqueeze(share, axis + 1) * others
    end)
  end
  local function result()
    if reduce == "sum" then return own(zero) + summed(zero) end
    if reduce == "prod" then return own(one) * reduced(nn.prod, one) end
    if reduce == "amax" then return extreme(op.maximum, nn.amax, least(x)) end
    if reduce == "amin" then return extreme(op.minimum, nn.amin, most(x)) end
    local count = nn.sum(hit, axis + 1)
    count = self and count + 1 or op.max(count, 1)
    local over = tools.is_float(x) and op.div or op.floordiv
    return over(own(zero) + summed(zero), count)
  end
  return in_corner(as_given(result(), x), x)
end)
-- x with the i-th slice of `from` along an axis combined by `reduce` into slice ids[i], ids being a
-- vector; as scatter_reduce.
define([[index_reduce(x: tensor, axis: axis, ids|index: tensor, from|source: tensor,
       reduce: prod/mean/amax/amin, {include_self: boolean = true})]],
       "Tensor.index_reduce", function(x, axis, ids, from, reduce, o)
  local row = {}
  for i = 1, #shape(x) do row[i] = 1 end
  if #shape(ids) ~= 1 then fail("index_reduce: expected a vector of ids, got %s", tostring(ids)) end
  local wide = op.reshape(ids, {dims = with(row, axis, shape(ids)[1])})
  return nn.scatter_reduce(x, axis, nn.expand(wide, with(shape(x), axis, shape(ids)[1])), from,
                           reduce, o)
end)
