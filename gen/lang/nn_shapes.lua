-- nn_shapes.lua: shapes and orders of axes, of the module `nn` (nn.lua): data movement, which
-- becomes index arithmetic in the kernels that read the results.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, count, whole = tools.fail, tools.define, tools.count, tools.whole

local function product(list, from, to)
  local n = 1
  for i = from or 1, to or #list do n = n * list[i] end
  return n
end
tools.product = product

-- A copy of a shape with one size changed.
local function with(dims, axis, size)
  local new = table.move(dims, 1, #dims, 1, {})
  new[axis] = size
  return new
end
tools.with = with

-- A vector or number as a tensor of `rank` dimensions with its elements along one axis.
function tools.along(v, rank, axis)
  local dims = {}
  for i = 1, rank do dims[i] = 1 end
  dims[axis] = product(shape(v))
  return op.reshape(v, {dims = dims})
end

-- Checks that tensors, given by argument name, have the sizes `want`.
function tools.want_sizes(what, want, given)
  local sizes = table.concat(want, ", ")
  for _, name in ipairs(tools.sorted_keys(given)) do
    if table.concat(shape(given[name]), ", ") ~= sizes then
      fail("%s: %s: expected (%s), got %s", what, name, sizes, tostring(given[name]))
    end
  end
end

-- ---- sizes ------------------------------------------------------------------------------------

-- Sizes with `elements` elements in all; one of them may be -1.
local function completed(what, dims, elements, of)
  local known, hole = 1, nil
  for i, d in ipairs(dims) do
    if d ~= -1 then known = known * d
    elseif not hole then hole = i
    else
      fail("%s: dimensions %d and %d are both -1; one follows from the others", what, hole, i)
    end
  end
  if not hole then return dims end
  if known < 1 or elements % known ~= 0 then
    fail("%s: no size fits -1 in (%s): %s has %d elements, no multiple of %d", what,
         table.concat(dims, ", "), of, elements, known)
  end
  return with(dims, hole, elements // known)
end

-- The same elements in row-major order with other sizes; one size may be -1 and follows from the
-- others.
define("reshape|view(x: tensor, dims: sizes)", "torch.reshape, Tensor.view", function(x, dims)
  return op.reshape(x, {dims = completed("reshape", dims, product(shape(x)), tostring(x))})
end)
define("view_as|reshape_as(x: tensor, y: tensor)", "Tensor.view_as", function(x, y)
  return nn.reshape(x, shape(y))
end)

-- Dimensions first to last become one. The default keeps the batch, as nn.Flatten does;
-- torch.flatten begins at 1.
define("flatten(x: tensor, first|start: axis = 2, last: axis = -1)",
       "torch.flatten, nn.Flatten", function(x, first, last)
  local dims, new = shape(x), {}
  if first > last then fail("flatten: axis %d comes after axis %d", first, last) end
  for i = 1, first - 1 do new[i] = dims[i] end
  new[first] = product(dims, first, last)
  for i = last + 1, #dims do new[#new + 1] = dims[i] end
  return op.reshape(x, {dims = new})
end)
define("ravel(x: tensor)", "torch.ravel", function(x)
  return op.reshape(x, {dims = {product(shape(x))}})
end)
-- One dimension becomes several; one of the sizes may be -1.
define("unflatten(x: tensor, axis: axis, sizes: sizes)",
       "torch.unflatten, nn.Unflatten", function(x, axis, sizes)
  local dims, new = shape(x), {}
  for i = 1, axis - 1 do new[i] = dims[i] end
  local of = string.format("axis %d of %s", axis, tostring(x))
  for _, d in ipairs(completed("unflatten", sizes, dims[axis], of)) do new[#new + 1] = d end
  for i = axis + 1, #dims do new[#new + 1] = dims[i] end
  if product(new) ~= product(dims) then
    fail("unflatten: (%s) is not axis %d of %s", table.concat(sizes, ", "), axis, tostring(x))
  end
  return op.reshape(x, {dims = new})
end)
-- Drops dimensions of size 1: all of them, or those given, which are kept if they are larger.
define("squeeze(x: tensor, axes: axes = nil)", "torch.squeeze", function(x, axes)
  local dims, new, drop = shape(x), {}, {}
  for i = 1, #dims do drop[i] = not axes end
  for _, axis in ipairs(axes or {}) do drop[axis] = true end
  for i, d in ipairs(dims) do if not (drop[i] and d == 1) then new[#new + 1] = d end end
  return op.reshape(x, {dims = new})
end)
-- Inserts a dimension of size 1 as the axis given, from 1 to one more than there are.
define("unsqueeze(x: tensor, axis: whole)", "torch.unsqueeze", function(x, axis)
  local dims = shape(x)
  local at = axis > 0 and axis or #dims + 2 + axis
  if at < 1 or at > #dims + 1 then
    fail("unsqueeze: axis %d: %s can have 1 to %d", axis, tostring(x), #dims + 1)
  end
  table.insert(dims, at, 1)
  return op.reshape(x, {dims = dims})
end)

-- ---- axis order --------------------------------------------------------------------------------

-- Dimension i of the result is dimension axes[i] of x.
define("permute(x: tensor, axes: axes)", "torch.permute", function(x, axes)
  if #axes ~= #shape(x) then
    fail("permute: %s needs %d axes, got %d", tostring(x), #shape(x), #axes)
  end
  local dims = {}
  for i, axis in ipairs(axes) do dims[i] = axis - 1 end
  return op.permute(x, {dims = dims})
end)
-- Exchanges two dimensions, by default the last two.
define("transpose|swapaxes|swapdims(x: tensor, a: axis = -2, b: axis = -1)",
       "torch.transpose", function(x, a, b)
  local dims = {}
  for i = 1, #shape(x) do dims[i] = i - 1 end
  dims[a], dims[b] = b - 1, a - 1
  return op.permute(x, {dims = dims})
end)
-- The last two dimensions exchanged.
define("adjoint(x: tensor)", "torch.adjoint", function(x) return nn.transpose(x) end)
-- The transpose of a matrix.
define("t(x: tensor)", "torch.t", function(x)
  if #shape(x) > 2 then
    fail("t: expected a matrix, got %s; transpose(a, b) exchanges two axes", tostring(x))
  end
  return #shape(x) == 2 and nn.transpose(x) or x
end)
-- Moves the dimensions `from` to the positions `to`; the others keep their order.
define("movedim|moveaxis(x: tensor, from|source: axes, to|destination: axes)",
       "torch.movedim", function(x, from, to)
  if #from ~= #to then fail("movedim: %d axes to %d places", #from, #to) end
  local order, moved = {}, {}
  for i, axis in ipairs(from) do order[to[i]], moved[axis] = axis, true end
  local at = 1
  for axis = 1, #shape(x) do
    if not moved[axis] then
      while order[at] do at = at + 1 end
      order[at] = axis
    end
  end
  return nn.permute(x, order)
end)

-- The elements of one axis at an i32 tensor of positions.
local function along(x, axis, places) return op.gather(x, places, {axis = axis - 1}) end

-- Reverses one axis; its own inverse, so the gradient is reversed, too.
local function turned(x, axis, n)
  local y = along(x, axis, n - 1 - nn.index({n}))
  return nn.custom_gradient(y, {x}, function(g) return turned(g, axis, n) end)
end

-- Reverses these axes.
define("flip(x: tensor, axes: axes)", "torch.flip", function(x, axes)
  for _, axis in ipairs(axes) do
    local n = shape(x)[axis]
    if n > 1 then x = turned(x, axis, n) end
  end
  return x
end)
define("fliplr(x: tensor)", "torch.fliplr", function(x) return nn.flip(x, 2) end)
define("flipud(x: tensor)", "torch.flipud", function(x) return nn.flip(x, 1) end)
-- Rotates by k quarter turns, from the first of two axes to the second.
define("rot90(x: tensor, k: whole = 1, a: axis = 1, b: axis = 2)",
       "torch.rot90", function(x, k, a, b)
  if k % 4 == 0 then return x end
  if k % 4 == 2 then return nn.flip(x, {a, b}) end
  if k % 4 == 1 then return nn.transpose(nn.flip(x, b), a, b) end
  return nn.flip(nn.transpose(x, a, b), b)
end)
-- Rotates by `shifts` along the axes; elements leaving at the end reenter at the beginning. Without
-- axes x is flattened.
define("roll(x: tensor, shifts: any, axes: any = nil)", "torch.roll", function(x, shifts, axes)
  if type(shifts) ~= "table" then shifts = {shifts} end
  for i, s in ipairs(shifts) do whole("roll: shifts[" .. i .. "]", s) end
  if not axes then
    if #shifts ~= 1 then fail("roll: expected one axis per shift") end
    return nn.reshape(nn.roll(nn.ravel(x), shifts[1], 1), shape(x))
  end
  if type(axes) ~= "table" then axes = {axes} end
  if #axes ~= #shifts then fail("roll: %d shifts for %d axes", #shifts, #axes) end
  local by = {}
  for d = 1, #shape(x) do by[d] = 0 end
  for i = 1, #axes do -- an axis may occur twice
    local axis = tools.axis("roll: axes[" .. i .. "]", axes[i], x)
    local n = shape(x)[axis]
    by[axis] = n > 0 and (by[axis] + shifts[i]) % n or 0
  end
  return op.roll(x, {dims = by})
end)

-- ---- images -----------------------------------------------------------------------------------

-- (N, C r^2, H, W) -> (N, C, H r, W r).
define("pixel_shuffle(x: tensor, factor|upscale_factor: count)",
       "F.pixel_shuffle, nn.PixelShuffle", function(x, r)
  local N, C, H, W = table.unpack(shape(x))
  if #shape(x) ~= 4 or C % (r * r) ~= 0 then
    fail("pixel_shuffle: expected (N, C * %d, H, W), got %s", r * r, tostring(x))
  end
  local parts = op.reshape(x, {dims = {N, C // (r * r), r, r, H, W}})
  return op.reshape(op.permute(parts, {dims = {0, 1, 4, 2, 5, 3}}),
                    {dims = {N, C // (r * r), H * r, W * r}})
end)
-- (N, C, H r, W r) -> (N, C r^2, H, W).
define("pixel_unshuffle(x: tensor, factor|downscale_factor: count)",
       "F.pixel_unshuffle, nn.PixelUnshuffle", function(x, r)
  local N, C, H, W = table.unpack(shape(x))
  if #shape(x) ~= 4 or H % r ~= 0 or W % r ~= 0 then
    fail("pixel_unshuffle: expected (N, C, H * %d, W * %d), got %s", r, r, tostring(x))
  end
  local parts = op.reshape(x, {dims = {N, C, H // r, r, W // r, r}})
  return op.reshape(op.permute(parts, {dims = {0, 1, 3, 5, 2, 4}}),
                    {dims = {N, C * r * r, H // r, W // r}})
end)
-- Interleaves the channels of (N, groups * C, ...): the first of each group, the second of each,
-- ...
define("channel_shuffle(x: tensor, groups: count)",
       "F.channel_shuffle, nn.ChannelShuffle", function(x, groups)
  local dims = shape(x)
  if #dims < 2 or dims[2] % groups ~= 0 then
    fail("channel_shuffle: %d groups do not divide %s", groups, tostring(x))
  end
  local inner = product(dims, 3)
  local parts = op.reshape(x, {dims = {dims[1], groups, dims[2] // groups, inner}})
  return op.reshape(op.permute(parts, {dims = {0, 2, 1, 3}}), {dims = dims})
end)
