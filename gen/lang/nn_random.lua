-- nn_random.lua: random tensors under PyTorch's names, of the module `nn` (nn.lua): nn.random's
-- draws, with its seed and step.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define_here = tools.fail, tools.define_here

local function drawn(kind, dims, o)
  return nn.random(dims, {kind = kind, seed = o.seed, step = o.step})
end
-- Uniform numbers in [0, 1).
define_here("rand(dims|size: sizes, {seed: whole = 0, step: value = 0})",
            "torch.rand", function(dims, o) return drawn("uniform", dims, o) end)
-- Normal numbers of mean 0 and deviation 1.
define_here("randn(dims|size: sizes, {seed: whole = 0, step: value = 0})",
            "torch.randn", function(dims, o) return drawn("normal", dims, o) end)
-- rand with the shape of x.
define_here("rand_like(x: tensor, {seed: whole = 0, step: value = 0})",
            "torch.rand_like", function(x, o) return drawn("uniform", shape(x), o) end)
-- randn with the shape of x.
define_here("randn_like(x: tensor, {seed: whole = 0, step: value = 0})",
            "torch.randn_like", function(x, o) return drawn("normal", shape(x), o) end)
-- Integers from low to high - 1, as i32, at most 2^24 different ones; randint(high, dims) starts at
-- 0.
define_here([[randint(low: whole, high: any, dims|size: sizes = nil,
            {seed: whole = 0, step: value = 0})]], "torch.randint", function(low, high, dims, o)
  if type(high) == "table" then low, high, dims = 0, low, high end
  tools.whole("randint: high", high)
  if not dims then fail("randint: expected sizes, as in randint(0, 10, {2, 3})") end
  if high <= low then fail("randint: low = %d, high = %d: expected high above low", low, high) end
  local places = op.floor(drawn("uniform", dims, o) * (high - low + 0.0)):to("i32")
  return op.min(places, high - low - 1) + low
end)
-- A random permutation of 0 to n - 1, as i32.
define_here("randperm(n: amount, {seed: whole = 0, step: value = 0})",
            "torch.randperm", function(n, o)
  return nn.argsort(drawn("uniform", {n}, o), 1)
end)
-- `count` random positions per row of non-negative weights, (n) or (m, n), drawn in proportion to
-- the weights, as i32. replacement: a position may be drawn again; otherwise a row must have at
-- least `count` positive weights.
define_here([[multinomial(x: tensor, count|num_samples: count, replacement: boolean = false,
            {seed: whole = 0, step: value = 0})]], "torch.multinomial",
            function(x, count, replacement, o)
  local dims = shape(x)
  local rank, n = #dims, dims[#dims]
  if rank ~= 1 and rank ~= 2 or not tools.is_float(x) then
    fail("multinomial: expected floats (n) or (m, n), got %s %s", core.dtype(x), tostring(x))
  end
  if not replacement then
    if count > n then fail("multinomial: %d of %d places without replacement", count, n) end
    -- The largest log(weight) + Gumbel noise.
    local noise = -op.log(-op.log(op.max(drawn("uniform", dims, o), 0x1p-40)))
    local _, places = nn.topk(op.log(x) + noise, count, rank)
    return places
  end
  -- The first position whose cumulative weight exceeds a random fraction of the sum.
  local sums = nn.cumsum(x, rank)
  local draws = drawn("uniform", tools.with(dims, rank, count), o) * nn.sum(x, rank, true)
  local last = nn.amax(op.where(op.gt(x, 0.0), nn.index(dims, rank), 0), rank, true)
  return op.min(nn.searchsorted(sums, draws, {right = true}), last)
end)
-- 1.0 with probability x, else 0.0, per element.
define_here("bernoulli(x: tensor, {seed: whole = 0, step: value = 0})",
            "torch.bernoulli", function(x, o)
  return op.lt(drawn("uniform", shape(x), o), x):to("f32")
end)
