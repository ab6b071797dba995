-- nn_pool.lua: windows over pictures, of the module `nn` (nn.lua): pooling, unfold and fold, resizing and sampling.
-- Pools of one dimension are those of two with a height of 1; of three they go over (height, width), then over depth.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, product, with = tools.fail, tools.define, tools.product, tools.with

local function want_rank(what, x, rank, as)
  if #shape(x) ~= rank then fail("%s: wants %s, not %s", what, as, tostring(x)) end
  return x
end
local layouts = {"(N, C, L)", "(N, C, H, W)", "(N, C, D, H, W)"}

-- The same number for each dimension, or a list of as many.
local function each(what, v, rank)
  if type(v) == "number" then
    local list = {}
    for i = 1, rank do list[i] = v end
    v = list
  end
  if type(v) ~= "table" or #v ~= rank then fail("%s: wants a number%s", what, rank > 1 and " or a list of " .. rank or "") end
  for i = 1, rank do tools.whole(what, v[i]) end
  return v
end

-- ---- pools of two dimensions ------------------------------------------------------------------

-- With ceil_mode the last window may hang over: more padding at the bottom and right.
local function ceil_pad(x, o)
  local dims = shape(x)
  for i = 1, 2 do
    local span = (o.kernel[i] - 1) * o.dilation[i] + 1
    local padded = dims[2 + i] + o.pad[i] + o.pad[i + 2]
    local over = (padded - span) % o.stride[i]
    local last = (padded - span + o.stride[i] - 1) // o.stride[i] * o.stride[i]
    if over > 0 and last < dims[2 + i] + o.pad[i] then
      o.pad[i + 2] = o.pad[i + 2] + o.stride[i] - over
    end
  end
end

-- o: kernel, stride, dilation of two numbers, pad of two or four; from a call's options.
local function window_of(what, x, o)
  local pad = #o.pad == 2 and {o.pad[1], o.pad[2], o.pad[1], o.pad[2]} or o.pad
  local w = {kernel = o.kernel, stride = o.stride, dilation = o.dilation, pad = {table.unpack(pad)}}
  for i = 1, 4 do
    if w.pad[i] * 2 > w.kernel[(i - 1) % 2 + 1] then fail("%s: pad is more than half of the kernel", what) end
  end
  if o.ceil_mode then ceil_pad(x, w) end
  return w, pad
end

local function max2d(what, x, o) return op.window_max(x, (window_of(what, x, o))) end

local function avg2d(what, x, o)
  local w, plain = window_of(what, x, o)
  local sum = op.window_sum(x, w)
  if o.divisor then return sum * (1 / o.divisor) end
  local hangs = w.pad[3] ~= plain[3] or w.pad[4] ~= plain[4]
  local padded = plain[1] + plain[2] + plain[3] + plain[4] > 0
  if not hangs and (o.count_include_pad or not padded) then return sum * (1 / (w.kernel[1] * w.kernel[2])) end
  -- How many elements each window has: the same sum over ones.
  local dims = shape(x)
  if o.count_include_pad then
    dims[3], dims[4] = dims[3] + plain[1] + plain[3], dims[4] + plain[2] + plain[4]
    w.pad = {0, 0, w.pad[3] - plain[3], w.pad[4] - plain[4]}
  end
  return sum / op.window_sum(core.full({1, 1, dims[3], dims[4]}, 1), w)
end

-- ---- pools of any dimensions ------------------------------------------------------------------

-- The options of a pool, numbers for each of `rank` dimensions.
local function read_options(what, x, kernel, o, rank)
  want_rank(what, x, rank + 2, layouts[rank])
  local r = {ceil_mode = o.ceil_mode, count_include_pad = o.count_include_pad}
  r.kernel = each(what .. ": kernel", kernel, rank)
  r.stride = each(what .. ": stride", o.stride or kernel, rank)
  r.dilation = each(what .. ": dilation", o.dilation or 1, rank)
  for i = 1, rank do
    if r.kernel[i] < 1 or r.stride[i] < 1 or r.dilation[i] < 1 then fail("%s: kernel, stride and dilation must be at least 1", what) end
  end
  if rank == 2 then r.pad = tools.sides(what .. ": pad", o.pad)
  else r.pad = each(what .. ": pad", o.pad, rank) end
  return r
end

local function pick(o, i, j) -- the options of dimensions i and j; 0: a height of 1
  local function both(list, other) return {i == 0 and other or list[i], j == 0 and other or list[j]} end
  return {kernel = both(o.kernel, 1), stride = both(o.stride, 1), dilation = both(o.dilation, 1), pad = both(o.pad, 0),
          ceil_mode = o.ceil_mode, count_include_pad = o.count_include_pad}
end

local function pool(what, x, o, rank, two)
  local N, C, D, H, W = table.unpack(shape(x))
  if rank == 2 then return two(what, x, o) end
  if rank == 1 then
    local y = two(what, op.reshape(x, {dims = {N, C, 1, D}}), pick(o, 0, 1))
    return op.reshape(y, {dims = {N, C, shape(y)[4]}})
  end
  local y = two(what, op.reshape(x, {dims = {N, C * D, H, W}}), pick(o, 2, 3))
  local h, w = shape(y)[3], shape(y)[4]
  y = two(what, op.reshape(y, {dims = {N, C, D, h * w}}), pick(o, 1, 0))
  return op.reshape(y, {dims = {N, C, shape(y)[3], h, w}})
end

-- Of each window (N, C, kernel, L): where its elements are in a picture of H x W, i32 (kernel, L), and which are in it.
local function window_places(dims, o)
  local H, W = dims[3], dims[4]
  local k, s, d, p = o.kernel, o.stride, o.dilation, o.pad
  local out = {}
  for i = 1, 2 do out[i] = (dims[2 + i] + p[i] + p[i + 2] - (k[i] - 1) * d[i] - 1) // s[i] + 1 end
  if out[1] < 1 or out[2] < 1 then fail("the window (%d, %d) is larger than the padded picture (%d, %d)", k[1], k[2], H, W) end
  local tap, place = nn.index({k[1] * k[2], 1}, 1), nn.index({1, out[1] * out[2]}, 2)
  local row = op.floordiv(tap, k[2]) * d[1] + op.floordiv(place, out[2]) * s[1] - p[1]
  local column = op.mod(tap, k[2]) * d[2] + op.mod(place, out[2]) * s[2] - p[2]
  local inside = (op.ge(row, 0) & op.lt(row, H)) & (op.ge(column, 0) & op.lt(column, W))
  return op.min(op.max(row, 0), H - 1) * W + op.min(op.max(column, 0), W - 1), inside, out
end

-- The elements of each window, (N, C, kernel, L); `other` where it hangs over.
local function windows(x, o, other)
  local dims = shape(x)
  local places, inside, out = window_places(dims, o)
  local flat = op.reshape(x, {dims = {dims[1], dims[2], dims[3] * dims[4]}})
  local y = op.gather(flat, places, {axis = 2})
  if o.pad[1] + o.pad[2] + o.pad[3] + o.pad[4] == 0 then return y, places, out end
  return op.where(inside, y, other), places, out
end

local function max_with_places(what, x, o)
  local w = window_of(what, x, o)
  local dims = shape(x)
  local y, places, out = windows(x, w, -math.huge)
  local shaped = {dims[1], dims[2], out[1], out[2]}
  local best = op.reduce_argmax(y, {axes = 4}) -- (N, C, 1, L)
  local L = out[1] * out[2]
  local tap = op.reshape(best, {dims = {dims[1], dims[2], L}})
  local at = op.gather(op.reshape(places, {dims = {w.kernel[1] * w.kernel[2] * L}}), tap * L + nn.index({1, 1, L}, 3), {axis = 0})
  return op.reshape(op.reduce_max(y, {axes = 4}), {dims = shaped}), op.reshape(at, {dims = shaped})
end

local function max_pool(rank)
  local what = "max_pool" .. rank .. "d"
  return function(x, kernel, o)
    local r = read_options(what, x, kernel, o, rank)
    if not o.return_indices then return pool(what, x, r, rank, max2d) end
    if rank == 3 then fail("%s: places are given in one and two dimensions", what) end
    if rank == 2 then return max_with_places(what, x, r) end
    local N, C, L = table.unpack(shape(x))
    local y, at = max_with_places(what, op.reshape(x, {dims = {N, C, 1, L}}), pick(r, 0, 1))
    local n = shape(y)[4]
    return op.reshape(y, {dims = {N, C, n}}), op.reshape(at, {dims = {N, C, n}})
  end
end
-- The largest element of each window of (N, C, L); stride is by default the kernel. With return_indices a second result:
-- its place in the row, as i32.
define("max_pool1d(x: tensor, kernel|kernel_size: any, {stride: any = nil, pad|padding: any = 0, dilation: any = 1, ceil_mode: boolean = false, return_indices: boolean = false})", "F.max_pool1d, nn.MaxPool1d", max_pool(1))
-- Of (N, C, H, W); kernel, stride and pad are numbers or {height, width}. Places are row * W + column.
define("max_pool2d(x: tensor, kernel|kernel_size: any, {stride: any = nil, pad|padding: any = 0, dilation: any = 1, ceil_mode: boolean = false, return_indices: boolean = false})", "F.max_pool2d, nn.MaxPool2d", max_pool(2))
-- Of (N, C, D, H, W).
define("max_pool3d(x: tensor, kernel|kernel_size: any, {stride: any = nil, pad|padding: any = 0, dilation: any = 1, ceil_mode: boolean = false, return_indices: boolean = false})", "F.max_pool3d, nn.MaxPool3d", max_pool(3))

local function avg_pool(rank)
  local what = "avg_pool" .. rank .. "d"
  return function(x, kernel, o)
    local r = read_options(what, x, kernel, o, rank)
    if not o.divisor then return pool(what, x, r, rank, avg2d) end
    local volume = product(r.kernel)
    local function sum(name, v, w) return avg2d(name, v, {kernel = w.kernel, stride = w.stride, dilation = w.dilation, pad = w.pad,
                                                          ceil_mode = w.ceil_mode, divisor = 1}) end
    return pool(what, x, r, rank, volume == 1 and avg2d or sum) * (1 / o.divisor)
  end
end
-- The mean of each window of (N, C, L); padding counts unless count_include_pad is false; `divisor` in place of the count.
define("avg_pool1d(x: tensor, kernel|kernel_size: any, {stride: any = nil, pad|padding: any = 0, ceil_mode: boolean = false, count_include_pad: boolean = true, divisor|divisor_override: number = nil})", "F.avg_pool1d, nn.AvgPool1d", avg_pool(1))
-- Of (N, C, H, W).
define("avg_pool2d(x: tensor, kernel|kernel_size: any, {stride: any = nil, pad|padding: any = 0, ceil_mode: boolean = false, count_include_pad: boolean = true, divisor|divisor_override: number = nil})", "F.avg_pool2d, nn.AvgPool2d", avg_pool(2))
-- Of (N, C, D, H, W).
define("avg_pool3d(x: tensor, kernel|kernel_size: any, {stride: any = nil, pad|padding: any = 0, ceil_mode: boolean = false, count_include_pad: boolean = true, divisor|divisor_override: number = nil})", "F.avg_pool3d, nn.AvgPool3d", avg_pool(3))

local function lp_pool(rank)
  local what = "lp_pool" .. rank .. "d"
  return function(x, p, kernel, o)
    local r = read_options(what, x, kernel, {stride = o.stride, pad = 0, ceil_mode = o.ceil_mode}, rank)
    local sum = pool(what, op.pow(op.abs(x), p), r, rank, function(name, v, w)
      return op.window_sum(v, (window_of(name, v, w)))
    end)
    return op.pow(sum, 1 / p)
  end
end
-- (sum |x|^p)^(1/p) of each window of (N, C, L).
define("lp_pool1d(x: tensor, p|norm_type: number, kernel|kernel_size: any, {stride: any = nil, ceil_mode: boolean = false})", "F.lp_pool1d, nn.LPPool1d", lp_pool(1))
-- Of (N, C, H, W).
define("lp_pool2d(x: tensor, p|norm_type: number, kernel|kernel_size: any, {stride: any = nil, ceil_mode: boolean = false})", "F.lp_pool2d, nn.LPPool2d", lp_pool(2))

-- ---- adaptive pools ---------------------------------------------------------------------------

-- (N, C, H, W) -> (N, C, 1, 1): the mean of each channel.
define("global_avg_pool(x: tensor)", "", function(x)
  local dims = shape(want_rank("global_avg_pool", x, 4, layouts[2]))
  return op.reduce_sum(x, {axes = 12}) * (1 / (dims[3] * dims[4]))
end)

-- Along one axis, as PyTorch cuts the windows: equal ones as a window, others as a slice and a reduction each.
local function adaptive_axis(x, axis, out, reduce)
  local n = shape(x)[axis]
  if n == out then return x end
  if n % out == 0 then
    local dims = with(shape(x), axis, out)
    table.insert(dims, axis + 1, n // out)
    return op.reshape(reduce(op.reshape(x, {dims = dims}), axis + 1), {dims = with(shape(x), axis, out)})
  end
  local cells = {}
  for i = 1, out do cells[i] = reduce(nn.slice(x, axis, (i - 1) * n // out + 1, -(-i * n // out)), axis) end
  return nn.concat(cells, axis)
end

local kMostSizes = 4096 -- of one dimension
local function sizes_of(what, x, size, rank)
  want_rank(what, x, rank + 2, layouts[rank])
  local out = {}
  if type(size) == "table" and #size ~= rank then fail("%s: wants a size or a list of %d", what, rank) end
  for i = 1, rank do
    local v = type(size) == "table" and size[i] or size
    out[i] = (v == -1 or v == false) and shape(x)[2 + i] or tools.count(what .. ": size", v)
    if out[i] > kMostSizes then fail("%s: size = %d: at most %d", what, out[i], kMostSizes) end
  end
  return out
end

local function adaptive_avg(rank)
  local what = "adaptive_avg_pool" .. rank .. "d"
  return function(x, size)
    local dims, out = shape(x), sizes_of(what, x, size, rank)
    if rank == 2 then
      if out[1] == 1 and out[2] == 1 then return nn.global_avg_pool(x) end
      local all = dims[3] == out[1] and dims[4] == out[2] -- each window is one element
      if not all and dims[3] % out[1] == 0 and dims[4] % out[2] == 0 then
        return nn.avg_pool2d(x, {dims[3] // out[1], dims[4] // out[2]})
      end
    end
    for i = 1, rank do
      x = adaptive_axis(x, 2 + i, out[i], function(v, axis) return op.reduce_sum(v, {axes = 1 << (axis - 1)}) * (1 / shape(v)[axis]) end)
    end
    return x
  end
end
-- (N, C, L) -> (N, C, size): means.
define("adaptive_avg_pool1d(x: tensor, size|output_size: any)", "F.adaptive_avg_pool1d, nn.AdaptiveAvgPool1d", adaptive_avg(1))
-- (N, C, H, W) -> (N, C, height, width); size is a number or {height, width}, -1 keeps one.
define("adaptive_avg_pool2d(x: tensor, size|output_size: any)", "F.adaptive_avg_pool2d, nn.AdaptiveAvgPool2d", adaptive_avg(2))
-- (N, C, D, H, W) -> (N, C, depth, height, width).
define("adaptive_avg_pool3d(x: tensor, size|output_size: any)", "F.adaptive_avg_pool3d, nn.AdaptiveAvgPool3d", adaptive_avg(3))

local function adaptive_max(rank)
  local what = "adaptive_max_pool" .. rank .. "d"
  return function(x, size)
    local out = sizes_of(what, x, size, rank)
    for i = 1, rank do
      x = adaptive_axis(x, 2 + i, out[i], function(v, axis) return op.reduce_max(v, {axes = 1 << (axis - 1)}) end)
    end
    return x
  end
end
-- (N, C, L) -> (N, C, size): the largest.
define("adaptive_max_pool1d(x: tensor, size|output_size: any)", "F.adaptive_max_pool1d, nn.AdaptiveMaxPool1d", adaptive_max(1))
-- (N, C, H, W) -> (N, C, height, width).
define("adaptive_max_pool2d(x: tensor, size|output_size: any)", "F.adaptive_max_pool2d, nn.AdaptiveMaxPool2d", adaptive_max(2))
-- (N, C, D, H, W) -> (N, C, depth, height, width).
define("adaptive_max_pool3d(x: tensor, size|output_size: any)", "F.adaptive_max_pool3d, nn.AdaptiveMaxPool3d", adaptive_max(3))

-- ---- unfold and fold --------------------------------------------------------------------------

-- (N, C, H, W) -> (N, C * kernel, L): the elements of each of L windows.
define("unfold(x: tensor, kernel|kernel_size: pair, {dilation: pair = 1, pad|padding: sides = 0, stride: pair = 1})", "F.unfold, nn.Unfold", function(x, kernel, o)
  o.kernel = kernel
  local dims = shape(want_rank("unfold", x, 4, layouts[2]))
  local y = windows(x, o, 0.0)
  return op.reshape(y, {dims = {dims[1], dims[2] * kernel[1] * kernel[2], shape(y)[4]}})
end)
-- (N, C * kernel, L) -> (N, C, height, width): the elements of windows added up where they lie.
define("fold(x: tensor, size|output_size: pair, kernel|kernel_size: pair, {dilation: pair = 1, pad|padding: pair = 0, stride: pair = 1})", "F.fold, nn.Fold", function(x, size, kernel, o)
  local N, CK, L = table.unpack(shape(want_rank("fold", x, 3, "(N, C * kernel, L)")))
  local taps = kernel[1] * kernel[2]
  local out = {}
  for i = 1, 2 do out[i] = (size[i] + 2 * o.pad[i] - o.dilation[i] * (kernel[i] - 1) - 1) // o.stride[i] + 1 end
  if CK % taps ~= 0 or out[1] * out[2] ~= L then
    fail("fold: %s is no (N, C * %d, %d)", tostring(x), taps, out[1] * out[2])
  end
  local tap = op.mod(nn.index({CK, 1, 1, 1}, 1), taps)
  local place = nn.index({1, 1, kernel[1], 1}, 3) * kernel[2] + nn.index({1, 1, 1, kernel[2]}, 4)
  return op.conv2d_data(op.reshape(x, {dims = {N, CK, out[1], out[2]}}), op.eq(tap, place):to("f32"), {
    stride = o.stride, pad = {o.pad[1], o.pad[2], o.pad[1], o.pad[2]}, dilation = o.dilation, groups = CK // taps, size = size})
end)

-- ---- resizing ---------------------------------------------------------------------------------

local function clamped(place, n) return op.min(op.max(place, 0), n - 1) end

-- The elements of an axis at integer places.
local function at(x, axis, places) return op.gather(x, places, {axis = axis - 1}) end

-- A row of numbers along one axis of x.
local function beside(x, axis, row)
  local dims = {}
  for i = 1, #shape(x) do dims[i] = i == axis and shape(row)[1] or 1 end
  return op.reshape(row, {dims = dims})
end

-- scale: elements of x for one of the result.
local function sources(n, out, scale, align)
  local place = nn.index({out}):to("f32")
  if align then return place * (out > 1 and (n - 1) / (out - 1) or 0.0) end
  return (place + 0.5) * scale - 0.5
end

local function cubic(t, tap) -- the weight of tap -1, 0, 1, 2 at t (Keys, a = -0.75)
  local a = -0.75
  local d = tap == -1 and t + 1.0 or tap == 0 and t or tap == 1 and 1.0 - t or 2.0 - t
  if tap == 0 or tap == 1 then return ((d * (a + 2) - (a + 3)) * d) * d + 1.0 end
  return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a
end

local resample = {}
function resample.nearest(x, axis, n, out, scale)
  local place = nn.index({out})
  local exact = math.abs(scale * out - n) < 1e-9 -- in whole numbers: nothing is rounded
  local from = exact and op.floordiv(place * n, out) or op.floor(place:to("f32") * scale):to("i32")
  return at(x, axis, op.min(from, n - 1))
end
resample["nearest-exact"] = function(x, axis, n, out, scale)
  local place = nn.index({out})
  local exact = math.abs(scale * out - n) < 1e-9
  local from = exact and op.floordiv((place * 2 + 1) * n, 2 * out) or op.floor((place:to("f32") + 0.5) * scale):to("i32")
  return at(x, axis, op.min(from, n - 1))
end
function resample.linear(x, axis, n, out, scale, align)
  local from = op.max(sources(n, out, scale, align), 0.0)
  local low = op.floor(from)
  local weight, place = beside(x, axis, from - low), low:to("i32")
  local a, b = at(x, axis, clamped(place, n)), at(x, axis, clamped(place + 1, n))
  return a * (1.0 - weight) + b * weight
end
function resample.cubic(x, axis, n, out, scale, align)
  local from = sources(n, out, scale, align)
  local low = op.floor(from)
  local place, sum = low:to("i32"), nil
  for tap = -1, 2 do
    local part = at(x, axis, clamped(place + tap, n)) * beside(x, axis, cubic(from - low, tap))
    sum = sum and sum + part or part
  end
  return sum
end
function resample.area(x, axis, n, out)
  return adaptive_axis(x, axis, out, function(v, a) return op.reduce_sum(v, {axes = 1 << (a - 1)}) * (1 / shape(v)[a]) end)
end
local of_mode = {nearest = "nearest", ["nearest-exact"] = "nearest-exact", linear = "linear", bilinear = "linear",
                 trilinear = "linear", bicubic = "cubic", area = "area"}

-- (N, C, ...) to another size, or by a scale (numbers, or one for each dimension). mode: "nearest", "nearest-exact",
-- "linear" (N, C, L), "bilinear", "trilinear", "bicubic" or "area"; align_corners as PyTorch's.
define("interpolate|upsample(x: tensor, {size: any = nil, scale|scale_factor: any = nil, mode: string = nearest, align_corners: boolean = false, recompute_scale_factor: boolean = false})", "F.interpolate, nn.Upsample, nn.UpsamplingNearest2d, nn.UpsamplingBilinear2d",
       function(x, o)
  local dims, rank = shape(x), #shape(x) - 2
  local how = resample[of_mode[o.mode] or ""]
  if not how then fail("interpolate: mode = '%s': wants nearest, nearest-exact, linear, bilinear, trilinear, bicubic or area", o.mode) end
  local wants = ({linear = 1, bilinear = 2, bicubic = 2, trilinear = 3})[o.mode]
  if rank < 1 or rank > 3 or wants and wants ~= rank then fail("interpolate: %s is not for %s", o.mode, tostring(x)) end
  if (o.size == nil) == (o.scale == nil) then fail("interpolate: wants size or scale") end
  for i = 1, rank do
    local n, out, scale = dims[2 + i], nil, nil
    if o.size then
      out = each("interpolate: size", o.size, rank)[i]
      scale = n / out
    else
      local factor = type(o.scale) == "table" and o.scale[i] or o.scale
      if type(factor) ~= "number" or factor <= 0 then fail("interpolate: scale wants numbers above 0") end
      out = math.floor(n * factor)
      scale = o.recompute_scale_factor and n / out or 1 / factor
    end
    if out < 1 then fail("interpolate: %d elements of axis %d of %s", out, 2 + i, tostring(x)) end
    if out ~= n or scale ~= 1 then x = how(x, 2 + i, n, out, scale, o.align_corners) end
  end
  return x
end)

-- A coordinate from -1 to 1 as a place among n elements, and back into them.
local function unnormalised(v, n, align) return align and (v + 1.0) * ((n - 1) / 2) or ((v + 1.0) * n - 1.0) * 0.5 end
local function reflected(v, low, high) -- both doubled
  if low == high then return v * 0.0 end
  local from, span = low / 2, (high - low) / 2
  local d = op.abs(v - from)
  local turns = op.floor(d / span)
  local extra = d - turns * span
  return op.where(op.eq(op.mod(turns, 2.0), 0.0), extra + from, span - extra + from)
end

-- x (N, C, H, W) at the points of grid (N, H', W', 2), x then y from -1 to 1 -> (N, C, H', W').
define("grid_sample(x: tensor, grid: tensor, {mode: bilinear/nearest = bilinear, padding_mode: zeros/border/reflection = zeros, align_corners: boolean = false})", "F.grid_sample",
       function(x, grid, o)
  local N, C, H, W = table.unpack(shape(want_rank("grid_sample", x, 4, layouts[2])))
  local g = shape(want_rank("grid_sample: grid", grid, 4, "(N, H, W, 2)"))
  if g[4] ~= 2 or g[1] ~= N then fail("grid_sample: grid: wants (%d, H, W, 2), not %s", N, tostring(grid)) end
  local L = g[2] * g[3]
  local flat = op.reshape(x, {dims = {N, C, H * W}})
  local function place(i, n)
    local v = op.reshape(nn.select(grid, 4, i), {dims = {N, 1, L}})
    v = unnormalised(v, n, o.align_corners)
    if o.padding_mode == "reflection" then
      v = o.align_corners and reflected(v, 0, 2 * (n - 1)) or reflected(v, -1, 2 * n - 1)
    end
    return o.padding_mode == "zeros" and v or op.min(op.max(v, 0.0), n - 1.0)
  end
  local column, row = place(1, W), place(2, H)
  local function sample(r, c)
    local ids = clamped(r, H) * W + clamped(c, W) + nn.index({1, C, 1}, 2) * 0
    local y = op.take_along(flat, ids, {axis = 2})
    if o.padding_mode ~= "zeros" then return y end
    local inside = (op.ge(r, 0) & op.lt(r, H)) & (op.ge(c, 0) & op.lt(c, W))
    return op.where(inside, y, 0.0)
  end
  local result
  if o.mode == "nearest" then
    result = sample(op.round(row):to("i32"), op.round(column):to("i32"))
  else
    local top, left = op.floor(row), op.floor(column)
    local down, right = row - top, column - left
    local r, c = top:to("i32"), left:to("i32")
    result = sample(r, c) * (1.0 - down) * (1.0 - right) + sample(r, c + 1) * (1.0 - down) * right +
             sample(r + 1, c) * down * (1.0 - right) + sample(r + 1, c + 1) * down * right
  end
  return op.reshape(result, {dims = {N, C, g[2], g[3]}})
end)
-- The grid (N, H, W, 2) of affine maps theta (N, 2, 3), for grid_sample; size is that of the result, {N, C, H, W}.
define("affine_grid(theta: tensor, size: sizes, {align_corners: boolean = false})", "F.affine_grid", function(theta, size, o)
  local N, H, W = size[1], size[3], size[4]
  if #size ~= 4 or table.concat(shape(theta), ",") ~= N .. ",2,3" then
    fail("affine_grid: wants theta (%s, 2, 3) for a size {N, C, H, W}, not %s", tostring(N), tostring(theta))
  end
  local function line(n, axis)
    local v = nn.index({1, H, W, 1}, axis):to("f32")
    if o.align_corners then return n > 1 and v * (2 / (n - 1)) - 1.0 or v * 0.0 end
    return (v * 2.0 + 1.0) * (1 / n) - 1.0
  end
  local function entry(j) return op.reshape(nn.select(theta, 3, j), {dims = {N, 1, 1, 2}}) end
  return entry(1) * line(W, 3) + entry(2) * line(H, 2) + entry(3)
end)
