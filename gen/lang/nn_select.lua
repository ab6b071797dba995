-- nn_select.lua: elements chosen by integers, and by where they are, of the module `nn` (nn.lua).
-- Places count from 0, as PyTorch's tensors of indices do.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, with = tools.fail, tools.define, tools.with

-- ---- gather -----------------------------------------------------------------------------------

-- Rows of x by integers: the axis becomes the dimensions of ids.
define("gather(x: tensor, ids: tensor, axis: axis = 1)", "x[ids]", function(x, ids, axis)
  return op.gather(x, ids, {axis = axis - 1})
end)
-- Rows of x by integers (N).
define("index_select(x: tensor, axis: axis, ids|index: tensor)",
       "torch.index_select", function(x, axis, ids)
  if #shape(ids) > 1 then
    fail("index_select: wants ids of one dimension, not %s", tostring(ids))
  end
  return op.gather(x, ids, {axis = axis - 1})
end)
-- Of each row along the axis the elements that ids names. torch.gather is this one.
define("take_along|take_along_dim(x: tensor, ids: tensor, axis: axis = -1)",
       "torch.gather, torch.take_along_dim", function(x, ids, axis)
  return op.take_along(x, ids, {axis = axis - 1})
end)
-- Elements of x, counted row-major.
define("take(x: tensor, ids: tensor)", "torch.take", function(x, ids)
  return op.gather(nn.ravel(x), ids, {axis = 0})
end)

-- ---- scatter ----------------------------------------------------------------------------------

-- 1.0 at each id along a new last dimension, else 0.0.
define("one_hot(ids: tensor, size|num_classes: count)", "F.one_hot", function(ids, size)
  local dims, wide = shape(ids), {}
  if tools.is_float(ids) then
    fail("one_hot: wants integers, not %s; ids:long() makes some", core.dtype(ids))
  end
  for i = 1, #dims do wide[i] = 1 end
  dims[#dims + 1], wide[#wide + 1] = 1, size
  return op.eq(op.reshape(ids, {dims = dims}), nn.index(wide, #wide)):to("f32")
end)

-- (N, ...) rows added up by their ids (N) into (size, ...): the gradient of gather. The same bits
-- in every run: a product with one_hot(ids), of 2 * size * N operations for each element of a row.
define("scatter_add(ids: tensor, rows: tensor, size: count)", "", function(ids, rows, size)
  local dims = shape(rows)
  if #shape(ids) ~= 1 or shape(ids)[1] ~= dims[1] then
    fail("scatter_add: wants an id for each row, not %s and %s", tostring(ids), tostring(rows))
  end
  local n = dims[1]
  return nn.precision("fp32", function()
    local chosen = op.eq(nn.index({size, 1}, 1), op.reshape(ids, {dims = {1, n}})):to("f32")
    local sums = op.matmul(chosen, nn.reshape(rows, {n, -1}))
    return op.reshape(sums, {dims = with(dims, 1, size)})
  end)
end)
-- x with the rows `from` added at the ids along an axis.
define([[index_add(x: tensor, axis: axis, ids|index: tensor, from|source: tensor,
       {alpha: number = 1})]], "torch.index_add", function(x, axis, ids, from, o)
  local n = shape(x)[axis]
  local sums = nn.scatter_add(ids, nn.movedim(from, axis, 1), n)
  return x + nn.movedim(sums, 1, axis) * o.alpha
end)
-- How often each integer below `size` is among ids, as i32; or the sums of `weights` there.
define("bincount(ids: tensor, size|minlength: count, weights: tensor = nil)",
       "torch.bincount", function(ids, size, weights)
  local n = shape(ids)[1]
  local hits = op.eq(nn.index({size, 1}, 1), op.reshape(ids, {dims = {1, n}}))
  if not weights then return nn.sum(hits, 2) end
  return nn.sum(op.where(hits, op.reshape(weights, {dims = {1, n}}), 0.0), 2)
end)

-- A tensor, or a number as x's elements are.
local function as_element(v, x)
  return math.type(v) == "integer" and tools.is_float(x) and v + 0.0 or v
end
-- x with `from` (a tensor of ids' shape, or a number) where ids name a place along the axis; of
-- equal ids the last one.
define("scatter(x: tensor, axis: axis, ids|index: tensor, from|src: value)",
       "torch.scatter", function(x, axis, ids, from)
  local dims, of = shape(x), shape(ids)
  if #of ~= #dims then
    fail("scatter: wants ids of as many dimensions as %s, not %s", tostring(x), tostring(ids))
  end
  for i = 1, #dims do
    if i ~= axis and of[i] ~= dims[i] then
      fail("scatter: ids %s differ from %s beside axis %d", tostring(ids), tostring(x), axis)
    end
  end
  -- For each place the last of the ids that names it: (..., n, m, ...), of which the largest along
  -- m.
  local wide, row = nn.unsqueeze(ids, axis), {}
  for i = 1, #of + 1 do row[i] = 1 end
  local hit = op.eq(wide, nn.index(with(row, axis, dims[axis]), axis))
  local last = nn.amax(op.where(hit, nn.index(with(row, axis + 1, of[axis]), axis + 1), -1),
                       axis + 1)
  if core.is_tensor(from) then from = op.take_along(from, op.max(last, 0), {axis = axis - 1}) end
  return op.where(op.ge(last, 0), as_element(from, x), x)
end)
-- ids (N) along an axis: x with the rows `from` there.
define("index_copy(x: tensor, axis: axis, ids|index: tensor, from|source: tensor)",
       "torch.index_copy", function(x, axis, ids, from)
  local wide = with(shape(x), axis, tools.product(shape(ids)))
  return nn.scatter(x, axis, nn.expand(tools.along(ids, #wide, axis), wide), from)
end)
-- ids (N) along an axis: x with a number there.
define("index_fill(x: tensor, axis: axis, ids|index: tensor, value: value)",
       "torch.index_fill", function(x, axis, ids, value)
  local dims = shape(x)
  local place = nn.unsqueeze(nn.index({dims[axis]}), 2)
  local hit = nn.any(op.eq(place, nn.reshape(ids, {1, -1})), 2)
  return op.where(tools.along(hit, #dims, axis), as_element(value, x), x)
end)
-- x with `from` as element `index` (from 1) of an axis.
define("select_scatter(x: tensor, from|src: tensor, axis: axis, index: whole)",
       "torch.select_scatter", function(x, from, axis, index)
  return nn.slice_scatter(x, nn.unsqueeze(from, axis), axis, index, index)
end)
-- x with `from` as elements first to last of an axis.
define([[slice_scatter(x: tensor, from|src: tensor, axis: axis = 1, first: whole = nil,
       last: whole = nil)]], "torch.slice_scatter", function(x, from, axis, first, last)
  local n = shape(x)[axis]
  first, last = first or 1, last or n
  if first < 0 then first = n + 1 + first end
  if last < 0 then last = n + 1 + last end
  if first < 1 or last > n or last - first + 1 ~= shape(from)[axis] then
    fail("slice_scatter: elements %d to %d of axis %d of %s are not %s", first, last, axis,
         tostring(x), tostring(from))
  end
  local parts = {from}
  if first > 1 then table.insert(parts, 1, nn.slice(x, axis, 1, first - 1)) end
  if last < n then parts[#parts + 1] = nn.slice(x, axis, last + 1, n) end
  return nn.concat(parts, axis)
end)

-- x with the elements `from` reduced into the places that ids name along an axis, as PyTorch's
-- scatter_reduce; include_self = false: what was in such a place before does not count.
define([[scatter_reduce(x: tensor, axis: axis, ids|index: tensor, from|src: tensor,
       reduce: sum/prod/mean/amax/amin, {include_self: boolean = true})]],
       "torch.scatter_reduce", function(x, axis, ids, from, reduce, o)
  local dims, of = shape(x), shape(ids)
  local n, m = dims[axis], of[axis]
  if table.concat(with(dims, axis, m), ",") ~= table.concat(of, ",") or
     table.concat(of, ",") ~= table.concat(shape(from), ",") then
    fail("scatter_reduce: ids %s and from %s differ from %s beside axis %d", tostring(ids),
         tostring(from), tostring(x), axis)
  end
  -- (..., n, m, ...): does the m-th id name the n-th place? What does not counts for nothing.
  local row = {}
  for i = 1, #of + 1 do row[i] = 1 end
  local hit = op.eq(nn.unsqueeze(ids, axis), nn.index(with(row, axis, n), axis))
  local function reduced(f, none)
    return f(op.where(hit, nn.unsqueeze(from, axis), none), axis + 1)
  end
  local self, any = o.include_self, nn.any(hit, axis + 1)
  local function own(none) return self and x or op.where(any, none, x) end
  if reduce == "sum" then return own(0.0) + reduced(nn.sum, 0.0) end
  if reduce == "prod" then return own(1.0) * reduced(nn.prod, 1.0) end
  if reduce == "amax" then return op.max(own(-math.huge), reduced(nn.amax, -math.huge)) end
  if reduce == "amin" then return op.min(own(math.huge), reduced(nn.amin, math.huge)) end
  local count = nn.sum(hit, axis + 1):to("f32") + (self and 1.0 or 0.0)
  return (own(0.0) + reduced(nn.sum, 0.0)) / (self and count or op.max(count, 1.0))
end)

-- ---- by place ---------------------------------------------------------------------------------

-- x, where the i-th part of `from` along an axis is joined by `reduce` into the part of x that
-- ids[i] names, a vector; as scatter_reduce.
define([[index_reduce(x: tensor, axis: axis, ids|index: tensor, from|source: tensor,
       reduce: prod/mean/amax/amin, {include_self: boolean = true})]],
       "Tensor.index_reduce", function(x, axis, ids, from, reduce, o)
  local row = {}
  for i = 1, #shape(x) do row[i] = 1 end
  if #shape(ids) ~= 1 then fail("index_reduce: the ids want a vector, not %s", tostring(ids)) end
  local wide = op.reshape(ids, {dims = with(row, axis, shape(ids)[1])})
  return nn.scatter_reduce(x, axis, nn.expand(wide, with(shape(x), axis, shape(ids)[1])), from,
                           reduce, o)
end)

-- Where column - row of the last two dimensions is at least (at most) `diagonal`.
local function side(x, compare, diagonal)
  local dims = shape(x)
  if #dims < 2 then fail("wants at least two dimensions, not %s", tostring(x)) end
  local rows, columns = dims[#dims - 1], dims[#dims]
  return compare(nn.index({rows, columns}, 2) - nn.index({rows, columns}, 1), diagonal)
end
local function zero_of(x) return tools.is_float(x) and 0.0 or 0 end
-- The elements on and above a diagonal, 0 below.
define("triu(x: tensor, diagonal: whole = 0)", "torch.triu", function(x, diagonal)
  return op.where(side(x, op.ge, diagonal), x, zero_of(x))
end)
-- The elements on and below a diagonal, 0 above.
define("tril(x: tensor, diagonal: whole = 0)", "torch.tril", function(x, diagonal)
  return op.where(side(x, op.le, diagonal), x, zero_of(x))
end)
-- Elements of two dimensions whose places differ by `offset`, as a new last dimension.
define("diagonal(x: tensor, offset: whole = 0, a: axis = 1, b: axis = 2)",
       "torch.diagonal", function(x, offset, a, b)
  x = nn.movedim(x, {a, b}, {-2, -1})
  local dims = shape(x)
  local rows, columns = dims[#dims - 1], dims[#dims]
  local n = math.min(rows - math.max(-offset, 0), columns - math.max(offset, 0))
  if n < 1 then fail("diagonal: offset = %d leaves nothing of %d x %d", offset, rows, columns) end
  local flat = table.move(dims, 1, #dims - 2, 1, {})
  flat[#flat + 1] = rows * columns
  local first = math.max(-offset, 0) * columns + math.max(offset, 0)
  return op.gather(op.reshape(x, {dims = flat}), nn.index({n}) * (columns + 1) + first,
                   {axis = #flat - 1})
end)
-- x, whose elements on that diagonal are those of `from`.
define("diagonal_scatter(x: tensor, from|src: tensor, offset: whole = 0, a: axis = 1, b: axis = 2)",
       "torch.diagonal_scatter", function(x, from, offset, a, b)
  local turned = nn.movedim(x, {a, b}, {-2, -1})
  local dims = shape(turned)
  local rows, columns = dims[#dims - 1], dims[#dims]
  local row, column = nn.index({rows, columns}, 1), nn.index({rows, columns}, 2)
  local wanted = shape(nn.diagonal(x, offset, a, b))
  if table.concat(wanted, ",") ~= table.concat(shape(from), ",") then
    fail("diagonal_scatter: the diagonal of %s is (%s), not %s", tostring(x),
         table.concat(wanted, ", "), tostring(from))
  end
  local place = op.min(op.min(row, column), wanted[#wanted] - 1)
  local spread = op.gather(from, place, {axis = #wanted - 1})
  local y = op.where(op.eq(column - row, offset), spread, turned)
  return nn.movedim(y, {-2, -1}, {a, b})
end)
-- The last dimension on the diagonal of a matrix, 0 elsewhere.
define("diag_embed(x: tensor, offset: whole = 0)", "torch.diag_embed", function(x, offset)
  local dims = shape(x)
  if #dims < 1 then fail("diag_embed: wants at least one dimension, not %s", tostring(x)) end
  local n = dims[#dims] + math.abs(offset)
  local row, column = nn.index({n, n}, 1), nn.index({n, n}, 2)
  local place = op.min(row, column)
  local spread = op.gather(x, op.min(place, dims[#dims] - 1), {axis = #dims - 1})
  return op.where(op.eq(column - row, offset), spread, zero_of(x))
end)
-- Of a vector diag_embed, of a matrix its diagonal.
define("diag(x: tensor, offset|diagonal: whole = 0)", "torch.diag", function(x, offset)
  if #shape(x) == 1 then return nn.diag_embed(x, offset) end
  return nn.diagonal(x, offset)
end)
-- All elements in a row, on the diagonal of a matrix.
define("diagflat(x: tensor, offset: whole = 0)", "torch.diagflat", function(x, offset)
  return nn.diag_embed(nn.ravel(x), offset)
end)
-- The sum of a matrix's diagonal.
define("trace(x: tensor)", "torch.trace", function(x)
  if #shape(x) ~= 2 then
    fail("trace: wants a matrix, not %s; nn.diagonal(x, 0, -2, -1):sum(-1) is that of several",
         tostring(x))
  end
  return nn.sum(nn.diagonal(x))
end)
-- Into how many of the ascending boundaries each element comes behind, as i32: right = false:
-- boundary < x.
define("bucketize(x: tensor, boundaries: tensor, {right: boolean = false})",
       "torch.bucketize", function(x, boundaries, o)
  local wide = nn.unsqueeze(x, -1)
  return nn.sum(o.right and op.le(boundaries, wide) or op.lt(boundaries, wide), -1)
end)
-- Into how many of its row of ascending boundaries (..., n) each value (..., m) comes behind, or of
-- one row for all; as bucketize.
define("searchsorted(boundaries|sorted_sequence: tensor, values: tensor, {right: boolean = false})",
       "torch.searchsorted", function(boundaries, values, o)
  if #shape(boundaries) > 1 then boundaries = nn.unsqueeze(boundaries, -2) end
  return nn.bucketize(values, boundaries, {right = o.right})
end)
-- Is each element of x among the elements of `tests`?
define("isin(x|elements: tensor, tests|test_elements: tensor)", "torch.isin", function(x, tests)
  return nn.any(op.eq(nn.unsqueeze(x, -1), nn.ravel(tests)), -1)
end)
-- How many elements lie in each of `bins` equal parts of low to high, the last one closed; those
-- beside them do not count.
define("histc(x: tensor, bins: count, low|min: number, high|max: number)",
       "torch.histc", function(x, bins, low, high)
  if low >= high then fail("histc: low = %g, high = %g: wants high above low", low, high) end
  local bin = op.min(op.floor((x - low) * (bins / (high - low))), bins - 1.0)
  bin = op.where(op.ge(x, low) & op.le(x, high), bin, -1.0):to("i32")
  return nn.bincount(nn.ravel(bin), bins):to("f32")
end)
