-- nn_sample.lua: images sampled at computed positions, of the module `nn` (nn.lua): grids and
-- grid_sample, composed of maps and gathers, so that derivatives by the grid need no rules.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define = tools.fail, tools.define

local function floor(v) return op.stop_gradient(op.floor(v)) end

-- A coordinate from -1 to 1 as a position among n elements.
local function unnormalised(v, n, align)
  return align and (v + 1.0) * ((n - 1) / 2) or ((v + 1.0) * n - 1.0) * 0.5
end

local function reflected(v, low, high) -- bounds are doubled
  if low == high then return v * 0.0 end
  local from, span = low / 2, (high - low) / 2
  local d = op.abs(v - from)
  local turns = floor(d / span)
  local extra = d - turns * span
  return op.where(op.eq(op.mod(turns, 2.0), 0.0), extra + from, span - extra + from)
end

-- A position, possibly fractional, mapped into the image by o.padding_mode.
local function bounded(v, n, o)
  if o.padding_mode == "zeros" then return v end
  if o.padding_mode == "reflection" then
    v = o.align_corners and reflected(v, 0, 2 * (n - 1)) or reflected(v, -1, 2 * n - 1)
  end
  return op.min(op.max(v, 0.0), n - 1.0)
end

-- The elements along one axis that a position reads, {position, weight}: integers as floats.
local taps = {}
function taps.nearest(v, n, o) return {{op.stop_gradient(op.round(bounded(v, n, o))), 1.0}} end
function taps.bilinear(v, n, o)
  v = bounded(v, n, o)
  local low = floor(v)
  return {{low, 1.0 - (v - low)}, {low + 1.0, v - low}}
end
function taps.bicubic(v, n, o)
  local low, list = floor(v), {}
  for tap = -1, 2 do
    list[#list + 1] = {bounded(low + (tap + 0.0), n, o), tools.cubic(v - low, tap)}
  end
  return list
end

-- x (N, C, H, W) sampled at the points of grid (N, H', W', 2), x then y from -1 to 1 -> (N, C, H',
-- W'), or x (N, C, D, H, W) at grid (N, D', H', W', 3), x, y, z. "bilinear" is trilinear there;
-- "bicubic" is for 2-D images only.
define([[grid_sample(x: tensor, grid: tensor, {mode: bilinear/nearest/bicubic = bilinear,
       padding_mode: zeros/border/reflection = zeros, align_corners: boolean = false})]],
       "F.grid_sample", function(x, grid, o)
  local dims, g = shape(x), shape(grid)
  local rank, N, C = #dims - 2, dims[1], dims[2]
  if rank ~= 2 and rank ~= 3 then
    fail("grid_sample: expected (N, C, H, W) or (N, C, D, H, W), got %s", tostring(x))
  end
  if #g ~= rank + 2 or g[#g] ~= rank or g[1] ~= N then
    fail("grid_sample: grid: expected (%d, %sH, W, %d), got %s", N, rank == 3 and "D, " or "", rank,
         tostring(grid))
  end
  if o.mode == "bicubic" and rank == 3 then
    fail("grid_sample: bicubic is for (N, C, H, W), not for %s", tostring(x))
  end
  local L = tools.product(g, 2, #g - 1)
  local flat = op.reshape(x, {dims = {N, C, tools.product(dims, 3)}})
  local of_axis = {}
  for i = 1, rank do
    local v = op.reshape(nn.select(grid, #g, rank + 1 - i), {dims = {N, 1, L}})
    of_axis[i] = taps[o.mode](unnormalised(v, dims[2 + i], o.align_corners), dims[2 + i], o)
  end
  local result
  -- Sums over all taps of the axes after i, given the chosen taps of those before it.
  local function add(i, line, weight, inside)
    if i > rank then
      local y = op.take_along(flat, line + nn.index({1, C, 1}, 2) * 0, {axis = 2})
      y = (inside and op.where(inside, y, 0.0) or y) * weight
      result = result and result + y or y
      return
    end
    local n = dims[2 + i]
    for _, tap in ipairs(of_axis[i]) do
      local place = tap[1]:to("i32")
      local fits = o.padding_mode == "zeros" and op.ge(place, 0) & op.lt(place, n) or nil
      add(i + 1, op.min(op.max(place, 0), n - 1) + line * n, tap[2] * weight,
          inside and fits and inside & fits or fits)
    end
  end
  add(1, 0, 1.0, nil)
  return op.reshape(result, {dims = {N, C, table.unpack(g, 2, #g - 1)}})
end)

-- The sampling grid (N, H, W, 2) of affine maps theta (N, 2, 3), for grid_sample, or (N, D, H, W,
-- 3) of (N, 3, 4); size is that of the result, {N, C, H, W} or {N, C, D, H, W}.
define("affine_grid(theta: tensor, size: sizes, {align_corners: boolean = false})",
       "F.affine_grid", function(theta, size, o)
  local rank, N = #size - 2, size[1]
  local want = string.format("%s, %d, %d", N, rank, rank + 1)
  if rank ~= 2 and rank ~= 3 or table.concat(shape(theta), ", ") ~= want then
    fail("affine_grid: expected theta (N, 2, 3) for a size {N, C, H, W}, (N, 3, 4) for " ..
         "{N, C, D, H, W}, got %s", tostring(theta))
  end
  local wide, ones = {1}, {N}
  for i = 1, rank do wide[1 + i], ones[1 + i] = size[2 + i], 1 end
  wide[rank + 2], ones[rank + 2] = 1, rank
  local function line(axis)
    local n, v = wide[axis], nn.index(wide, axis):to("f32")
    if o.align_corners then return n > 1 and v * (2 / (n - 1)) - 1.0 or v * 0.0 end
    return (v * 2.0 + 1.0) * (1 / n) - 1.0
  end
  local y
  for j = 1, rank + 1 do
    local entry = op.reshape(nn.select(theta, 3, j), {dims = ones})
    local part = j > rank and entry or entry * line(rank + 2 - j)
    y = y and y + part or part
  end
  return tools.as_floats_of(theta, y)
end)
