-- A random graph of many outputs: nngen tests/models/graphs.lua --set seed=17. Chains of moves,
-- reductions, products, pictures, integers and states over shared values, most of which are stored
-- as outputs too; the seed chooses which kinds of steps there are, unless kind= names one of
-- `kinds`. Values stay near 1. grads=0: no derivatives; grads=2: for tests/gen/test_graphs.c a loss
-- of all floats, and its derivatives slope1 .. by from1 ..; entry=1: an entry `more`, of its own
-- steps.
local nn = require "nn"
local cfg = nn.config{seed = 1, ops = 9, kind = "", grads = 1, entry = 0}

local state = cfg.seed * 7919 + 15485863
local function random(n) -- 1 to n
  state = (state * 6364136223846793005 + 1442695040888963407)
  return (state >> 33) % n + 1
end
local function pick(list) return list[random(#list)] end
local function chance(n) return random(n) == 1 end
for _ = 1, 4 do random(2) end

local count = 0
local function name(kind)
  count = count + 1
  return kind .. count
end

local function size_of(x)
  local size = 1
  for _, d in ipairs(x.shape) do size = size * d end
  return size
end
local most = 4000 -- elements of a value

-- Values so far: of floats, of integers from 0 to below - 1 (as {x, below}), and of truths.
local floats, whole, truths, made = {}, {}, {}, {}
local function keep(x)
  if size_of(x) > 0 and size_of(x) <= most then
    floats[#floats + 1] = x
    made[#made + 1] = x
  end
end
local function keep_whole(x, below)
  if size_of(x) > 0 and size_of(x) <= most then
    if #x.shape > 0 then whole[#whole + 1] = {x, below} end
    made[#made + 1] = x
  end
end
local function keep_truths(x)
  if size_of(x) > 0 and size_of(x) <= most then
    if #x.shape > 0 then truths[#truths + 1] = x end
    made[#made + 1] = x
  end
end

-- One of the values of a rank, the late ones more often; nil: there is none.
local function any(rank, least)
  local fit = {}
  for i, x in ipairs(floats) do
    local r = #x.shape
    if (not rank or r == rank) and r >= (least or 1) then
      for _ = 1, i > #floats - 3 and 3 or 1 do fit[#fit + 1] = x end
    end
  end
  return #fit > 0 and fit[random(#fit)] or nil
end
local function dims_of(x) return {table.unpack(x.shape)} end
local function axis_of(x) return random(#x.shape) end
local function some_axes(x)
  local axes = {}
  for i = 1, #x.shape do if chance(2) then axes[#axes + 1] = i end end
  if #axes == 0 then axes[1] = axis_of(x) end
  return axes
end
local function product_of(x, axes)
  local n = 1
  for _, a in ipairs(axes) do n = n * x.shape[a] end
  return n
end
local function same_shape(x)
  local fit = {}
  for _, y in ipairs(floats) do
    if #y.shape == #x.shape then
      local same = true
      for i, d in ipairs(y.shape) do same = same and x.shape[i] == d end
      if same then fit[#fit + 1] = y end
    end
  end
  return #fit > 0 and pick(fit) or x
end
local function source(dims)
  local r = random(4)
  if r == 1 then return nn.param(name("p"), dims, {"uniform", -1, 1.5}) end
  if r == 2 then return nn.input(name("i"), dims) end
  if r == 3 then return nn.sin(nn.input(name("i"), dims) * 3) end
  return nn.random(dims, {kind = pick{"uniform", "normal"}, seed = random(100)})
end
local function partner(x) -- broadcasts with x
  if chance(3) then return same_shape(x) end
  if chance(4) then return x:mean(some_axes(x), true) end
  local dims = {}
  for i, d in ipairs(x.shape) do dims[i] = chance(3) and 1 or d end
  if chance(4) then table.remove(dims, 1) end
  return source(#dims > 0 and dims or {1})
end
local function places(dims, below) -- integers below `below`
  local fit = {}
  for _, w in ipairs(whole) do
    if w[2] <= below and #w[1].shape == #dims then
      local same = true
      for i, d in ipairs(dims) do same = same and w[1].shape[i] == d end
      if same then fit[#fit + 1] = w[1] end
    end
  end
  if #fit > 0 then return pick(fit) end
  if chance(2) then return nn.input(name("ids"), dims, {dtype = "i32", below = below}) end
  local size = 1
  for _, d in ipairs(dims) do size = size * d end
  return (nn.arange(size) * random(7) + random(5)):reshape(dims) % below
end
local function bounded(x) return chance(3) and nn.tanh(x) or x * 0.5 end

local steps = {}
steps.maps = {
  function()
    local x = any()
    return pick{nn.relu, nn.tanh, nn.sigmoid, nn.abs, nn.gelu, nn.silu, nn.neg, nn.sin, nn.cos,
                nn.erf, nn.softplus}(x)
  end,
  function()
    local x = any()
    return pick{function(a, b) return a + b end, function(a, b) return a - b end, nn.max, nn.min,
                function(a, b) return nn.tanh(a) * b end}(x, partner(x)) * 0.75
  end,
  function() local x = any(); return x / (nn.abs(partner(x)) + 1) end,
  function() local x = any(); return nn.sqrt(nn.abs(x) + 0.25) - 0.5 end,
  function() local x = any(); return nn.exp(-nn.abs(x)) + partner(x) * 0.5 end,
  function() local x = any(); return nn.where(x:gt(0.1), x, partner(x) * 0.5) end,
  function() local x = any(); return nn.clamp(x, -0.75, 1) * 2 end,
  function() local x = any(); return x:masked_fill(partner(x):expand_as(x):lt(0), 0.5) end,
}
steps.moves = {
  function() -- other sizes
    local x = any()
    local left, dims = size_of(x), {}
    for _ = 1, random(3) do
      local divisors = {}
      for d = 1, math.min(left, 40) do if left % d == 0 then divisors[#divisors + 1] = d end end
      local d = pick(divisors)
      dims[#dims + 1], left = d, left // d
    end
    dims[#dims + 1] = left
    return x:reshape(dims)
  end,
  function()
    local x = any(nil, 2)
    if not x then return end
    local axes = {}
    for i = 1, #x.shape do table.insert(axes, random(#axes + 1), i) end
    return x:permute(axes)
  end,
  function()
    local x = any()
    local a = axis_of(x)
    local d, step = x.shape[a], pick{1, 1, 2, 3, -1, -2}
    local first, last = random((d + 1) // 2), d - random((d + 1) // 2) + 1
    if first > last then first, last = 1, d end
    if step < 0 then first, last = last, first end
    return nn.slice(x, a, first, last, step)
  end,
  function() local x = any(); return x:flip(some_axes(x)) end,
  function() local x = any(); return nn.roll(x, random(5) - 3, axis_of(x)) end,
  function()
    local x = any()
    local parts = {x, pick{nn.tanh, nn.relu, function(v) return v end}(same_shape(x))}
    if chance(2) then parts[3] = x * 0.5 end
    if chance(3) then return nn.stack(parts, random(#x.shape + 1)) end
    return nn.concat(parts, axis_of(x))
  end,
  function()
    local x = any()
    local by = {}
    for _ = 1, 2 * random(math.min(2, #x.shape)) do by[#by + 1] = random(4) - 2 end
    for i = 1, #by // 2 do -- no dimension vanishes
      local d = x.shape[#x.shape - i + 1]
      if d + by[2 * i - 1] + by[2 * i] < 1 or d < 3 then by[2 * i - 1], by[2 * i] = 1, 0 end
    end
    return nn.pad(x, by, "constant", pick{0, 0.5})
  end,
  function()
    local x = any(4) or any(3)
    local d = x and x.shape[#x.shape]
    if not x or d < 3 then return end
    if #x.shape == 4 and x.shape[3] < 3 then return end
    local by = #x.shape == 4 and {1, 2, 2, 1} or {2, 1}
    return nn.pad(x, by, pick{"reflect", "replicate", "circular"})
  end,
  function()
    local x = any()
    local dims = dims_of(x)
    table.insert(dims, 1, 1 + random(2))
    for i = 2, #dims do if dims[i] == 1 then dims[i] = random(3) end end
    return nn.expand(x, dims)
  end,
  function() local x = any(); return nn.repeat_interleave(x, random(2) + 1, axis_of(x)) end,
  function()
    local x = any()
    local times = {}
    for i = 1, #x.shape do times[i] = chance(3) and 2 or 1 end
    return nn.tile(x, times)
  end,
  function() local x = any(); return x:gather(places({random(6)}, x.shape[1])) end,
  function()
    local x = any()
    local a, dims = axis_of(x), dims_of(x)
    dims[a] = random(4)
    return x:take_along(places(dims, x.shape[a]), a)
  end,
  function() local x = any(nil, 2); return x and x:select(axis_of(x), 1) end,
  function() local x = any(nil, 2); return x and nn.tril(x, random(3) - 2) end,
  function()
    local x = any(nil, 2)
    if not x then return end
    local parts = {nn.chunk(x, 2, axis_of(x))}
    if #parts == 2 then keep(parts[2]) end
    return parts[1]
  end,
  function()
    local x = any(nil, 2)
    if not x then return end
    local a = axis_of(x)
    local d = x.shape[a]
    return x:unfold(a, random(math.min(3, d)), random(2))
  end,
  function()
    local x = any()
    local a = axis_of(x)
    local d = x.shape[a]
    if d < 2 then return end
    return nn.slice_scatter(x, nn.slice(x, a, 1, d // 2) * 0.5 + 0.25, a, d - d // 2 + 1, d)
  end,
}
steps.pictures = {
  function()
    local x = any(4)
    if not x then return end
    local groups = x.shape[2] % 2 == 0 and random(2) or 1
    local k = (x.shape[3] < 3 or x.shape[4] < 3) and 1 or pick{1, 3, {3, 1}, 2}
    return bounded(x:conv2d(name("conv"), {out = groups * random(9), kernel = k, stride = random(2),
                                           pad = random(2) - 1, groups = groups,
                                           bias = chance(2)}))
  end,
  function()
    local x = any(4)
    if not x then return end
    return x:conv2d(name("depthwise"), {out = x.shape[2], kernel = 3, pad = 1,
                                        groups = x.shape[2]}) * 0.5
  end,
  function() local x = any(4); return x and x:batch_norm2d(name("bn")) end,
  function()
    local x = any(4)
    if not x or x.shape[3] < 2 or x.shape[4] < 2 then return end
    return pick{nn.max_pool2d, nn.avg_pool2d}(
      x, {kernel = 2, stride = random(2), pad = random(2) - 1, ceil_mode = chance(2)})
  end,
  function()
    local x = any(4)
    if not x then return end
    local k = random(3)
    local s = random(2)
    return x:conv_transpose2d(name("up"), {out = random(6), kernel = k, stride = s,
                                           pad = (k - 1) // 2, output_pad = random(s) - 1}) * 0.5
  end,
  function()
    local x = any(4)
    if not x then return end
    local groups = x.shape[2] % 2 == 0 and 2 or 1
    if size_of(x) // (x.shape[1] * groups) < 6 then return end
    return x:group_norm(name("gn"), {groups = groups})
  end,
  function()
    local x = any(4)
    return x and nn.interpolate(x, {x.shape[3] + random(3), x.shape[4] + random(3) - 1 },
                                nil, pick{"nearest", "bilinear"})
  end,
  function()
    local x = any(4)
    return x and x:adaptive_avg_pool2d{random(math.min(3, x.shape[3])),
                                       random(math.min(3, x.shape[4]))}
  end,
  function() -- pictures of what was not one
    local x = any()
    local left, dims = size_of(x), {}
    for i = 1, 3 do
      local divisors = {}
      for d = 1, math.min(left, 12) do if left % d == 0 then divisors[#divisors + 1] = d end end
      dims[i] = i == 1 and divisors[math.min(#divisors, 2)] or pick(divisors)
      left = left // dims[i]
    end
    dims[4] = left
    return x:reshape(dims)
  end,
}
steps.rows = {
  function() -- several of one value, over the same axes
    local x = any()
    local axes, keeps = some_axes(x), chance(2)
    local last
    for _ = 1, random(3) do
      last = pick{nn.mean, nn.amax, nn.amin,
                  function(v, a, k) return nn.sum(v, a, k) * (1 / product_of(x, a)) end,
                  function(v, a, k) return nn.sum(nn.tanh(v) + 1, a, k) / product_of(x, a) end,
                  function(v, a, k) return nn.logsumexp(v, a, k) * 0.5 end,
                  function(v, a, k) return nn.var(v, a, k, 0) end,
                  function(v, a, k) return nn.std(v + 0, a, k, 0) + 0.5 end,
                  function(v, a, k) return nn.norm(v, 2, a, k) * product_of(x, a) ^ -0.5 end,
                  function(v, a, k) return nn.prod(nn.sigmoid(v) + 0.5, a, k) end}(x, axes, keeps)
      keep(last)
    end
    if chance(2) then
      keep_whole(nn.argmax(x, axes, keeps), product_of(x, axes))
    end
    return keeps and x - last
  end,
  function() local x = any(); return x:softmax(axis_of(x)) * 2 end,
  function() local x = any(); return x:log_softmax(axis_of(x)) * 0.25 end,
  function()
    local x = any()
    return x.shape[#x.shape] > 3 and x:layer_norm(name("ln"), {affine = chance(2)}) or nil
  end,
  function() local x = any(); return x:rms_norm(name("rms")) end,
  function()
    local x = any()
    local a = axis_of(x)
    return nn.cumsum(nn.abs(x), a) * (1 / x.shape[a])
  end,
  function() local x = any(); return nn.cumprod(nn.sigmoid(x) + 0.25, axis_of(x)) end,
  function() local x = any(); return nn.logcumsumexp(x, axis_of(x)) * 0.5 end,
  function()
    local x = any()
    local a = axis_of(x)
    local values, at = nn.cummax(x, a)
    keep_whole(at, x.shape[a])
    return values
  end,
  function()
    local x = any()
    local a = axis_of(x)
    local k = random(math.min(9, x.shape[a]))
    local values, at = x:topk(k, a)
    keep_whole(at, x.shape[a])
    return values
  end,
  function()
    local x = any()
    local a = axis_of(x)
    if x.shape[a] > 60 then return end
    local values, at = nn.sort(x, a, chance(2))
    keep_whole(at, x.shape[a])
    return values
  end,
  function() local x = any(); return x - x:mean(some_axes(x), true) end,
  function()
    local x = any()
    return x * nn.rsqrt((x * x):mean(some_axes(x), true) + 0.1) * 0.75
  end,
}
steps.products = {
  function()
    local x = any()
    return bounded(x:linear(name("fc"), {out = random(24), bias = chance(2)}))
  end,
  function()
    local x = any(nil, 2)
    if not x then return end
    return nn.matmul(x, nn.transpose(same_shape(x))) * (1 / x.shape[#x.shape])
  end,
  function()
    local x = any(nil, 2)
    if not x then return end
    local dims = dims_of(x)
    local k = dims[#dims]
    dims[#dims - 1], dims[#dims] = k, random(17)
    for i = 1, #dims - 2 do if chance(3) then dims[i] = 1 end end
    if chance(3) then dims = {dims[#dims - 1], dims[#dims]} end
    return nn.matmul(x, source(dims)) * k ^ -0.5
  end,
  function()
    local x = any(3)
    if not x then return end
    local b, i, j = table.unpack(x.shape)
    return pick{
      function() return nn.einsum("bij,bkj->bik", x, same_shape(x)) * (1 / j) end,
      function() return nn.einsum("bij,bij->bi", x, same_shape(x)) * (1 / j) end,
      function() return nn.einsum("bij,jk->kbi", x, source{j, random(9)}) * j ^ -0.5 end,
      function() return nn.einsum("bij,bk->jki", x, source{b, random(5)}) * b ^ -0.5 end,
      function() return nn.einsum("bij,ik->bkj", x, source{i, random(9)}) * i ^ -0.5 end}()
  end,
  function() -- attention of a value with itself
    local x = any(3)
    if not x then return end
    local s = nn.matmul(x, nn.transpose(x)) * x.shape[3] ^ -0.5
    if chance(2) then
      s = s:masked_fill(nn.index(dims_of(s), 3):gt(nn.index(dims_of(s), 2)), -1e4)
    end
    return s:softmax():matmul(same_shape(x))
  end,
  function()
    local x = any(1) or any(2)
    if not x then return end
    if #x.shape == 2 then return nn.matmul(x, source{x.shape[2]}) * x.shape[2] ^ -0.5 end
    return nn.outer(x, source{random(9)})
  end,
}
steps.whole = {
  function() local x = any(); keep_truths(x:lt(partner(x))) end,
  function()
    local x = any()
    local a = axis_of(x)
    keep_whole(nn.index(dims_of(x), a), x.shape[a])
  end,
  function() local x = any(); return x * nn.index(dims_of(x), axis_of(x)):float():sin() end,
  function()
    local w = pick(whole)
    keep_whole((w[1] * random(5) + random(9)) % 11, 11)
  end,
  function()
    local w = pick(whole)
    keep_truths(w[1]:gt(w[2] // 3))
    return nn.where(w[1]:gt(w[2] // 2), w[1]:float() * (1 / w[2]), 0.25)
  end,
  function() local w = pick(whole); return nn.one_hot(w[1], w[2]) end,
  function() local w = pick(whole); return nn.embedding(w[1], name("table"),
                                                        {count = w[2], size = random(6)}) end,
  function()
    local w = pick(whole)
    local a = axis_of(w[1])
    keep_whole(nn.cumsum(w[1], a), w[2] * w[1].shape[a])
  end,
  function()
    local w = pick(whole)
    local axes = some_axes(w[1])
    keep_whole(pick{nn.amax, nn.amin}(w[1], axes, chance(2)), w[2])
    keep_whole(nn.sum(w[1], axes), w[2] * product_of(w[1], axes))
  end,
  function()
    if #truths == 0 then return end
    local t = pick(truths)
    keep_truths(pick{nn.any, nn.all}(t, some_axes(t), chance(2)))
    keep_whole(t:int() + 1, 3)
    return t:float()
  end,
  function()
    if #truths == 0 then return end
    local t = pick(truths)
    return nn.where(nn.logical_not(t), source(dims_of(t)), 0.5)
  end,
  function()
    local w = pick(whole)
    keep_whole(w[1]:permute((function()
      local axes = {}
      for i = 1, #w[1].shape do table.insert(axes, random(#axes + 1), i) end
      return axes
    end)()):flip(1), w[2])
  end,
  function()
    local x = any()
    keep_whole(nn.floor(nn.sigmoid(x) * 7.25):int(), 8)
  end,
  function()
    local x = any()
    if x.shape[1] > 1 then
      local ids = places({x.shape[1]}, 4)
      return nn.scatter_add(ids, x, 4) * 0.5
    end
  end,
  function()
    local x = any()
    local a = axis_of(x)
    local ids = places({random(3)}, x.shape[a])
    local dims = dims_of(x)
    dims[a] = ids.shape[1]
    return nn.index_add(x, a, ids, source(dims)) * 0.5
  end,
}

-- States: each is updated once, from old values, new ones of others and what the graph computes.
local function new_state(dims, o)
  o = o or {init = {"normal", 0, 0.7}}
  if not o.dtype and chance(3) then o.dtype = "auto" end
  return nn.state(name("s"), dims, o)
end
local counter
local function place_in(x, axis) -- where a row is written: inside, or beyond the last
  local dims = {}
  for i = 1, #x.shape do dims[i] = 1 end
  if chance(2) then
    if not counter then
      counter = nn.state(name("at"), {1}, {dtype = "i32", init = random(4) - 1})
      nn.update(counter, counter + pick{1, 1, 2, 5})
    end
    return counter:reshape(dims)
  end
  if axis > 1 and chance(2) then dims[1] = x.shape[1] end
  return nn.input(name("place"), dims, {dtype = "i32", below = x.shape[axis] + random(3)})
end
local function rows_of(x, axis)
  local dims = dims_of(x)
  if chance(2) then return nn.index(dims, axis) end
  for i = 1, #dims do if i ~= axis then dims[i] = 1 end end
  return nn.index(dims, axis)
end
local function one_row(s, axis, row, at, new)
  local here = chance(2) and row:eq(at) or at:eq(row)
  return chance(6) and nn.where(here, s, new) or nn.where(here, new, s)
end
steps.states = {
  function()
    local x = any()
    local s = new_state(dims_of(x))
    if chance(2) then keep(s * 0.5) end
    nn.update(s, s * 0.5 + x * 0.5)
    return s + x
  end,
  function() -- one row, of one or of two states
    local x = any(nil, 2)
    if not x then return end
    local axis = axis_of(x)
    local row, at = rows_of(x, axis), place_in(x, axis)
    local s = new_state(dims_of(x))
    local new = pick{function() return x end, function() return x:mean(axis, true) end,
                     function() return s * 0.5 + x end,
                     function() return nn.tanh(partner(x)):expand_as(x) end}()
    local next = one_row(s, axis, row, at, new)
    nn.update(s, next)
    if chance(2) then
      local other = new_state(dims_of(x))
      local then_ = one_row(other, axis, row, chance(4) and at + 1 or at,
                            chance(3) and s * 0.5 or x * 0.5)
      nn.update(other, then_)
      if chance(2) then keep(then_ + s) end
    end
    if chance(2) then keep(s * 2 - 1) end
    if chance(3) then keep(s:mean(axis)) end
    if chance(2) then return next + x * 0.5 end
    if chance(2) then return next:permute((function()
      local axes = {}
      for i = #x.shape, 1, -1 do axes[#axes + 1] = i end
      return axes
    end)()) end
    return next:sum(axis) * (1 / x.shape[axis])
  end,
  function() -- two exchanged
    local x = any()
    local a, b = new_state(dims_of(x)), new_state(dims_of(x))
    nn.update(a, b * 0.5 + x)
    nn.update(b, a)
    return a - b
  end,
  function() -- a ring
    local x = any()
    local a, dims = axis_of(x), dims_of(x)
    local d = dims[a]
    dims[a] = d + random(3)
    local s = new_state(dims)
    local next = nn.concat({nn.slice(s, a, d + 1, dims[a]), x}, a)
    nn.update(s, next)
    return chance(2) and next * 1 or s * 0.5
  end,
  function() -- flags and counts
    local x = any()
    local seen = nn.state(name("seen"), dims_of(x), {dtype = "bool"})
    local times = nn.state(name("times"), dims_of(x), {dtype = "i32"})
    local now = nn.logical_or(seen, x:gt(0.3))
    nn.update(seen, now)
    nn.update(times, times + now:int())
    return nn.where(seen, x, times:float() * 0.25)
  end,
  function() -- in another order
    local x = any(nil, 2)
    if not x then return end
    local s = new_state(dims_of(x:transpose()))
    nn.update(s, s * 0.5 + nn.tanh(x):transpose())
    return s:transpose() + x
  end,
  function() -- part of a state
    local x = any()
    local a = axis_of(x)
    local s = new_state(dims_of(x))
    if x.shape[a] < 2 then return end
    nn.update(s, nn.slice_scatter(s, nn.slice(x, a, 2, x.shape[a]), a, 1, x.shape[a] - 1))
    return s * 0.5
  end,
}

local kinds = {
  mix = {"maps", "moves", "pictures", "rows", "products", "whole"},
  orders = {"pictures", "pictures", "moves", "maps", "rows"},
  moves = {"moves", "moves", "maps", "whole"},
  rows = {"rows", "rows", "maps", "moves"},
  products = {"products", "products", "moves", "maps", "rows"},
  whole = {"whole", "whole", "moves", "rows"},
  states = {"states", "states", "maps", "moves", "rows", "products"},
}
local order = {"mix", "orders", "moves", "rows", "products", "whole", "states"}
local kind = cfg.kind ~= "" and cfg.kind or order[cfg.seed % #order + 1]

local function step()
  local x = pick(steps[pick(kinds[kind])])()
  if x then keep(x) end
end
local function scoped()
  if chance(12) then
    nn.precision(pick{"fp32", "tf32", "fp16", "bf16"}, step)
  else
    step()
  end
end

local odd = {1, 2, 3, 5, 7, 8, 9, 13, 16, 33}
local wanted = {nn.input("image", {random(2), pick{1, 3, 4, 6, 8}, 3 + random(6), 3 + random(6)}),
                nn.input("rows", {pick(odd), pick(odd)}),
                nn.input("blocks", {random(3), pick(odd), 1 + random(9)})}
for i = 1, 3 do keep(wanted[i] * 1) end
for i = 1, 2 do wanted[i + 3] = nn.param("w" .. i, {pick(odd), pick(odd)}, {"uniform", -1, 1}) end
floats[4], floats[5] = wanted[4], wanted[5]
keep_whole(nn.input("words", {random(3), random(9)}, {dtype = "i32", below = 6}), 6)

local every = random(4)
local function outputs(from)
  for i = from, #made do
    if (i - from) % every == 0 or i == #made then nn.output(name("y"), made[i]) end
  end
end
for _ = 1, cfg.ops do scoped() end
if cfg.grads == 1 and cfg.seed % 3 == 0 then
  local loss
  for _ = 1, random(2) do
    local y = floats[#floats - random(math.min(4, #floats)) + 1]
    local by = nn.arange(size_of(y)):float():sin():reshape(y.shape)
    local part = (y * by):sum()
    loss = loss and loss + part or part
  end
  local of = {}
  for i = 1, 5 do if chance(2) then of[#of + 1] = wanted[i] end end
  if #of == 0 then of[1] = wanted[1] end
  for _, g in ipairs(nn.grad(loss, of)) do keep(g) end
  if chance(2) then for _ = 1, 2 do step() end end
end
local function weighted(y)
  return (y * nn.arange(size_of(y)):float():sin():reshape(y.shape)):sum() * size_of(y) ^ -0.5
end
if cfg.grads == 2 then
  local loss = weighted(floats[1])
  for i = 2, #floats do loss = loss + weighted(floats[i]) end
  local of = {wanted[1], wanted[2], wanted[3], table.unpack(nn.parameters())}
  nn.output("loss", loss)
  for i, g in ipairs(nn.grad(loss, of)) do
    nn.output("from" .. i, of[i])
    nn.output("slope" .. i, g)
  end
else
  outputs(1)
end
if cfg.entry == 1 then
  nn.entry("more", function()
    local from = #made + 1
    for _ = 1, 5 do step() end
    outputs(from)
    nn.output(name("y"), floats[#floats] * 1)
  end)
end
