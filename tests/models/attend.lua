-- attend.lua: attention written by hand, in the forms that become one kernel.
local nn = require "nn"
local c = nn.config{form = "plain", B = 2, H = 3, G = 3, N = 33, M = 47, D = 40, W = 40,
                    window = 40, stored = "f32"} -- stored: q, k, v and y
local B, H, G, N, M, D, W = c.B, c.H, c.G, c.N, c.M, c.D, c.W
local q = nn.input("q", {B, H, N, D}, {dtype = c.stored})
local k = nn.input("k", {B, G, M, D}, {dtype = c.stored})
local v = nn.input("v", {B, G, M, W}, {dtype = c.stored})
local heads = {H}
if H ~= G then -- heads that share their keys
  q, k, v = q:reshape{B, G, H // G, N, D}, k:reshape{B, G, 1, M, D}, v:reshape{B, G, 1, M, W}
  heads = {G, H // G}
end
local function per_head(rows, columns) -- a shape that broadcasts to the scores
  return #heads == 1 and {H, rows, columns} or {G, H // G, rows, columns}
end
local function per_batch(rows, columns)
  return #heads == 1 and {B, 1, rows, columns} or {B, 1, 1, rows, columns}
end
local function ids(name, rows, columns, below)
  return nn.input(name, per_batch(rows, columns), {dtype = "i32", below = below})
end
local s = q:matmul(k:transpose()) * (1 / D ^ 0.5)
local row, key = nn.index({N, 1}, 1), nn.index({1, M}, 2)
local last = row + (M - N) -- the last key that a query sees
local function softmax(x) return x:softmax() end
local function safe(x) -- rows without a key give zeros
  local most = x:amax(-1, true)
  local shift = nn.where(most:eq(-math.huge), 0, most)
  local e = (x - shift):exp()
  local sum = e:sum(-1, true)
  nn.output("lse", shift + sum:log())
  return e / nn.where(sum:eq(0), 1, sum)
end
local function seen(condition) return nn.where(condition, s, -math.huge) end
local forms = {
  plain = function() return softmax(s) end,
  unscaled = function() return softmax(q:matmul(k:transpose())) end,
  causal = function() return safe(seen(key:le(last))) end,
  window = function() return safe(seen(key:le(last):logical_and(key:gt(last - c.window)))) end,
  prefix = function()
    return softmax(seen(key:le(last):logical_or(key:lt(ids("prefix", 1, 1, M + 1) + 1))))
  end,
  lengths = function() return safe(seen(key:lt(ids("lengths", 1, 1, M)))) end,
  documents = function() return safe(seen(ids("of_row", N, 1, 4):eq(ids("of_key", 1, M, 4)))) end,
  blocks = function() return safe(seen((key // 16):eq(row // 16))) end,
  keep = function() return safe(seen(nn.input("keep", {N, M}, {dtype = "bool"}))) end,
  threshold = function() -- 0.1 as a float is more than 0.1
    return safe(seen(nn.state("distance", {1, M}, {init = 0.1}):le(0.1)))
  end,
  tenths = function() return safe(seen((key * 0.1):le(9.6))) end, -- 96 is seen
  added = function() return safe(s + nn.where(key:le(last), 0, -math.huge)) end,
  alibi = function()
    return softmax(s + (key - row):to("f32") * (nn.input("slope", per_head(1, 1)) * 0.05))
  end,
  bias = function() return softmax(s + nn.input("bias", per_head(N, M))) end,
  softcap = function()
    s = (s * 0.2):tanh() * 5
    return safe(seen(key:le(last)))
  end,
  far = function() -- rows of scores that are all the same, and far from 0
    local value = nn.where((row % 4):eq(0), -1e9, nn.where((row % 4):eq(1), -1e12, -3e38))
    return softmax(nn.where((row % 4):eq(3), s, value))
  end,
  steep = function() return softmax(s * 20) end,
  unsafe = function() local e = s:exp() return e / e:sum(-1, true) end,
  dropout = function()
    local p = softmax(seen(key:le(last)))
    return p * nn.random({N, M}, {kind = "bernoulli", p = 0.75, seed = 3}):to("f32") * (1 / 0.75)
  end,
  dropped = function()
    return nn.where(nn.random({N, M}, {kind = "bernoulli", p = 0.5}), softmax(s), 0)
  end,
  counted = function() -- what is summed up are powers of which some are left out
    local e = (s - s:amax(-1, true)):exp() * key:le(last):to("f32")
    return e / (e:sum(-1, true) + 1e-3) * (key % 5):lt(4):to("f32") -- and of these again some
  end,
  sink = function() -- a key that all see, which has no value: its weight is cut away
    return softmax(nn.concat({s, nn.input("sink", {B, H, N, 1})}, -1)):slice(-1, 1, M)
  end,
  later = function() return nn.pad(softmax(s):slice(-1, 2, M), {1, 0}) end, -- the first has none
  twice = function() -- a condition that two layers share
    local condition = key:le(last)
    local p = softmax(seen(condition))
    nn.output("first", p:matmul(v))
    s = nn.input("q2", {B, H, N, D}):matmul(k:transpose())
    return softmax(seen(condition))
  end,
}
local y = forms[c.form]():matmul(v)
nn.output("y", y:to(c.stored))
