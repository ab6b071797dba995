-- nn_resize.lua: image resizing, of the module `nn` (nn.lua): gathers along an axis with computed
-- positions and weights.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define = tools.fail, tools.define

local function clamped(place, n) return op.min(op.max(place, 0), n - 1) end

-- The elements of an axis at integer positions.
local function at(x, axis, places) return op.gather(x, places, {axis = axis - 1}) end

-- A row of numbers along one axis of x.
local function beside(x, axis, row) return tools.along(row, #shape(x), axis) end

-- Is `out` exactly n times the scale? Then positions are computed as fractions of integers, without
-- rounding.
local function is_exact(n, out, scale)
  return math.abs(scale * out - n) < 1e-9 and 2 * n * out < 2^31
end

-- The source position of each element of the result among n elements, at least `least`: the element
-- before it and the fraction beyond. scale: elements of x per element of the result.
local function sources(n, out, scale, align, least)
  local place = nn.index({out})
  if align or is_exact(n, out, scale) then
    local above = align and place * (n - 1) or (place * 2 + 1) * n - out
    local below = align and math.max(out - 1, 1) or 2 * out
    if least then above = op.max(above, least * below) end
    return op.floordiv(above, below), op.mod(above, below):to("f32") * (1 / below)
  end
  local from = (place:to("f32") + 0.5) * scale - 0.5
  if least then from = op.max(from, least + 0.0) end
  local low = op.floor(from)
  return low:to("i32"), from - low
end

function tools.cubic(t, tap) -- the weight of tap -1, 0, 1, 2 at t (Keys, a = -0.75)
  local a = -0.75
  local d = tap == -1 and t + 1.0 or tap == 0 and t or tap == 1 and 1.0 - t or 2.0 - t
  if tap == 0 or tap == 1 then return ((d * (a + 2) - (a + 3)) * d) * d + 1.0 end
  return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a
end

local resample = {}
function resample.nearest(x, axis, n, out, scale)
  local place = nn.index({out})
  local from = is_exact(n, out, scale) and op.floordiv(place * n, out)
      or op.floor(place:to("f32") * scale):to("i32")
  return at(x, axis, op.min(from, n - 1))
end
resample["nearest-exact"] = function(x, axis, n, out, scale)
  local place = nn.index({out})
  local from = is_exact(n, out, scale) and op.floordiv((place * 2 + 1) * n, 2 * out)
      or op.floor((place:to("f32") + 0.5) * scale):to("i32")
  return at(x, axis, op.min(from, n - 1))
end
function resample.linear(x, axis, n, out, scale, align)
  local place, weight = sources(n, out, scale, align, 0)
  weight = beside(x, axis, weight)
  local a, b = at(x, axis, clamped(place, n)), at(x, axis, clamped(place + 1, n))
  return a * (1.0 - weight) + b * weight
end
function resample.cubic(x, axis, n, out, scale, align)
  local place, weight = sources(n, out, scale, align)
  local sum
  for tap = -1, 2 do
    local part = at(x, axis, clamped(place + tap, n)) * beside(x, axis, tools.cubic(weight, tap))
    sum = sum and sum + part or part
  end
  return sum
end
function resample.area(x, axis, n, out)
  return tools.adaptive_axis(x, axis, out, function(v, a)
    return op.reduce_sum(v, {axes = 1 << (a - 1)}) * (1 / shape(v)[a])
  end)
end

-- antialias: the taps of a window `scale` times as wide as the kernel, with their weights as
-- numbers of the model; out (taps, out).
local kernels = {
  linear = {reach = 1, at = function(d) return math.max(1 - math.abs(d), 0) end},
  cubic = {reach = 2, at = function(d) -- Keys, a = -0.5
    d = math.abs(d)
    if d < 1 then return (1.5 * d - 2.5) * d * d + 1 end
    return d < 2 and ((-0.5 * d + 2.5) * d - 4) * d + 2 or 0
  end},
}
local function smooth(x, axis, n, out, scale, align, kind)
  if align then scale = out > 1 and (n - 1) / (out - 1) or 0 end
  local kernel, wide = kernels[kind], math.max(scale, 1)
  local firsts, rows, taps = {}, {}, 1
  for i = 1, out do
    local middle, reach = scale * (i - 0.5), kernel.reach * wide
    local first = math.max(math.floor(middle - reach + 0.5), 0)
    local row, sum = {}, 0
    for j = 1, math.min(math.floor(middle + reach + 0.5), n) - first do
      row[j] = kernel.at((first + j - 1 - middle + 0.5) / wide)
      sum = sum + row[j]
    end
    for j = 1, #row do row[j] = row[j] / sum end
    firsts[i], rows[i], taps = first, row, math.max(taps, #row)
  end
  local places, weights = {}, {}
  for j = 1, taps do
    places[j], weights[j] = {}, {}
    for i = 1, out do
      places[j][i] = math.min(firsts[i] + j - 1, n - 1)
      weights[j][i] = rows[i][j] or 0.0
    end
  end
  local dims = {}
  for i = 1, #shape(x) + 1 do dims[i] = 1 end
  dims[axis], dims[axis + 1] = taps, out
  local of_taps = at(x, axis, nn.tensor(places)) * op.reshape(nn.tensor(weights), {dims = dims})
  return nn.sum(of_taps, axis)
end

local of_mode = {nearest = "nearest", ["nearest-exact"] = "nearest-exact", linear = "linear",
                 bilinear = "linear",
                 trilinear = "linear", bicubic = "cubic", area = "area"}

-- Resizes (N, C, ...) to a size, or by a scale (numbers, or one per dimension). mode: "nearest",
-- "nearest-exact", "linear" (N, C, L), "bilinear", "trilinear", "bicubic" or "area"; align_corners
-- as PyTorch's. antialias, for "bilinear" and "bicubic": when shrinking, each element averages all
-- source elements that it covers.
define([[interpolate|upsample(x: tensor, size: any = nil, scale|scale_factor: any = nil,
       mode: string = nearest, {align_corners: boolean = false,
       recompute_scale_factor: boolean = false, antialias: boolean = false})]],
       "F.interpolate, nn.Upsample, nn.UpsamplingNearest2d, nn.UpsamplingBilinear2d",
       function(x, sizes, scales, mode, o)
  local dims, rank = shape(x), #shape(x) - 2
  local how = resample[of_mode[mode] or ""]
  if not how then
    fail("interpolate: mode = '%s': expected %s", mode,
         "nearest, nearest-exact, linear, bilinear, trilinear, bicubic or area")
  end
  local wants = ({linear = 1, bilinear = 2, bicubic = 2, trilinear = 3})[mode]
  if rank < 1 or rank > 3 or wants and wants ~= rank then
    fail("interpolate: %s is not for %s", mode, tostring(x))
  end
  if (sizes == nil) == (scales == nil) then fail("interpolate: expected size or scale") end
  if o.align_corners and not wants then
    fail("interpolate: align_corners is for linear, bilinear, trilinear and bicubic, not for %s",
         mode)
  end
  if o.antialias and mode ~= "bilinear" and mode ~= "bicubic" then
    fail("interpolate: antialias is for bilinear and bicubic, not for %s", mode)
  end
  local size, given = sizes and tools.each(rank)("interpolate: size", sizes), x
  for i = 1, rank do
    local n, out, scale = dims[2 + i], nil, nil
    if size then
      out = size[i]
      scale = n / out
    else
      local factor = type(scales) == "table" and scales[i] or scales
      if type(factor) ~= "number" or factor <= 0 then
        fail("interpolate: scale: expected numbers above 0")
      end
      out = math.floor(n * factor)
      scale = o.recompute_scale_factor and n / out or 1 / factor
    end
    if out < 1 then
      fail("interpolate: %d elements of axis %d of %s", out, 2 + i, tostring(x))
    end
    if out ~= n or scale ~= 1 then
      local f = o.antialias and smooth or how
      x = f(x, 2 + i, n, out, scale, o.align_corners, of_mode[mode])
    end
  end
  return tools.as_floats_of(given, x)
end)
