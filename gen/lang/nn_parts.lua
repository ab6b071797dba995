-- nn_parts.lua: slices, copies and padding, of the module `nn` (nn.lua): data movement, which
-- becomes index arithmetic in the kernels that read the results.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, count, whole = tools.fail, tools.define, tools.count, tools.whole
local amount = tools.amount
local product, with = tools.product, tools.with

-- ---- parts ------------------------------------------------------------------------------------

local function part(x, axis, first, last) -- elements first to last
  local begin, ends = {}, {}
  for i, d in ipairs(shape(x)) do begin[i], ends[i] = 0, d end
  if first == 1 and last == ends[axis] then return x end
  begin[axis], ends[axis] = first - 1, last
  return op.slice(x, {dims = begin, ends = ends})
end

-- Every step-th element of an axis, from the first: reshaped into rows of `step` elements, keeping
-- the first column.
local function every(x, axis, step)
  local dims = shape(x)
  local many = (dims[axis] + step - 1) // step
  if many * step > dims[axis] then
    local behind = {}
    for i = 1, #dims do behind[i] = 0 end
    behind[axis] = many * step - dims[axis]
    x = op.pad(x, {dims = with(behind, axis, 0), ends = behind})
  end
  local rows = with(dims, axis, many)
  table.insert(rows, axis + 1, step)
  return op.reshape(part(op.reshape(x, {dims = rows}), axis + 1, 1, 1),
                    {dims = with(dims, axis, many)})
end

-- The position from 1 of an index into n elements; a negative index counts from the end.
local function place_of(v, n) return v < 0 and n + 1 + v or v end

-- Elements first to last of one dimension, counted from 1, inclusive, negative ones from the end,
-- with a stride of step; a negative step runs backward (then first is the higher one). Positions
-- outside the dimension are dropped, as in Python's slices; the result may be empty.
define("slice(x: tensor, axis: axis, first: whole = nil, last: whole = nil, step: whole = 1)",
       "x[first:last:step]",
       function(x, axis, first, last, step)
  local n = shape(x)[axis]
  if step == 0 then fail("slice: step = 0: expected at least 1, or -1 and below for backward") end
  if first == 0 then fail("slice: first = 0: elements count from 1") end
  local from = place_of(first or (step > 0 and 1 or n), n)
  local to = place_of(last or (step > 0 and n or 1), n)
  if step > 0 then
    from, to = math.max(from, 1), math.min(to, n)
    if from > to then return part(x, axis, 1, 0) end
    x = part(x, axis, from, to)
    return step == 1 and x or every(x, axis, step)
  end
  from, to = math.min(from, n), math.max(to, 1)
  if from < to then return part(x, axis, 1, 0) end
  local backward = nn.flip(part(x, axis, to, from), axis)
  return step == -1 and backward or every(backward, axis, -step)
end)
-- `length` elements starting at `start`, which counts from 1.
define("narrow(x: tensor, axis: axis, start: whole, length: amount)",
       "torch.narrow", function(x, axis, start, length)
  local n = shape(x)[axis]
  local first = place_of(start, n)
  if first < 1 or first + length - 1 > n then
    fail("narrow: elements %d to %d of axis %d of %s, which has %d%s", start, start + length - 1,
         axis, tostring(x), n, start == 0 and "; they count from 1" or "")
  end
  return part(x, axis, first, first + length - 1)
end)
-- One element of a dimension, from 1 or negative from the end; the dimension is dropped.
define("select(x: tensor, axis: axis, index: whole)", "torch.select", function(x, axis, index)
  local dims = shape(x)
  local place = place_of(index, dims[axis])
  if place < 1 or place > dims[axis] then
    fail("select: axis %d of %s has no element %d%s", axis, tostring(x), index,
         index == 0 and "; they count from 1" or "")
  end
  x = part(x, axis, place, place)
  table.remove(dims, axis)
  return op.reshape(x, {dims = dims})
end)
-- at(x, i, {first, last, step}, nil, ...): PyTorch's x[...]: for each dimension an index from 1
-- (which drops it), a table for slice, or nil for all; missing dimensions stay whole. `last` and
-- `step` are optional.
function nn.at(x, ...)
  tools.tensor("at", x)
  local given, axis = table.pack(...), 1
  if given.n > #shape(x) then fail("at: %d places in %s", given.n, tostring(x)) end
  for i = 1, given.n do
    local v = given[i]
    if v == nil then axis = axis + 1
    elseif type(v) == "table" then x, axis = nn.slice(x, axis, v[1], v[2], v[3]), axis + 1
    else x = nn.select(x, axis, whole("at: place " .. i, v)) end
  end
  return x
end

local function cut(x, axis, sizes)
  local list, first = {}, 1
  for i, size in ipairs(sizes) do
    list[i] = part(x, axis, first, first + size - 1)
    first = first + size
  end
  return table.unpack(list)
end
-- Splits into parts of `size` elements (the last one may be smaller), or of the listed sizes: as
-- many results.
define("split(x: tensor, size: any, axis: axis = 1)", "torch.split", function(x, size, axis)
  local n, sizes = shape(x)[axis], {}
  if type(size) == "table" then
    local sum = 0
    for i = 1, #size do sizes[i] = amount("split: size " .. i, size[i]); sum = sum + size[i] end
    if sum ~= n then
      fail("split: sizes sum to %d, axis %d of %s has %d", sum, axis, tostring(x), n)
    end
  else
    size = count("split: size", size)
    if n == 0 then sizes[1] = 0 end
    for first = 1, n, size do sizes[#sizes + 1] = math.min(size, n - first + 1) end
  end
  return cut(x, axis, sizes)
end)
-- Splits into at most `chunks` parts of equal size; the last one may be smaller.
define("chunk(x: tensor, chunks: count, axis: axis = 1)", "torch.chunk", function(x, chunks, axis)
  return nn.split(x, math.max((shape(x)[axis] + chunks - 1) // chunks, 1), axis)
end)
local kMostParts <const> = 65536
-- Splits into parts whose sizes differ by at most one, or at the positions of a list, counted from
-- 0, where each begins a part: as many results.
define("tensor_split(x: tensor, sections|indices: any, axis: axis = 1)",
       "torch.tensor_split", function(x, sections, axis)
  local n, list = shape(x)[axis], {}
  if type(sections) ~= "table" then
    if count("tensor_split: sections", sections) > kMostParts then
      fail("tensor_split: sections = %d: expected at most %d", sections, kMostParts)
    end
    for i = 1, sections do list[i] = n // sections + (i <= n % sections and 1 or 0) end
    return cut(x, axis, list)
  end
  local first = 0
  for i = 1, #sections + 1 do
    local place = sections[i] and whole("tensor_split: place " .. i, sections[i]) or n
    place = math.max(math.min(place < 0 and n + place or place, n), 0)
    list[i] = part(x, axis, first + 1, math.max(place, first))
    first = place
  end
  return table.unpack(list)
end)
define("split_with_sizes(x: tensor, sizes: sizes, axis: axis = 1)",
       "torch.split_with_sizes", function(x, sizes, axis) return nn.split(x, sizes, axis) end)
-- tensor_split along an axis whose size the number of sections must divide.
local function split_evenly(what, x, sections, axis)
  local n = shape(x)[axis]
  if not n then fail("%s: %s has no axis %d", what, tostring(x), axis) end
  if type(sections) ~= "table" and n % count(what .. ": sections", sections) ~= 0 then
    fail("%s: %d sections: axis %d of %s has %d elements; x:tensor_split gives parts of different "
         .. "sizes", what, sections, axis, tostring(x), n)
  end
  return nn.tensor_split(x, sections, axis)
end
-- Splits along axis 1 into parts of equal size, or at the positions of a list, as tensor_split.
define("vsplit(x: tensor, sections|indices: any)", "torch.vsplit", function(x, sections)
  return split_evenly("vsplit", x, sections, 1)
end)
-- vsplit along axis 2, or along the axis of a vector.
define("hsplit(x: tensor, sections|indices: any)", "torch.hsplit", function(x, sections)
  return split_evenly("hsplit", x, sections, #shape(x) == 1 and 1 or 2)
end)
-- vsplit along axis 3.
define("dsplit(x: tensor, sections|indices: any)", "torch.dsplit", function(x, sections)
  return split_evenly("dsplit", x, sections, 3)
end)
-- The elements of a dimension, which is dropped: as many results.
define("unbind(x: tensor, axis: axis = 1)", "torch.unbind", function(x, axis)
  local list = {}
  for i = 1, shape(x)[axis] do list[i] = nn.select(x, axis, i) end
  return table.unpack(list)
end)

-- A strided view of x's elements, counted row-major: sizes, strides, and the offset of the first
-- element.
define([[as_strided(x: tensor, dims|size: sizes, strides|stride: sizes,
       offset|storage_offset: amount = 0)]], "torch.as_strided", function(x, dims, strides, offset)
  if #dims ~= #strides then fail("as_strided: %d sizes and %d steps", #dims, #strides) end
  local place, last = offset, offset
  for i, d in ipairs(dims) do
    amount("as_strided: dimension " .. i, d)
    amount("as_strided: step " .. i, strides[i])
    last = last + (d - 1) * strides[i]
    place = nn.index(dims, i) * strides[i] + place
  end
  if product(dims) == 0 then return nn.zeros(dims, {dtype = core.dtype(x)}) end
  if last >= product(shape(x)) then
    fail("as_strided: element %d of %s, which has %d", last, tostring(x), product(shape(x)))
  end
  if #dims == 0 then return nn.select(nn.ravel(x), 1, offset + 1) end
  return op.gather(nn.ravel(x), place, {axis = 0})
end)

-- ---- copies -----------------------------------------------------------------------------------

-- Expands dimensions of size 1 to these sizes; -1 keeps one, leading sizes add dimensions.
define("expand|broadcast_to(x: tensor, sizes: sizes)",
       "Tensor.expand, torch.broadcast_to", function(x, sizes)
  local dims, new, same = shape(x), {}, true
  local ahead = #sizes - #dims
  if ahead < 0 then
    fail("expand: (%s) has fewer dimensions than %s", table.concat(sizes, ", "), tostring(x))
  end
  for i, d in ipairs(sizes) do
    local own = dims[i - ahead] or 1
    new[i] = d == -1 and own or d
    if own ~= new[i] then
      if own ~= 1 then
        fail("expand: axis %d of %s has %d elements, not %d", i - ahead, tostring(x), own, new[i])
      end
      same = false
    end
  end
  if ahead > 0 then
    local wide = table.move(dims, 1, #dims, ahead + 1, {})
    for i = 1, ahead do wide[i] = 1 end
    x = op.reshape(x, {dims = wide})
  end
  if same then return x end
  return op.where(op.ge(nn.index(new, 1), 0), x, x)
end)
define("expand_as(x: tensor, y: tensor)", "Tensor.expand_as", function(x, y)
  return nn.expand(x, shape(y))
end)
-- Repeats each dimension this many times; leading numbers add dimensions.
define("tile|repeat_(x: tensor, times|reps: sizes)", "torch.tile, Tensor.repeat", function(x, times)
  local dims = shape(x)
  while #times < #dims do table.insert(times, 1, 1) end
  local ahead, wide, grown, final = #times - #dims, {}, {}, {}
  for i, n in ipairs(times) do
    amount("tile: times " .. i, n)
    local d = i > ahead and dims[i - ahead] or 1
    wide[#wide + 1], grown[#grown + 1] = 1, n
    wide[#wide + 1], grown[#grown + 1] = d, d
    final[i] = n * d
  end
  -- Dimensions of size 1 that stay are skipped: the number of dimensions is limited.
  local a, b = {}, {}
  for i = 1, #wide do
    if grown[i] ~= 1 then a[#a + 1], b[#b + 1] = wide[i], grown[i] end
  end
  return op.reshape(nn.expand(op.reshape(x, {dims = a}), b), {dims = final})
end)
-- Repeats each element this many times in a row, along an axis, or as often as a list has for it;
-- without an axis, x is flattened.
define("repeat_interleave(x: tensor, times|repeats: any, axis: any = nil)",
       "torch.repeat_interleave", function(x, times, axis)
  if not axis then x, axis = nn.ravel(x), 1 end
  axis = tools.axis("repeat_interleave", axis, x)
  local dims = shape(x)
  if core.is_tensor(times) then
    fail("repeat_interleave: the size would depend on values of %s; counts are a list of numbers",
         tostring(times))
  end
  if type(times) == "table" and #times ~= 1 then
    if #times ~= dims[axis] then
      fail("repeat_interleave: %d counts for axis %d of %s", #times, axis, tostring(x))
    end
    local places = {}
    for i = 1, #times do
      local many = amount("repeat_interleave: times " .. i, times[i])
      for _ = 1, many do places[#places + 1] = i - 1 end
    end
    return op.gather(x, nn.tensor(places, {dtype = "i32"}), {axis = axis - 1})
  end
  times = amount("repeat_interleave: times", type(times) == "table" and times[1] or times)
  local wide = nn.unsqueeze(x, axis + 1)
  local grown = shape(wide)
  grown[axis + 1] = times
  return op.reshape(nn.expand(wide, grown), {dims = with(dims, axis, dims[axis] * times)})
end)

-- ---- padding ----------------------------------------------------------------------------------

-- The gradient of bordered: parts of g added to the elements that were copied into the border.
local function from_border(g, axis, n, before, behind, mode)
  local function put(part, at, count) -- padded with zeros
    local first, last = {}, {}
    for i = 1, #shape(g) do first[i], last[i] = 0, 0 end
    first[axis], last[axis] = at, n - at - count
    return op.pad(part, {dims = first, ends = last})
  end
  local function border(first, count, at) -- the elements that the border copies, from `at` on
    local part = nn.slice(g, axis, first, first + count - 1)
    if mode == "replicate" then return put(nn.sum(part, axis, true), at, 1) end
    return put(mode == "reflect" and nn.flip(part, axis) or part, at, count)
  end
  local sum = nn.slice(g, axis, before + 1, before + n)
  local front = {reflect = 1, replicate = 0, circular = n - before}
  local back = {reflect = n - 1 - behind, replicate = n - 1, circular = 0}
  if before > 0 then sum = sum + border(1, before, front[mode]) end
  if behind > 0 then sum = sum + border(before + n + 1, behind, back[mode]) end
  return sum
end

-- x extended by `before` and `behind` elements, by a gather of positions in x.
local function bordered(x, axis, before, behind, mode)
  local n = shape(x)[axis]
  local place = nn.index({n + before + behind}) - before
  if mode == "replicate" then place = op.min(op.max(place, 0), n - 1)
  elseif mode == "circular" then
    if before > n or behind > n then
      fail("pad: circular by %d wraps around more than once, axis %d of %s has %d",
           math.max(before, behind), axis, tostring(x), n)
    end
    place = op.mod(place, n)
  else
    if before >= n or behind >= n then
      fail("pad: reflect by %d requires more elements than that, axis %d of %s has %d",
           math.max(before, behind), axis, tostring(x), n)
    end
    place = n - 1 - op.abs(n - 1 - op.abs(place))
  end
  return nn.custom_gradient(op.gather(x, place, {axis = axis - 1}), {x}, function(g)
    return from_border(g, axis, n, before, behind, mode)
  end)
end

-- pad: {left, right, top, bottom, ...}, from the last dimension on, as torch.nn.functional.pad;
-- negative numbers crop. mode: "constant" with `value`, "reflect", "replicate" or "circular".
define([[pad(x: tensor, pad|padding: sizes, mode: constant/reflect/replicate/circular = constant,
       value: scalar = 0)]],
       [[F.pad, nn.ZeroPad2d, nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d,
       nn.ReflectionPad1d, nn.ReflectionPad2d, nn.ReflectionPad3d, nn.ReplicationPad1d,
       nn.ReplicationPad2d, nn.ReplicationPad3d]], function(x, pad, mode, value)
  local dims = shape(x)
  if #pad % 2 ~= 0 or #pad // 2 > #dims then
    fail("pad: %d numbers for %s; expected two for each axis, from the last one on", #pad,
         tostring(x))
  end
  local before, behind, any = {}, {}, false
  for i = 1, #dims do before[i], behind[i] = 0, 0 end
  for i = 1, #pad // 2 do
    local axis = #dims + 1 - i
    local low, high = pad[2 * i - 1], pad[2 * i]
    local first, last = 1 - math.min(low, 0), dims[axis] + math.min(high, 0)
    if first > last + 1 then
      fail("pad: %d and %d leave nothing of axis %d of %s", low, high, axis, tostring(x))
    end
    x = part(x, axis, first, last)
    low, high = math.max(low, 0), math.max(high, 0)
    if mode == "constant" then
      before[axis], behind[axis] = low, high
      any = any or low + high > 0
    elseif low + high > 0 then
      x = bordered(x, axis, low, high, mode)
    end
  end
  if not any then return x end
  local wide = op.pad(x, {dims = before, ends = behind})
  if value == 0 or not value then return wide end
  local inside -- where x is, independent of its values
  for axis = 1, #before do
    if before[axis] + behind[axis] > 0 then
      local row = {}
      for i = 1, #before do row[i] = i == axis and shape(wide)[i] or 1 end
      local place = nn.index(row, axis)
      local here = op.ge(place, before[axis]) & op.lt(place, before[axis] + shape(x)[axis])
      inside = inside and inside & here or here
    end
  end
  return nn.type_as(op.where(inside, wide, tools.as_element("pad", value, x)), x)
end)
