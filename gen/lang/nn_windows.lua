-- nn_windows.lua: unfold, fold and unpooling, of the module `nn` (nn.lua): single elements of
-- windows, positions of their maxima, windows at random positions.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, product = tools.fail, tools.define, tools.product

local function clamped(v, size) return op.min(op.max(v, 0), size - 1) end
local function inside_of(v, size) return op.ge(v, 0) & op.lt(v, size) end

-- For windows over (N, C, ...): the positions of their elements in the image, i32 (kernel, L),
-- which of them are inside, and the number of windows per dimension. o: kernel, stride and dilation
-- of each dimension, pad of both sides.
local function window_places(dims, o)
  local out, rank = {}, #o.kernel
  for i = 1, rank do
    local span = (o.kernel[i] - 1) * o.dilation[i] + 1
    out[i] = (dims[2 + i] + o.pad[i] + o.pad[i + rank] - span) // o.stride[i] + 1
    if out[i] < 1 then
      fail("the window (%s) is larger than the padded image (%s)", table.concat(o.kernel, ", "),
           table.concat(dims, ", ", 3))
    end
  end
  local taps, all = product(o.kernel), product(out)
  local tap, place = nn.index({taps, 1}, 1), nn.index({1, all}, 2)
  local at, inside = 0, nil
  for i = 1, rank do -- decomposes tap and window index by dimension
    taps, all = taps // o.kernel[i], all // out[i]
    local v = op.mod(op.floordiv(tap, taps), o.kernel[i]) * o.dilation[i] +
              op.mod(op.floordiv(place, all), out[i]) * o.stride[i] - o.pad[i]
    local fits = inside_of(v, dims[2 + i])
    inside = inside and inside & fits or fits
    at = clamped(v, dims[2 + i]) + at * dims[2 + i]
  end
  return at, inside, out
end

local function flat(x) -- (N, C, elements)
  local dims = shape(x)
  return op.reshape(x, {dims = {dims[1], dims[2], product(dims, 3)}})
end

-- The elements of each window, (N, C, kernel, L); `other` outside the image.
local function windows(x, o, other)
  local places, inside, out = window_places(shape(x), o)
  local y = op.gather(flat(x), places, {axis = 2})
  if math.max(table.unpack(o.pad)) == 0 then return y, places, out end
  return op.where(inside, y, other), places, out
end

-- The index of the largest element of each window, (N, C, 1, L): the first of equal ones.
function tools.largest_of_windows(x, o)
  return op.reduce_argmax((windows(x, o, -math.huge)), {axes = 4})
end

-- The largest element of each window, and its position.
function tools.max_with_places(x, o)
  local dims = shape(x)
  local y, places, out = windows(x, o, -math.huge)
  local best = op.reduce_argmax(y, {axes = 4}) -- (N, C, 1, L)
  local L, taps = product(out), product(o.kernel)
  local tap = op.reshape(best, {dims = {dims[1], dims[2], L}})
  local at = op.gather(op.reshape(places, {dims = {taps * L}}), tap * L + nn.index({1, 1, L}, 3),
                       {axis = 0})
  local shaped = {dims = {dims[1], dims[2], table.unpack(out)}}
  return op.reshape(op.reduce_max(y, {axes = 4}), shaped), op.reshape(at, shaped)
end

-- Adaptive windows, which split (N, C, ...) into `size` parts per dimension: the largest element of
-- each, the first of equal ones, and its position.
function tools.largest_of_parts(x, size)
  local dims, kernel = shape(x), {}
  for i, out in ipairs(size) do
    local n = dims[2 + i]
    kernel[i] = 1
    for cell = 0, out - 1 do
      kernel[i] = math.max(kernel[i], -(-(cell + 1) * n // out) - cell * n // out)
    end
  end
  local taps, all = product(kernel), product(size)
  local L, tap, place = all, nn.index({taps, 1}, 1), nn.index({1, all}, 2)
  local at, inside = 0, nil
  for i, out in ipairs(size) do
    local n = dims[2 + i]
    taps, all = taps // kernel[i], all // out
    local cell = op.mod(op.floordiv(place, all), out)
    local v = op.mod(op.floordiv(tap, taps), kernel[i]) + op.floordiv(cell * n, out)
    local fits = op.lt(v, op.floordiv((cell + 1) * n + (out - 1), out))
    inside = inside and inside & fits or fits
    at = clamped(v, n) + at * n
  end
  local y = op.where(inside, op.gather(flat(x), at, {axis = 2}), -math.huge)
  local best = op.reshape(op.reduce_argmax(y, {axes = 4}), {dims = {dims[1], dims[2], L}})
  local places = op.gather(op.reshape(at, {dims = {product(kernel) * L}}),
                           best * L + nn.index({1, 1, L}, 3), {axis = 0})
  local shaped = {dims = {dims[1], dims[2], table.unpack(size)}}
  return op.reshape(op.take_along(flat(x), places, {axis = 2}), shaped),
      op.reshape(places, shaped)
end

-- Calls f with every list of integers from 0 to below those of `sizes`.
local function each_of(sizes, f)
  for k = 0, product(sizes) - 1 do
    local list = {}
    for i = #sizes, 1, -1 do list[i], k = k % sizes[i], k // sizes[i] end
    f(list)
  end
end

-- x (N, C, ...) stored at positions of an image of `size`, 0 elsewhere.
local function unpooled(x, places, o, size)
  local dims, rank = shape(x), #size
  local line, last, over = 0, {}, {}
  for i = 1, rank do
    local ones = {}
    for j = 1, rank do ones[j] = j == i and size[i] or 1 end
    local at = nn.index(ones, i)
    line = at + line * size[i]
    -- the last window that covers it, and the number that do
    last[i] = op.minimum(op.floordiv(at + o.pad[i], o.stride[i]), dims[2 + i] - 1)
    over[i] = math.min((o.kernel[i] - 1) // o.stride[i] + 1, dims[2 + i])
  end
  local flat_x, flat_places, y = flat(x), flat(places), nil
  each_of(over, function(back)
    local window, inside = 0, nil
    for i = 1, rank do
      local v = last[i] - back[i]
      local fits = inside_of(v, dims[2 + i])
      inside = inside and inside & fits or fits
      window = clamped(v, dims[2 + i]) + window * dims[2 + i]
    end
    local chosen = op.eq(op.gather(flat_places, window, {axis = 2}), line)
    y = op.where(chosen & inside, op.gather(flat_x, window, {axis = 2}), y or 0.0)
  end)
  return y
end

-- Inverse of max_pool: the elements x stored at the positions that the pool returned, 0 elsewhere.
-- `size`: the pool's input size, by default the smallest that yields x. Windows may overlap.
define([[max_unpool{1,2,3}d(x: image#, places|indices: image#, kernel|kernel_size: each#,
       {stride: each# = nil, pad|padding: border# = 0, size|output_size: extent# = nil})]],
       "F.max_unpool#d, nn.MaxUnpool#d", function(rank)
  local what = "max_unpool" .. rank .. "d"
  return function(x, places, kernel, o)
    local size, stride = o.size, o.stride or kernel
    if table.concat(shape(x), ",") ~= table.concat(shape(places), ",") then
      fail("%s: places %s are not of %s", what, tostring(places), tostring(x))
    end
    if tools.is_float(places) or core.dtype(places) == "bool" then
      fail("%s: places: expected integers, got %s", what, core.dtype(places))
    end
    if not size then
      size = {}
      for i = 1, rank do
        size[i] = (shape(x)[2 + i] - 1) * stride[i] - 2 * o.pad[i] + kernel[i]
        if size[i] < 1 then fail("%s: pad = %d leaves nothing", what, o.pad[i]) end
      end
    end
    local count = 1.0
    for i = 1, rank do count = count * size[i] end
    if count > 2^31 then
      fail("%s: (%s) has %.0f elements, over 2^31", what, table.concat(size, ", "), count)
    end
    return unpooled(x, places, {kernel = kernel, stride = stride, pad = o.pad}, size)
  end
end)

-- ---- windows at random positions ----------------------------------------------------------------

-- The start of each of `out` windows of `kernel` over `size` elements (Graham, "Fractional
-- max-pooling", 2014), from a number from 0 to 1 for each (N, C, 1): i32 (N, C, out).
local function chance_places(sample, size, out, kernel)
  local last = size - kernel
  if out == 1 then return op.where(op.ge(sample, 0), last, last) end
  local i, alpha = nn.index({out}), last / (out - 1)
  local first = nn.to(op.floor(sample * alpha), "i32")
  local at = nn.to(op.floor((nn.to(i, "f32") + sample) * alpha), "i32") - first
  return op.where(op.eq(i, out - 1), last, at)
end
-- Fractional max pooling: the largest elements of windows at random positions, to a size or a ratio
-- of x's size. samples (N, C, dimensions): the random numbers, from 0 to 1; by default nn.random's,
-- the last dimension's first, as in PyTorch.
define([[fractional_max_pool{2,3}d(x: image#, kernel|kernel_size: each#,
       {size|output_size: each# = nil, ratio|output_ratio: any = nil,
       return_indices: boolean = false, samples|_random_samples: tensor = nil,
       seed: whole = 0})]],
       "F.fractional_max_pool#d, nn.FractionalMaxPool#d", function(rank)
  local what = "fractional_max_pool" .. rank .. "d"
  return function(x, kernel, o)
    local dims, size = shape(x), o.size or {}
    if (o.size == nil) == (o.ratio == nil) then fail("%s: expected size or ratio", what) end
    for i = 1, rank do
      local ratio = type(o.ratio) == "table" and o.ratio[i] or o.ratio
      if not o.size then
        if type(ratio) ~= "number" or ratio <= 0 or ratio >= 1 then
          fail("%s: ratio: expected numbers from 0 to 1", what)
        end
        size[i] = math.floor(dims[2 + i] * ratio)
      end
      if size[i] < 1 or size[i] + kernel[i] - 1 > dims[2 + i] then
        fail("%s: %d windows of %d do not fit in axis %d of %s", what, size[i], kernel[i], 2 + i,
             tostring(x))
      end
    end
    local samples = o.samples or nn.random({dims[1], dims[2], rank}, {seed = o.seed})
    if table.concat(shape(samples), ",") ~= table.concat({dims[1], dims[2], rank}, ",") then
      fail("%s: samples %s: expected (%d, %d, %d)", what, tostring(samples), dims[1], dims[2], rank)
    end
    local begins = {} -- (N, C, 1, .., size, .., 1)
    for i = 1, rank do
      local of = rank == 2 and 3 - i or i
      local at = chance_places(nn.slice(samples, 3, of, of), dims[2 + i], size[i], kernel[i])
      local wide = {dims[1], dims[2]}
      for j = 1, rank do wide[2 + j] = j == i and size[i] or 1 end
      begins[i] = op.reshape(at, {dims = wide})
    end
    local L, y, best = product(size), nil, nil
    each_of(kernel, function(tap)
      local place = 0
      for i = 1, rank do place = begins[i] + tap[i] + place * dims[2 + i] end
      place = op.reshape(place, {dims = {dims[1], dims[2], L}})
      local v = op.take_along(flat(x), place, {axis = 2})
      local more = y and op.gt(v, y)
      y, best = y and op.where(more, v, y) or v, best and op.where(more, place, best) or place
    end)
    local shaped = {dims = {dims[1], dims[2], table.unpack(size)}}
    if not o.return_indices then return op.reshape(y, shaped) end
    return op.reshape(y, shaped), op.reshape(best, shaped)
  end
end)

-- ---- unfold and fold --------------------------------------------------------------------------

-- Windows of `size` elements along an axis, `step` apart: the axis counts the windows, a new last
-- axis holds their elements.
local function windows_along(x, axis, size, step)
  axis = tools.axis_or_only("unfold: axis", axis, x)
  size, step = tools.amount("unfold: size", size), tools.count("unfold: step", step)
  local n = shape(x)[axis] or 1
  if size > n then
    fail("unfold: windows of %d along axis %d of %s, which has %d", size, axis, tostring(x), n)
  end
  if #shape(x) == 0 then return nn.slice(op.reshape(x, {dims = {1}}), 1, 1, size) end -- of a scalar
  local dims = {(n - size) // step + 1, size}
  local y = op.gather(x, nn.index(dims, 1) * step + nn.index(dims, 2), {axis = axis - 1})
  return nn.movedim(y, axis + 1, -1)
end
-- (N, C, H, W) -> (N, C * kernel, L): the elements of each of L windows (im2col). With three
-- numbers Tensor.unfold, x:unfold(axis, size, step): windows of `size` elements along an axis,
-- `step` apart, whose elements become a new last axis.
define([[unfold(x: tensor, kernel|kernel_size|axis: any, size: whole = nil, step: whole = nil,
       {dilation: each2 = 1, pad|padding: sides2 = 0, stride: each2 = 1})]],
       "F.unfold, nn.Unfold, Tensor.unfold", function(x, kernel, size, step, o)
  if size and step then return windows_along(x, kernel, size, step) end
  o.kernel = tools.each(2)("unfold: kernel", kernel)
  kernel = o.kernel
  tools.image(2)("unfold", x)
  local one = #shape(x) == 3
  if one then x = nn.unsqueeze(x, 1) end
  local dims = shape(x)
  local y = windows(x, o, 0.0)
  local wide = {dims[1], dims[2] * kernel[1] * kernel[2], shape(y)[4]}
  return op.reshape(y, {dims = one and {wide[2], wide[3]} or wide})
end)
-- (N, C * kernel, L) -> (N, C, height, width): adds the elements of windows at their positions
-- (col2im).
define([[fold(x: image1, size|output_size: each2, kernel|kernel_size: each2, {dilation: each2 = 1,
       pad|padding: border2 = 0, stride: each2 = 1})]], "F.fold, nn.Fold",
       function(x, size, kernel, o)
  local N, CK, L = table.unpack(shape(x))
  local taps = kernel[1] * kernel[2]
  local out = {}
  for i = 1, 2 do
    out[i] = (size[i] + 2 * o.pad[i] - o.dilation[i] * (kernel[i] - 1) - 1) // o.stride[i] + 1
    if out[i] < 1 then
      fail("fold: kernel = {%d, %d} does not fit size = {%d, %d}", kernel[1], kernel[2], size[1],
           size[2])
    end
  end
  if CK % taps ~= 0 or out[1] * out[2] ~= L then
    fail("fold: %s is not (N, C * %d, %d)", tostring(x), taps, out[1] * out[2])
  end
  local tap = op.mod(nn.index({CK, 1, 1, 1}, 1), taps)
  local place = nn.index({1, 1, kernel[1], 1}, 3) * kernel[2] + nn.index({1, 1, 1, kernel[2]}, 4)
  return op.conv2d_data(op.reshape(x, {dims = {N, CK, out[1], out[2]}}),
                        op.eq(tap, place):to("f32"), {
    stride = o.stride, pad = {o.pad[1], o.pad[2], o.pad[1], o.pad[2]}, dilation = o.dilation,
        groups = CK // taps, size = size})
end)
