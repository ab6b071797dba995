-- What holds of attention whatever it computes: each case makes `one` and `other`, which are equal.
local nn = require "nn"
local cfg = nn.config{case = "prefix", batch = 2, heads = 6, groups = 3, tokens = 17, depth = 8}
local B, H, G, N, D = cfg.batch, cfg.heads, cfg.groups, cfg.tokens, cfg.depth
local q, k, v = nn.input("q", {B, H, N, D}), nn.input("k", {B, G, N, D}),
  nn.input("v", {B, G, N, D})
local laws = {}

local function first(x, n) return nn.slice(x, 3, 1, n) end

-- A causal row is the row of a run that ends there.
function laws.prefix()
  local all, whole, alone = q:attention(k, v, {causal = true}), {}, {}
  for i, n in ipairs{1, 2, 9, N} do
    whole[i] = nn.slice(all, 3, n, n)
    alone[i] = nn.slice(q, 3, n, n):attention(first(k, n), first(v, n))
  end
  return nn.concat(whole, 3), nn.concat(alone, 3)
end

-- The last queries of a run, alone, as when the keys before were kept.
function laws.continued()
  local all = q:attention(k, v, {causal = true, window = 6, alibi = true})
  local rest = nn.slice(q, 3, N - 4, N):attention(k, v, {causal = true, window = 6, alibi = true})
  return nn.slice(all, 3, N - 4, N), rest
end

-- Keys in another order, with their values and what is said of them.
function laws.permuted()
  local order = (nn.index({N}, 1) * 3 + 5) % N
  local bias = nn.input("bias", {B, H, N, N})
  local ids = nn.input("ids", {B, N}, {dtype = "i32", below = 3})
  local function turned(x, axis) return nn.gather(x, order, axis) end
  return q:attention(k, v, {bias = bias, documents = {ids, ids}}),
         q:attention(turned(k, 3), turned(v, 3),
                     {bias = turned(bias, 4), documents = {ids, turned(ids, 2)}})
end

-- Keys in two parts, joined by their log-sum-exp; a query may see none of the second part.
function laws.split()
  local cut, size = 6, N - 6
  local lengths = nn.input("lengths", {B}, {dtype = "i32", below = N + 1})
  local whole = q:attention(k, v, {lengths = nn.max(lengths, 1)})
  local a, of_a = q:attention(first(k, cut), first(v, cut),
                              {lengths = nn.max(lengths, 1), lse = true})
  local b, of_b = q:attention(nn.slice(k, 3, cut + 1, N), nn.slice(v, 3, cut + 1, N),
                              {lengths = lengths - cut, lse = true})
  local most = nn.max(of_a, of_b)
  local in_a, in_b = nn.exp(of_a - most), nn.exp(of_b - most)
  local function each(x) return x:reshape{B, H, N, 1} end
  return whole, (a * each(in_a) + b * each(in_b)) / each(in_a + in_b)
end

-- Heads that share keys, and the same keys written out for each.
function laws.groups()
  local owner = nn.floordiv(nn.index({H}, 1), H // G)
  local options = {alibi = true, score = function(s, at) return s + at.head * 0.1 end}
  return q:attention(k, v, options),
    q:attention(nn.gather(k, owner, 2), nn.gather(v, owner, 2), options)
end

-- Tensors of functions are of batches and heads of queries, as those of options: where there are as
-- many batches as heads of keys, too.
function laws.of_batches()
  local lengths = nn.input("lengths", {B}, {dtype = "i32", below = N + 1})
  local bias = nn.input("bias", {B, 1, 1, N})
  local function some(x) return nn.slice(x, 2, 1, 2 * B) end
  local k2, v2 = nn.slice(k, 2, 1, B), nn.slice(v, 2, 1, B)
  return some(q):attention(k2, v2, {lengths = lengths, bias = bias}),
    some(q):attention(k2, v2, {keep = function(at) return at.key:lt(lengths:reshape{B, 1, 1, 1}) end,
                               score = function(s) return s + bias end})
end

-- Options that say nothing.
function laws.void()
  return q:attention(k, v),
         q:attention(k, v, {window = N, lengths = nn.index({B}, 1) * 0 + N, dropout = {p = 0},
                            scale = 1 / math.sqrt(D),
                            score = function(s) return s end,
                            keep = function(at) return at.key:ge(0) end})
end

-- These are not equal: the probabilities with dropout, and without.
function laws.dropout()
  local unit = nn.index({B, G, N, 1}, 3):eq(nn.index({B, G, 1, N}, 4)):to("f32")
  return q:attention(k, unit, {dropout = {p = 0.3, seed = 5}}), q:attention(k, unit)
end

local one, other = laws[cfg.case]()
nn.output("one", one)
nn.output("other", other)
