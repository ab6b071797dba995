-- A random model: nngen tests/models/fuzz.lua --set seed=17. Every seed is a valid model that uses
-- layers and ops in odd shapes; values stay near 1, so that errors show and nothing overflows.
-- inputs=1: what is broadcast is computed from inputs; moves=1: contractions that store through
-- moves; scans=1: scans and largest elements;
-- names=1: layers and inputs are named after what kernels are written with, and after each other.
local nn = require "nn"
local cfg = nn.config{seed = 1, ops = 10, moves = 0, inputs = 0, names = 0, scans = 0}

local state = cfg.seed * 7919 + 104729
local function random(n) -- 1 to n
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % n + 1
end
local function pick(list) return list[random(#list)] end

local hostile = {
  "float", "int", "double", "class", "template", "auto", "and", "xor", "new", "this", "operator",
  "register", "default", "constexpr", "asm", "main", "NULL", "errno", "linux", "NAN", "assert",
  "threadIdx", "blockIdx", "blockDim", "warpSize", "__global__", "__shared__", "_Bool", "half",
  "nn_exp", "nn_float", "nn_load", "nn_sync", "Vec", "f16", "bf16", "T", "Product", "Smem", "smem",
  "acc", "tid", "row", "column", "lane", "warp", "part", "product", "stage", "tile",
  "item", "missing", "job", "run", "make_rows", "own_first", "next_jobs", "turn", "next",
  "kLanes", "kThreads", "kM", "kRowBytes", "m", "n", "k", "i", "j", "x", "c", "h", "w", "m0", "n0",
  "a_row", "b_offset", "a_missing", "own_sums", "own_arrived", "g_x", "g_image", "relu_out", "sum",
  "row_reduce_max", "kept_exp", "exp", "relu", "add", "conv2d", "softmax", "weight", "bias", "d0",
  "swizzled", "row_reduce", "sum_parts", "b0", "b1", "one", "column_runs", "whole", "add_to_run",
  "std", "y0", "j1", "2", "7up", "if", "else"}
-- Names have a sequence of their own: the model stays the same.
local count, used, turn = 0, {}, cfg.seed
local function next_name(n)
  turn = (turn * 1103515245 + 12345) % 2147483648
  return turn // 65536 % n + 1
end
local function name(kind)
  count = count + 1
  if cfg.names == 0 then return kind .. count end
  local word = hostile[next_name(#hostile)]
  while used[word] do word = word .. "_" .. 1 + next_name(2) end
  used[word] = true
  return word
end

local pool = {}
local function add(x) pool[#pool + 1] = x end
local function any(rank)
  local fit = {}
  for _, x in ipairs(pool) do if not rank or #x.shape == rank then fit[#fit + 1] = x end end
  return fit[random(#fit)]
end

-- A tensor that broadcasts with x: x's shape with some dimensions 1; a parameter, or made of an
-- input.
local function partner(x)
  local dims = {}
  for i, d in ipairs(x.shape) do dims[i] = random(3) == 1 and 1 or d end
  if cfg.inputs == 0 then return nn.param(name("p"), dims, {"uniform", 0.5, 1.5}) end
  return pick{nn.sigmoid, nn.tanh, nn.relu}(nn.input(name("i"), dims)) * 0.5 + 1
end

local steps = {
  function() return pick{nn.relu, nn.tanh, nn.sigmoid, nn.abs, nn.gelu, nn.silu, nn.neg}(any()) end,
  function()
    local x = any()
    return pick{function(a, b) return a + b end, function(a, b) return a - b end,
                function(a, b) return a * b end, nn.max, nn.min}(x, partner(x))
  end,
  function() local x = any(); return x / (nn.abs(partner(x)) + 1) end,
  function() local x = any(); return x + nn.tanh(x) * 0.5 end,
  function()
    local x = any(4)
    local groups = x.shape[2] % 2 == 0 and random(2) or 1
    local k = pick{1, 3, {3, 1}, 2}
    if x.shape[3] < 3 or x.shape[4] < 3 then k = 1 end
    return x:conv2d(name("conv"),
                    {out = groups * random(12), kernel = k, stride = random(2), pad = random(2),
                                   groups = groups, bias = random(2) == 1})
  end,
  function()
    local x = any(4)
    return x:conv2d(name("depthwise"), {out = x.shape[2], kernel = 3, pad = 1, groups = x.shape[2]})
  end,
  function() local x = any(4); return x:batch_norm2d(name("bn")) end,
  function()
    local x = any(4)
    if x.shape[3] < 2 or x.shape[4] < 2 then return x end
    return pick{nn.max_pool2d, nn.avg_pool2d}(
      x, {kernel = 2, stride = random(2), pad = random(2) - 1, ceil_mode = random(2) == 1})
  end,
  -- Means of what has one sign: where terms cancel, the rounding of the terms is all that is left.
  function() return nn.abs(any(4)):global_avg_pool() end,
  function()
    local x = any(4)
    return nn.abs(x):adaptive_avg_pool2d{random(math.min(3, x.shape[3])),
                                         random(math.min(3, x.shape[4]))}
  end,
  function()
    local x = any()
    return x:linear(name("fc"), {out = random(40), bias = random(2) == 1})
  end,
  function() local x = any(); return x:softmax(random(#x.shape)) end,
  function() local x = any(); return x:layer_norm(name("ln")) end,
  function() local x = any(); return nn.abs(x):mean(random(#x.shape), true) end,
  function() local x = any(); return x:amax(-1, true) + x end,
  function()
    return any(4):permute(pick{{1, 3, 4, 2}, {2, 1, 3, 4}, {1, 2, 4, 3}, {4, 3, 2, 1}})
  end,
  function() return any():flatten() end,
  function()
    local x = any()
    local axis = random(#x.shape)
    return nn.slice(x, axis, 1 + (x.shape[axis] > 1 and 1 or 0), x.shape[axis])
  end,
  function() local x = any(); return nn.concat({x, nn.tanh(x)}, random(#x.shape)) end,
  function() local x = any(2); return nn.matmul(x, nn.transpose(x)) * (1 / x.shape[2]) end,
}
if cfg.moves == 1 then -- two more, of contractions that store through moves
  steps[#steps + 1] = function()
    local x, k, s = any(4), random(4), random(3)
    return x:conv_transpose2d(name("up"), {out = random(12), kernel = k, stride = s,
                                           pad = random((k + 1) // 2) - 1,
                                           output_pad = random(s) - 1})
  end
  steps[#steps + 1] = function() -- heads
    local x = any()
    local d = x.shape[#x.shape]
    local count = pick{1, 2, 3, 4}
    if d % count ~= 0 then count = 1 end
    local y = x:linear(name("heads"), {out = d}):reshape{-1, d}
    return y:reshape{y.shape[1], count, d // count}:permute{2, 1, 3}
  end
end
if cfg.scans == 1 then -- sums of what has one sign, over their length
  steps[#steps + 1] = function()
    local x = any()
    local axis = random(#x.shape)
    return nn.abs(x):cumsum(axis) * (1 / x.shape[axis])
  end
  steps[#steps + 1] = function()
    local x = any()
    local axis = random(#x.shape)
    return nn.sigmoid(x):cumprod(axis) + x
  end
  steps[#steps + 1] = function()
    local x = any()
    local axis = random(#x.shape)
    return (x:topk(random(math.min(64, x.shape[axis])), axis))
  end
  steps[#steps + 1] = function()
    local x = any()
    return (x:sort(random(#x.shape), random(2) == 1))
  end
  for i = 1, 8 do steps[#steps + 1] = steps[#steps - 3] end
end

add(nn.input(name("image"), {random(3), pick{1, 3, 4, 6, 8}, 4 + random(7), 4 + random(7)}))
add(nn.input(name("rows"), {1 + random(9), random(50)}))
for _ = 1, cfg.ops do
  local ok = pick(steps)()
  local size = 1
  for _, d in ipairs(ok.shape) do size = size * d end
  if size <= 60000 and size > 0 then add(ok) end
end
nn.output("last", pool[#pool])
nn.output("other", pool[2 + random(#pool - 2)] * 1)
