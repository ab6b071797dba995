-- nn_select.lua: gathering, masks and diagonals, of the module `nn` (nn.lua): elements chosen by
-- integers or by position. Positions count from 0, as in PyTorch's index tensors.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, with = tools.fail, tools.define, tools.with

-- ---- gather -----------------------------------------------------------------------------------

-- The leading corner of x with these sizes except along an axis, if x is that large.
local function corner(x, sizes, axis)
  local dims, same = with(sizes, axis, shape(x)[axis]), true
  for i, d in ipairs(shape(x)) do
    if dims[i] > d then return nil end
    same = same and dims[i] == d
  end
  local zeros = {}
  for i = 1, #dims do zeros[i] = 0 end
  return same and x or op.slice(x, {dims = zeros, ends = dims})
end
tools.corner = corner

-- Rows of x by integers: the dimensions of ids replace the axis. With the axis before the ids it is
-- torch.gather, that is, take_along.
define("gather(x: tensor, ids|index: any, axis: any = 1)",
       "x[ids], torch.gather", function(x, ids, axis)
  if core.is_tensor(axis) and type(ids) == "number" then return nn.take_along(x, axis, ids) end
  tools.tensor("gather: ids", ids)
  return op.gather(x, ids, {axis = tools.axis("gather: axis", axis, x) - 1})
end)
-- Rows of x by integers (N).
define("index_select(x: tensor, axis: axis, ids|index: tensor)",
       "torch.index_select", function(x, axis, ids)
  if #shape(ids) > 1 then
    fail("index_select: expected ids of one dimension, got %s", tostring(ids))
  end
  return op.gather(x, ids, {axis = axis - 1})
end)
-- The elements of x that ids names along the axis; ids may be smaller than x on the other axes,
-- where the leading elements of x are used.
define("take_along(x: tensor, ids|index: tensor, axis: any = -1)",
       "torch.gather", function(x, ids, axis)
  axis = tools.axis_or_only("take_along: axis", axis, x)
  if #shape(x) == 0 then x = op.reshape(x, {dims = {1}}) end
  local of = shape(ids)
  if #of == 0 then -- one element of a vector
    return op.reshape(nn.take_along(x, op.reshape(ids, {dims = {1}}), axis), {dims = {}})
  end
  local from = #of == #shape(x) and corner(x, of, axis)
  if not from then
    fail("take_along: ids %s exceed %s in a dimension other than axis %d", tostring(ids),
         tostring(x), axis)
  end
  return op.take_along(from, ids, {axis = axis - 1})
end)
-- take_along where x and ids broadcast to each other on the other axes; without an axis both are
-- flattened.
define("take_along_dim(x: tensor, ids|indices: tensor, axis: axis = nil)",
       "torch.take_along_dim", function(x, ids, axis)
  if not axis then x, ids, axis = nn.ravel(x), nn.ravel(ids), 1 end
  local dims, of = shape(x), shape(ids)
  if #dims ~= #of then
    fail("take_along_dim: expected ids of as many dimensions as %s, got %s", tostring(x),
         tostring(ids))
  end
  for i = 1, #dims do
    if i ~= axis then
      if dims[i] == 1 then dims[i] = of[i] elseif of[i] == 1 then of[i] = dims[i] end
    end
  end
  return op.take_along(nn.expand(x, dims), nn.expand(ids, of), {axis = axis - 1})
end)
-- Negative ids converted to positions among `size` elements.
function tools.from_end(ids, size) return op.where(op.lt(ids, 0), ids + size, ids) end
-- Elements of x at row-major positions, which count from the end if negative.
define("take(x: tensor, ids|index: tensor)", "torch.take", function(x, ids)
  local flat = nn.ravel(x)
  return op.gather(flat, tools.from_end(ids, shape(flat)[1]), {axis = 0})
end)

-- ---- by position ------------------------------------------------------------------------------

-- Where column - row of the last two dimensions is >= (or <=) `diagonal`.
local function side(x, compare, diagonal)
  local dims = shape(x)
  if #dims < 2 then fail("expected at least two dimensions, got %s", tostring(x)) end
  local rows, columns = dims[#dims - 1], dims[#dims]
  return compare(nn.index({rows, columns}, 2) - nn.index({rows, columns}, 1), diagonal)
end
-- x where a condition holds, elsewhere 0 (false for bools).
local function only(here, x)
  if core.dtype(x) == "bool" then return here & x end
  return op.where(here, x, tools.is_float(x) and 0.0 or 0)
end
-- The elements on and above a diagonal, 0 below.
define("triu(x: tensor, diagonal: whole = 0)", "torch.triu", function(x, diagonal)
  return only(side(x, op.ge, diagonal), x)
end)
-- The elements on and below a diagonal, 0 above.
define("tril(x: tensor, diagonal: whole = 0)", "torch.tril", function(x, diagonal)
  return only(side(x, op.le, diagonal), x)
end)
-- The n elements of the last two dimensions with column - row = `offset`; and the inverse, which
-- stores g there and 0 elsewhere: the gradient.
local spread_diagonal
local function take_diagonal(x, n, offset)
  local dims = shape(x)
  local rows, columns = dims[#dims - 1], dims[#dims]
  local flat = table.move(dims, 1, #dims - 2, 1, {})
  flat[#flat + 1] = rows * columns
  local first = math.max(-offset, 0) * columns + math.max(offset, 0)
  local y = op.gather(op.reshape(x, {dims = flat}), nn.index({n}) * (columns + 1) + first,
                      {axis = #flat - 1})
  if n == 0 then return y end
  return nn.custom_gradient(y, {x}, function(g)
    return spread_diagonal(g, rows, columns, offset)
  end)
end
function spread_diagonal(g, rows, columns, offset)
  local axis, n = #shape(g), shape(g)[#shape(g)]
  local row, column = nn.index({rows, columns}, 1), nn.index({rows, columns}, 2)
  local spread = op.gather(g, op.min(op.min(row, column), n - 1), {axis = axis - 1})
  return nn.custom_gradient(only(op.eq(column - row, offset), spread), {g}, function(h)
    return take_diagonal(h, n, offset)
  end)
end

-- A diagonal: the elements of two dimensions with column - row = `offset`, as a new last dimension.
define("diagonal(x: tensor, offset: whole = 0, a: axis = 1, b: axis = 2)",
       "torch.diagonal", function(x, offset, a, b)
  x = nn.movedim(x, {a, b}, {-2, -1})
  local dims = shape(x)
  local rows, columns = dims[#dims - 1], dims[#dims]
  local n = math.max(math.min(rows - math.max(-offset, 0), columns - math.max(offset, 0)), 0)
  return take_diagonal(x, n, offset)
end)
-- x with `from` stored on that diagonal.
define("diagonal_scatter(x: tensor, from|src: tensor, offset: whole = 0, a: axis = 1, b: axis = 2)",
       "torch.diagonal_scatter", function(x, from, offset, a, b)
  local turned = nn.movedim(x, {a, b}, {-2, -1})
  local dims = shape(turned)
  local rows, columns = dims[#dims - 1], dims[#dims]
  local row, column = nn.index({rows, columns}, 1), nn.index({rows, columns}, 2)
  local wanted = shape(nn.diagonal(x, offset, a, b))
  if table.concat(wanted, ",") ~= table.concat(shape(from), ",") then
    fail("diagonal_scatter: the diagonal of %s is (%s), got %s", tostring(x),
         table.concat(wanted, ", "), tostring(from))
  end
  local spread = spread_diagonal(from, rows, columns, offset)
  local y = op.where(op.eq(column - row, offset), spread, turned)
  return nn.movedim(y, {-2, -1}, {a, b})
end)
-- Stores the last dimension on the diagonal of a matrix, 0 elsewhere; a, b: the axes of the result
-- that form the matrix.
define("diag_embed(x: tensor, offset: whole = 0, a: whole = -2, b: whole = -1)",
       "torch.diag_embed", function(x, offset, a, b)
  local dims = shape(x)
  if #dims < 1 then fail("diag_embed: expected at least one dimension, got %s", tostring(x)) end
  local n = dims[#dims] + math.abs(offset)
  local y = dims[#dims] > 0 and spread_diagonal(x, n, n, offset) or
    nn.zeros({n, n}, {dtype = core.dtype(x)})
  return nn.movedim(y, {-2, -1}, {a, b})
end)
-- For a vector diag_embed, for a matrix its diagonal.
define("diag(x: tensor, offset|diagonal: whole = 0)", "torch.diag", function(x, offset)
  if #shape(x) == 1 then return nn.diag_embed(x, offset) end
  return nn.diagonal(x, offset)
end)
-- x flattened, on the diagonal of a matrix.
define("diagflat(x: tensor, offset: whole = 0)", "torch.diagflat", function(x, offset)
  return nn.diag_embed(nn.ravel(x), offset)
end)
-- The trace: the sum of a matrix's diagonal.
define("trace(x: tensor)", "torch.trace", function(x)
  if #shape(x) ~= 2 then
    fail("trace: expected a matrix, got %s; nn.diagonal(x, 0, -2, -1):sum(-1) is that of a batch",
         tostring(x))
  end
  return nn.sum(nn.diagonal(x))
end)
-- The number of ascending boundaries below each element, as i32; right = true also counts equal
-- ones.
define("bucketize(x: tensor, boundaries: tensor, {right: boolean = false})",
       "torch.bucketize", function(x, boundaries, o)
  local wide = nn.unsqueeze(x, -1)
  return nn.sum(o.right and op.le(boundaries, wide) or op.lt(boundaries, wide), -1)
end)
-- The number of ascending boundaries (..., n) below each value (..., m) of the same row, or of one
-- row for all; as bucketize. side = "right" is right = true; sorter: the positions that sort
-- boundaries, of their shape.
define([[searchsorted(boundaries|sorted_sequence: tensor, values: tensor, {right: boolean = false,
       side: left/right = left, sorter: tensor = nil})]],
       "torch.searchsorted", function(boundaries, values, o)
  if o.sorter then
    if table.concat(shape(o.sorter), ",") ~= table.concat(shape(boundaries), ",") then
      fail("searchsorted: sorter: expected the shape of %s, got %s", tostring(boundaries),
           tostring(o.sorter))
    end
    boundaries = nn.take_along(boundaries, o.sorter)
  end
  if #shape(boundaries) > 1 then
    if #shape(values) ~= #shape(boundaries) then
      fail("searchsorted: expected one row of boundaries, or (..., n) and (..., m), got %s and %s",
           tostring(boundaries), tostring(values))
    end
    boundaries = nn.unsqueeze(boundaries, -2)
  end
  return nn.bucketize(values, boundaries, {right = o.right or o.side == "right"})
end)
-- True for each element of x that is among the elements of `tests`; inverted by invert.
define([[isin(x|elements: tensor, tests|test_elements: tensor, {invert: boolean = false})]],
       "torch.isin", function(x, tests, o)
  local found = nn.any(op.eq(nn.unsqueeze(x, -1), nn.ravel(tests)), -1)
  return o.invert and op.logical_not(found) or found
end)
-- The number of elements in each of `bins` equal parts of low to high, the last one closed; others
-- do not count. low = high: from the smallest element to the largest.
define("histc(x: tensor, bins: count = 100, low|min: number = 0, high|max: number = 0)",
       "torch.histc", function(x, bins, low, high)
  if low > high then fail("histc: low = %g, high = %g: expected high above low", low, high) end
  local scale
  if low == high then
    low, high = nn.amin(x), nn.amax(x)
    local flat = op.eq(low, high)
    low, high = op.where(flat, low - 1.0, low), op.where(flat, high + 1.0, high)
    scale = op.div(bins + 0.0, high - low)
  else
    scale = bins / (high - low)
  end
  local bin = op.min(op.floor((x - low) * scale), bins - 1.0)
  bin = op.where(op.ge(x, low) & op.le(x, high), bin, -1.0):to("i32")
  return tools.as_floats_of(x, nn.bincount(nn.ravel(bin), bins):to("f32"))
end)
-- The edges of `bins` equal parts of low to high, numbers or tensors of one element.
local function even_edges(low, high, bins)
  local flat = op.eq(low, high)
  low, high = op.where(flat, low - 0.5, low), op.where(flat, high + 0.5, high)
  local place = nn.index({bins + 1})
  local edge = (high - low) * (1 / bins) * place + low
  return op.where(op.eq(place, bins), high, edge)
end
-- Counts the elements, or sums their weights, between consecutive edges, the last part closed;
-- returns that and the edges (bins + 1). bins: a number of equal parts of the range {low, high}, by
-- default from the smallest element to the largest; or an ascending vector of edges. density:
-- divided by the total and the width of the part.
define([[histogram(x: tensor, bins: any, {range: any = nil, weight: tensor = nil,
       density: boolean = false})]], "torch.histogram", function(x, bins, o)
  local edges, range = bins, o.range
  if not core.is_tensor(bins) then
    bins = tools.count("histogram: bins", bins)
    if range and (type(range) ~= "table" or type(range[1]) ~= "number" or
                  type(range[2]) ~= "number" or range[1] > range[2]) then
      fail("histogram: range = %s: expected {low, high}", tools.said(range))
    end
    if range then
      edges = even_edges(nn.full({}, range[1] + 0.0), nn.full({}, range[2] + 0.0), bins)
    else
      edges = even_edges(nn.amin(x), nn.amax(x), bins)
    end
  elseif #shape(bins) ~= 1 or shape(bins)[1] < 2 or range then
    fail("histogram: bins: expected a vector of at least two edges%s, got %s",
         range and " without a range" or "", tostring(bins))
  else
    bins = shape(bins)[1] - 1
  end
  local flat, weight = nn.ravel(x), o.weight and nn.ravel(o.weight)
  if weight and shape(weight)[1] ~= shape(flat)[1] then
    fail("histogram: weight: expected a number for each element of %s, got %s", tostring(x),
         tostring(o.weight))
  end
  local bin = nn.bucketize(flat, edges, {right = true}) - 1
  bin = op.where(op.eq(flat, nn.select(edges, 1, bins + 1)), bins - 1, bin)
  local y = nn.bincount(bin, bins, weight):to("f32")
  if o.density then y = y / nn.diff(edges) / nn.sum(y) end
  return y, edges
end)
