-- nn_resize.lua: pictures of other sizes, of the module `nn` (nn.lua): resizing and sampling, as
-- gathers along an axis with places and weights computed.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define = tools.fail, tools.define

local function clamped(place, n) return op.min(op.max(place, 0), n - 1) end

-- The elements of an axis at integer places.
local function at(x, axis, places) return op.gather(x, places, {axis = axis - 1}) end

-- A row of numbers along one axis of x.
local function beside(x, axis, row) return tools.along(row, #shape(x), axis) end

-- Is `out` elements what the scale makes of n? Then places are fractions of whole numbers, and
-- nothing is rounded.
local function is_exact(n, out, scale)
  return math.abs(scale * out - n) < 1e-9 and 2 * n * out < 2^31
end

-- The place among n elements of each element of the result, not below `least`: the element before
-- it, and how far it is behind that one. scale: elements of x for one of the result.
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

local function cubic(t, tap) -- the weight of tap -1, 0, 1, 2 at t (Keys, a = -0.75)
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
    local part = at(x, axis, clamped(place + tap, n)) * beside(x, axis, cubic(weight, tap))
    sum = sum and sum + part or part
  end
  return sum
end
function resample.area(x, axis, n, out)
  return tools.adaptive_axis(x, axis, out, function(v, a)
    return op.reduce_sum(v, {axes = 1 << (a - 1)}) * (1 / shape(v)[a])
  end)
end
local of_mode = {nearest = "nearest", ["nearest-exact"] = "nearest-exact", linear = "linear",
                 bilinear = "linear",
                 trilinear = "linear", bicubic = "cubic", area = "area"}

-- (N, C, ...) to another size, or by a scale (numbers, or one for each dimension). mode: "nearest",
-- "nearest-exact", "linear" (N, C, L), "bilinear", "trilinear", "bicubic" or "area"; align_corners
-- as PyTorch's.
define([[interpolate|upsample(x: tensor, {size: any = nil, scale|scale_factor: any = nil,
       mode: string = nearest, align_corners: boolean = false,
       recompute_scale_factor: boolean = false})]],
       "F.interpolate, nn.Upsample, nn.UpsamplingNearest2d, nn.UpsamplingBilinear2d", function(x, o)
  local dims, rank = shape(x), #shape(x) - 2
  local how = resample[of_mode[o.mode] or ""]
  if not how then
    fail("interpolate: mode = '%s': wants %s", o.mode,
         "nearest, nearest-exact, linear, bilinear, trilinear, bicubic or area")
  end
  local wants = ({linear = 1, bilinear = 2, bicubic = 2, trilinear = 3})[o.mode]
  if rank < 1 or rank > 3 or wants and wants ~= rank then
    fail("interpolate: %s is not for %s", o.mode, tostring(x))
  end
  if (o.size == nil) == (o.scale == nil) then fail("interpolate: wants size or scale") end
  local size = o.size and tools.each(rank)("interpolate: size", o.size)
  for i = 1, rank do
    local n, out, scale = dims[2 + i], nil, nil
    if size then
      out = size[i]
      scale = n / out
    else
      local factor = type(o.scale) == "table" and o.scale[i] or o.scale
      if type(factor) ~= "number" or factor <= 0 then
        fail("interpolate: scale wants numbers above 0")
      end
      out = math.floor(n * factor)
      scale = o.recompute_scale_factor and n / out or 1 / factor
    end
    if out < 1 then
      fail("interpolate: %d elements of axis %d of %s", out, 2 + i, tostring(x))
    end
    if out ~= n or scale ~= 1 then x = how(x, 2 + i, n, out, scale, o.align_corners) end
  end
  return x
end)

-- A coordinate from -1 to 1 as a place among n elements, and back into them.
local function unnormalised(v, n, align)
  return align and (v + 1.0) * ((n - 1) / 2) or ((v + 1.0) * n - 1.0) * 0.5
end
local function reflected(v, low, high) -- both doubled
  if low == high then return v * 0.0 end
  local from, span = low / 2, (high - low) / 2
  local d = op.abs(v - from)
  local turns = op.floor(d / span)
  local extra = d - turns * span
  return op.where(op.eq(op.mod(turns, 2.0), 0.0), extra + from, span - extra + from)
end

-- x (N, C, H, W) at the points of grid (N, H', W', 2), x then y from -1 to 1 -> (N, C, H', W').
define([[grid_sample(x: image2, grid: tensor, {mode: bilinear/nearest = bilinear,
       padding_mode: zeros/border/reflection = zeros, align_corners: boolean = false})]],
       "F.grid_sample", function(x, grid, o)
  local N, C, H, W = table.unpack(shape(x))
  local g = shape(grid)
  if #g ~= 4 or g[4] ~= 2 or g[1] ~= N then
    fail("grid_sample: grid: wants (%d, H, W, 2), not %s", N, tostring(grid))
  end
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
-- The grid (N, H, W, 2) of affine maps theta (N, 2, 3), for grid_sample; size is that of the
-- result, {N, C, H, W}.
define("affine_grid(theta: tensor, size: sizes, {align_corners: boolean = false})",
       "F.affine_grid", function(theta, size, o)
  local N, H, W = size[1], size[3], size[4]
  if #size ~= 4 or table.concat(shape(theta), ",") ~= N .. ",2,3" then
    fail("affine_grid: wants theta (%s, 2, 3) for a size {N, C, H, W}, not %s", tostring(N),
         tostring(theta))
  end
  local function line(n, axis)
    local v = nn.index({1, H, W, 1}, axis):to("f32")
    if o.align_corners then return n > 1 and v * (2 / (n - 1)) - 1.0 or v * 0.0 end
    return (v * 2.0 + 1.0) * (1 / n) - 1.0
  end
  local function entry(j) return op.reshape(nn.select(theta, 3, j), {dims = {N, 1, 1, 2}}) end
  return entry(1) * line(W, 3) + entry(2) * line(H, 2) + entry(3)
end)
