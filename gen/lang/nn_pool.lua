-- nn_pool.lua: pooling, of the module `nn` (nn.lua). One-dimensional pools are two-dimensional ones
-- of height 1; three-dimensional ones pool (height, width), then depth.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, with = tools.fail, tools.define, tools.with

-- ---- pools of two dimensions ------------------------------------------------------------------

-- With ceil_mode the last window may extend beyond the image: extra padding at the bottom and
-- right.
local function ceil_pad(x, o)
  local dims, rank = shape(x), #o.kernel
  for i = 1, rank do
    local span = (o.kernel[i] - 1) * o.dilation[i] + 1
    local padded = dims[2 + i] + o.pad[i] + o.pad[i + rank]
    local over = (padded - span) % o.stride[i]
    local last = (padded - span + o.stride[i] - 1) // o.stride[i] * o.stride[i]
    if over > 0 and last < dims[2 + i] + o.pad[i] then
      o.pad[i + rank] = o.pad[i + rank] + o.stride[i] - over
    end
  end
end

-- o: kernel, stride and dilation of each dimension, pad of both sides. Returns them with the
-- padding of ceil_mode, and the original padding.
local function window_of(what, x, o)
  local w = {kernel = o.kernel, stride = o.stride, dilation = o.dilation,
             pad = {table.unpack(o.pad)}}
  for i = 1, #w.pad do
    if w.pad[i] * 2 > w.kernel[(i - 1) % #w.kernel + 1] then
      fail("%s: pad is more than half of the kernel", what)
    end
  end
  if o.ceil_mode then ceil_pad(x, w) end
  return w, o.pad
end

local function max2d(what, x, o) return op.window_max(x, (window_of(what, x, o))) end

local function avg2d(what, x, o)
  local w, plain = window_of(what, x, o)
  local sum = op.window_sum(x, w)
  if o.divisor then return sum * (1 / o.divisor) end
  local hangs = w.pad[3] ~= plain[3] or w.pad[4] ~= plain[4]
  local padded = plain[1] + plain[2] + plain[3] + plain[4] > 0
  if not hangs and (o.count_include_pad or not padded) then
    return sum * (1 / (w.kernel[1] * w.kernel[2]))
  end
  -- The number of elements of each window: the same sum over ones.
  local dims = shape(x)
  if o.count_include_pad then
    dims[3], dims[4] = dims[3] + plain[1] + plain[3], dims[4] + plain[2] + plain[4]
    w.pad = {0, 0, w.pad[3] - plain[3], w.pad[4] - plain[4]}
  end
  local count = op.window_sum(core.full({1, 1, dims[3], dims[4]}, 1), w)
  return tools.as_floats_of(x, sum / count)
end

-- ---- pools of any dimensions ------------------------------------------------------------------

-- Checks the options of a pool, and fills in defaults.
local function filled(kernel, o)
  local ones, none = {}, {}
  for i = 1, #kernel do ones[i], none[i], none[#kernel + i] = 1, 0, 0 end
  return {kernel = kernel, stride = o.stride or kernel, dilation = o.dilation or ones,
          pad = o.pad or none, ceil_mode = o.ceil_mode, count_include_pad = o.count_include_pad,
          divisor = o.divisor}
end

local function pick(o, i, j) -- the options of dimensions i and j; 0: a height of 1
  local function both(list, other, from)
    return i == 0 and other or list[from + i], j == 0 and other or list[from + j]
  end
  local own = {kernel = {both(o.kernel, 1, 0)}, stride = {both(o.stride, 1, 0)},
               dilation = {both(o.dilation, 1, 0)}, pad = {both(o.pad, 0, 0)},
               ceil_mode = o.ceil_mode, count_include_pad = o.count_include_pad,
               divisor = o.divisor}
  own.pad[3], own.pad[4] = both(o.pad, 0, #o.kernel)
  return own
end

-- `two`: the two-dimensional pool.
local function pool(what, x, o, two)
  local N, C, D, H, W = table.unpack(shape(x))
  if #o.kernel == 2 then return two(what, x, o) end
  if #o.kernel == 1 then
    local y = two(what, nn.unsqueeze(x, 3), pick(o, 0, 1))
    return op.reshape(y, {dims = {N, C, shape(y)[4]}})
  end
  local y = two(what, op.reshape(x, {dims = {N, C * D, H, W}}), pick(o, 2, 3))
  local h, w = shape(y)[3], shape(y)[4]
  y = two(what, op.reshape(y, {dims = {N, C, D, h * w}}), pick(o, 1, 0))
  return op.reshape(y, {dims = {N, C, shape(y)[3], h, w}})
end

-- The largest element of each window; stride is by default the kernel. With return_indices a second
-- result: its position in the image, row * W + column, or the equivalent in three dimensions, as
-- i32.
define([[max_pool{1,2,3}d(x: image#, kernel|kernel_size: each#, {stride: each# = nil,
       pad|padding: sides# = 0, dilation: each# = 1, ceil_mode: boolean = false,
       return_indices: boolean = false})]], "F.max_pool#d, nn.MaxPool#d", function(rank)
  local what = "max_pool" .. rank .. "d"
  return function(x, kernel, o)
    local w = filled(kernel, o)
    if not o.return_indices then return pool(what, x, w, max2d) end
    return tools.max_with_places(x, (window_of(what, x, w)))
  end
end)
-- The mean of each window; padding counts unless count_include_pad is false; `divisor` replaces the
-- count.
define([[avg_pool{1,2,3}d(x: image#, kernel|kernel_size: each#, {stride: each# = nil,
       pad|padding: sides# = 0, ceil_mode: boolean = false, count_include_pad: boolean = true,
       divisor|divisor_override: number = nil})]], "F.avg_pool#d, nn.AvgPool#d", function(rank)
  local what = "avg_pool" .. rank .. "d"
  return function(x, kernel, o)
    local w = filled(kernel, o)
    if o.divisor == 0 then fail("avg_pool%dd: divisor = 0: expected a non-zero number", rank) end
    w.divisor = o.divisor and 1 or nil -- sums
    local y = pool(what, x, w, avg2d)
    return o.divisor and y * (1 / o.divisor) or y
  end
end)
-- (sum x^p)^(1/p) of each window; for one that extends beyond the image (ceil_mode) the mean of its
-- elements times the kernel's size, as in torch.
define([[lp_pool{1,2}d(x: image#, p|norm_type: number, kernel|kernel_size: each#,
       {stride: each# = nil, ceil_mode: boolean = false})]], "F.lp_pool#d, nn.LPPool#d",
       function(rank)
  return function(x, p, kernel, o)
    if p == 0 then fail("lp_pool%dd: p = 0: expected a non-zero number", rank) end
    local w = filled(kernel, o)
    w.count_include_pad = true
    local means = pool("lp_pool" .. rank .. "d", op.pow(x, p + 0.0), w, avg2d)
    return tools.root(means * (tools.product(kernel) + 0.0), p)
  end
end)

-- ---- adaptive pools ---------------------------------------------------------------------------

-- (N, C, H, W) -> (N, C, 1, 1): the mean of each channel.
define("global_avg_pool(x: image2)", "", function(x)
  local dims = shape(x)
  return op.reduce_sum(x, {axes = 12}) * (1 / (dims[3] * dims[4]))
end)

-- Adaptive pooling along one axis, with PyTorch's windows: one window op if they are equal, else a
-- slice and a reduction each.
local function adaptive_axis(x, axis, out, reduce)
  local n = shape(x)[axis]
  if n == out then return x end
  if n % out == 0 then
    local dims = with(shape(x), axis, out)
    table.insert(dims, axis + 1, n // out)
    return op.reshape(reduce(op.reshape(x, {dims = dims}), axis + 1),
                      {dims = with(shape(x), axis, out)})
  end
  local cells = {}
  for i = 1, out do
    cells[i] = reduce(nn.slice(x, axis, (i - 1) * n // out + 1, -(-i * n // out)), axis)
  end
  return nn.concat(cells, axis)
end
tools.adaptive_axis = adaptive_axis

local kMostSizes = 4096 -- per dimension
-- The size of each dimension of the result; nil, -1 or false keeps that of x.
local function sizes_of(what, x, size, rank)
  local out, dims = {}, shape(x)
  for i = 1, rank do
    if dims[2 + i] == 0 then fail("%s: expected non-empty images, got %s", what, tostring(x)) end
  end
  for key in pairs(type(size) == "table" and size or {}) do
    if math.type(key) ~= "integer" or key < 1 or key > rank then
      fail("%s: size: expected a number or a list of %d, where nil keeps a size", what, rank)
    end
  end
  for i = 1, rank do
    local v = size
    if type(size) == "table" then v = size[i] end
    local stays = v == nil or v == -1 or v == false
    out[i] = stays and dims[2 + i] or tools.count(what .. ": size", v)
    if out[i] > kMostSizes then fail("%s: size = %d: at most %d", what, out[i], kMostSizes) end
  end
  return out
end

-- (N, C, ...) -> (N, C, size): means; size is a number or a list, where nil or -1 keeps a size.
define("adaptive_avg_pool{1,2,3}d(x: image#, size|output_size: any)",
       "F.adaptive_avg_pool#d, nn.AdaptiveAvgPool#d", function(rank)
  local function mean(v, axis)
    return op.reduce_sum(v, {axes = 1 << (axis - 1)}) * (1 / shape(v)[axis])
  end
  return function(x, size)
    local dims, out = shape(x), sizes_of("adaptive_avg_pool" .. rank .. "d", x, size, rank)
    if rank == 2 then
      if out[1] == 1 and out[2] == 1 then return nn.global_avg_pool(x) end
      local all = dims[3] == out[1] and dims[4] == out[2] -- each window is one element
      if not all and dims[3] % out[1] == 0 and dims[4] % out[2] == 0 then
        return nn.avg_pool2d(x, {dims[3] // out[1], dims[4] // out[2]})
      end
    end
    for i = 1, rank do x = adaptive_axis(x, 2 + i, out[i], mean) end
    return x
  end
end)
-- (N, C, ...) -> (N, C, size): maxima; with return_indices a second result, their positions in the
-- image, as max_pool2d's.
define([[adaptive_max_pool{1,2,3}d(x: image#, size|output_size: any,
       {return_indices: boolean = false})]],
       "F.adaptive_max_pool#d, nn.AdaptiveMaxPool#d", function(rank)
  local function largest(v, axis) return (nn.max(v, {axis = axis, keep = true})) end
  return function(x, size, o)
    local out = sizes_of("adaptive_max_pool" .. rank .. "d", x, size, rank)
    if o.return_indices then return tools.largest_of_parts(x, out) end
    -- From the last axis on: of equal elements the first in row-major order gets the gradient.
    for i = rank, 1, -1 do x = adaptive_axis(x, 2 + i, out[i], largest) end
    return x
  end
end)
