-- nn_joins.lua: concatenation, and combinations of elements, of the module `nn` (nn.lua): data
-- movement, which becomes index arithmetic in the kernels that read the results.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, product = tools.fail, tools.define, tools.product

-- ---- concatenation ------------------------------------------------------------------------------

-- Type promotion as for operators: bools with integers become integers, both with floats become
-- floats, and 16-bit floats of different types f32.
local kind_of = {bool = 0, u8 = 1, i32 = 1, i64 = 1}
local function of_one_kind(list)
  local kind, dtype = -1, nil
  for _, x in ipairs(list) do
    local own = core.dtype(x)
    local k = kind_of[own] or 2
    if k > kind then kind, dtype = k, own
    elseif k == kind and own ~= dtype then dtype = k == 1 and "i32" or "f32" end
  end
  local joined = {}
  for i, x in ipairs(list) do
    joined[i] = core.dtype(x) == dtype and x or nn.to(x, dtype)
  end
  return joined
end
-- Concatenates along `axis`, by default 2, the channels; different dtypes are promoted as by
-- operators.
define("concat|cat|concatenate(tensors: tensors, axis: whole = 2)",
       "torch.cat", function(list, axis)
  axis = tools.axis("concat", #shape(list[1]) == 1 and axis == 2 and 1 or axis, list[1])
  if #list == 1 then return list[1] end
  list = of_one_kind(list)
  local most = 64 -- limit of one kernel; several kernels write parts of one output
  while #list > most do
    local joined = {}
    for i = 1, #list, most do
      local last = math.min(i + most - 1, #list)
      local args = table.move(list, i, last, 1, {})
      args[#args + 1] = {axis = axis - 1}
      joined[#joined + 1] = last == i and list[i] or op.concat(table.unpack(args))
    end
    list = joined
  end
  local args = table.move(list, 1, #list, 1, {})
  args[#args + 1] = {axis = axis - 1}
  return op.concat(table.unpack(args))
end)
-- Stacks along a new axis, which becomes the one given.
define("stack(tensors: tensors, axis: whole = 1)", "torch.stack", function(list, axis)
  local first, rows = list[1], {}
  local at = axis > 0 and axis or #shape(first) + 2 + axis
  for i, x in ipairs(list) do
    if table.concat(shape(x), ",") ~= table.concat(shape(first), ",") then
      fail("stack: shapes differ: %s and %s", tostring(first), tostring(x))
    end
    rows[i] = nn.unsqueeze(x, at)
  end
  return nn.concat(rows, at)
end)
-- Concatenates along axis 2, vectors along axis 1.
define("hstack(tensors: tensors)", "torch.hstack", function(list)
  return nn.concat(list, #shape(list[1]) == 1 and 1 or 2)
end)
-- Concatenates along axis 1, vectors as rows.
define("vstack|row_stack(tensors: tensors)", "torch.vstack", function(list)
  for i, x in ipairs(list) do if #shape(x) == 1 then list[i] = nn.unsqueeze(x, 1) end end
  return nn.concat(list, 1)
end)
-- Concatenates along axis 3, matrices as (N, M, 1).
define("dstack(tensors: tensors)", "torch.dstack", function(list)
  for i, x in ipairs(list) do
    if #shape(x) == 1 then x = nn.unsqueeze(x, 1) end
    list[i] = #shape(x) == 2 and nn.unsqueeze(x, 3) or x
  end
  return nn.concat(list, 3)
end)
-- Concatenates columns: vectors as (N, 1), matrices along axis 2.
define("column_stack(tensors: tensors)", "torch.column_stack", function(list)
  for i, x in ipairs(list) do
    if #shape(x) < 2 then list[i] = op.reshape(x, {dims = {product(shape(x)), 1}}) end
  end
  return nn.concat(list, 2)
end)
-- A block-diagonal matrix, 0 elsewhere; vectors and numbers are rows.
define("block_diag(tensors: tensors)", "torch.block_diag", function(list)
  local columns, before = 0, 0
  for i, x in ipairs(list) do
    if #shape(x) > 2 then fail("block_diag: expected matrices, got %s", tostring(x)) end
    list[i] = nn.atleast_2d(x)
    columns = columns + shape(list[i])[2]
  end
  for i, x in ipairs(list) do
    local own = shape(x)[2]
    list[i] = op.pad(x, {dims = {0, before}, ends = {0, columns - before - own}})
    before = before + own
  end
  return nn.concat(list, 1)
end)

-- ---- of equal shapes --------------------------------------------------------------------------

-- x with dimensions of size 1 added up to a rank: a vector becomes a row of a matrix, a matrix (N,
-- M, 1).
define("atleast_{1,2,3}d(x: tensor)", "torch.atleast_#d", function(rank)
  return function(x)
    local dims = shape(x)
    if #dims >= rank then return x end
    if rank > 1 and #dims == 1 then table.insert(dims, 1, 1) end
    while #dims < rank do dims[#dims + 1] = 1 end
    return op.reshape(x, {dims = dims})
  end
end)
-- Expands the tensors to the shape that all broadcast to: as many results.
define("broadcast_tensors(tensors: tensors)", "torch.broadcast_tensors", function(list)
  local dims = {}
  for _, x in ipairs(list) do
    local of = shape(x)
    while #dims < #of do table.insert(dims, 1, 1) end
    for i, d in ipairs(of) do
      local at = i + #dims - #of
      if dims[at] == 1 then dims[at] = d
      elseif d ~= 1 and d ~= dims[at] then
        fail("broadcast_tensors: %s does not broadcast to (%s)", tostring(x),
             table.concat(dims, ", "))
      end
    end
  end
  for i, x in ipairs(list) do list[i] = nn.expand(x, dims) end
  return table.unpack(list)
end)

-- ---- all combinations ---------------------------------------------------------------------------

-- For vectors of M, N, ... elements, coordinate tensors (M, N, ...), one along each axis; indexing
-- "xy" exchanges the first two. As many results.
define("meshgrid(tensors: tensors, {indexing: ij/xy = ij})", "torch.meshgrid", function(list, o)
  local dims, grids = {}, {}
  for i, x in ipairs(list) do dims[i] = product(shape(x)) end
  for i, x in ipairs(list) do
    grids[i] = nn.expand(tools.along(x, #dims, i), dims)
    if o.indexing == "xy" and #dims > 1 then grids[i] = nn.transpose(grids[i], 1, 2) end
  end
  return table.unpack(grids)
end)
-- The Cartesian product of vectors, as rows; a single vector is returned unchanged.
define("cartesian_prod(tensors: tensors)", "torch.cartesian_prod", function(list)
  if #list == 1 then return list[1] end
  local grids = {nn.meshgrid(list)}
  for i, x in ipairs(grids) do grids[i] = nn.ravel(x) end
  return nn.stack(grids, 2)
end)
-- All combinations of r elements of a vector, as rows, in order.
define("combinations(x: tensor, r: amount = 2, with_replacement: boolean = false)",
       "torch.combinations", function(x, r, with_replacement)
  if #shape(x) ~= 1 then fail("combinations: expected a vector, got %s", tostring(x)) end
  local n, places, many = shape(x)[1], {}, 0
  local chosen = {}
  local function choose(i, from)
    if i > r then
      many = many + 1
      table.move(chosen, 1, r, #places + 1, places)
      return
    end
    for v = from, n - 1 do
      chosen[i] = v
      choose(i + 1, with_replacement and v or v + 1)
    end
  end
  if r == 0 then return nn.slice(x, 1, 1, 0) end
  choose(1, 0)
  return nn.gather(x, nn.tensor(places, {dtype = "i32"}):reshape{many, r})
end)
-- The powers of a vector's elements as rows, the highest first: columns - 1, ..., 1, 0; with
-- increasing the lowest first.
define("vander(x: tensor, columns|N: amount = nil, increasing: boolean = false)",
       "torch.vander", function(x, columns, increasing)
  if #shape(x) ~= 1 then fail("vander: expected a vector, got %s", tostring(x)) end
  columns = columns or shape(x)[1]
  local powers = {nn.ones_like(x), x}
  for i = 3, columns do powers[i] = powers[i - 1] * x end
  local rows = nn.slice(nn.stack(powers, 2), 2, 1, columns)
  return increasing and rows or nn.flip(rows, 2)
end)
