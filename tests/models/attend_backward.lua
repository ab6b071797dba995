-- attend_backward.lua: derivatives of products whose weights are maps of products: attention in many
-- forms, and what only looks like it (case=...). Outputs are the value and, where `list` is given, each
-- derivative plus what it belongs to; alone=true: without that.
local nn = require "nn"
local cfg = nn.config{case = "plain", n = 1024, d = 64, N = 33, M = 47, D = 16, W = 24, P = 9,
                      alone = false, window = 0}
local B, H, N, M, D, W, P = 2, 3, cfg.N, cfg.M, cfg.D, cfg.W, cfg.P
local function q(h, d) return nn.input("q", {B, h or H, N, d or D}) end
local function k(h, d) return nn.input("k", {B, h or H, M, d or D}) end
local function v(h, w) return nn.input("v", {B, h or H, M, w or W}) end
local function weights(x, y) return (x:matmul(y:transpose()) * 0.25):softmax() end

local cases = {}
local function attention(options, more)
  local x, y, z = q(), k(), v()
  return x:attention(y, z, options), {x, y, z, more}
end
function cases.plain() return attention{} end
function cases.bias() local b = nn.input("b", {H, N, M}); return attention({bias = b}, b) end
function cases.bias_keys() -- of heads and keys
  local b = nn.input("b", {1, H, 1, M})
  return attention({bias = b, causal = true}, b)
end
function cases.bias_shared() -- by heads that share keys
  local x, y, z, b = q(6), k(2), v(2), nn.input("b", {N, M})
  return x:attention(y, z, {bias = b, causal = true}), {x, y, z, b}
end
function cases.bias_heads() -- of each batch
  local b = nn.input("b", {B, 1, N, M})
  return attention({bias = b, lengths = nn.input("n", {B}, {dtype = "i32", below = M + 1})}, b)
end
function cases.bias_odd()
  local x, y = nn.input("q", {5, 2, 129, 40}), nn.input("k", {5, 2, 17, 40})
  local z, b = nn.input("v", {5, 2, 17, 40}), nn.input("b", {2, 129, 17})
  return x:attention(y, z, {bias = b}), {x, y, z, b}
end
function cases.large()
  local x, y, z = nn.input("q", {4, 8, cfg.n, cfg.d}), nn.input("k", {4, 8, cfg.n, cfg.d}),
    nn.input("v", {4, 8, cfg.n, cfg.d})
  local b = nn.input("b", {8, cfg.n, cfg.n})
  return x:attention(y, z, {bias = b}), {b}
end
function cases.dropped() -- numbers are drawn beside conditions
  local x, y, z = nn.input("q", {2, 8, cfg.n, cfg.d}), nn.input("k", {2, 2, cfg.n, cfg.d}),
    nn.input("v", {2, 2, cfg.n, cfg.d})
  local window = cfg.window > 0 and cfg.window or nil
  local drops = {p = 0.1, seed = 3}
  return x:attention(y, z, {causal = true, window = window, dropout = drops}), {x, y, z}
end
function cases.windows() -- a table by distance in windows of 4 x 4, some pairs of which are masked
  local x, y, z = nn.input("q", {3, 2, H, 16, D}), nn.input("k", {3, 2, H, 16, D}),
    nn.input("v", {3, 2, H, 16, D})
  local t, seen = nn.input("t", {49, H}), nn.input("seen", {2, 16, 16}):gt(-1)
  local function row(i) return nn.op.floor(i:to("f32") / 4):to("i32") end
  local i, j = nn.index({16, 1}, 1), nn.index({1, 16}, 2)
  local at = (row(i) - row(j) + 3) * 7 + (i - row(i) * 4) - (j - row(j) * 4) + 3
  local b = t:index_select(1, at:reshape{256}):reshape{16, 16, H}:permute{3, 1, 2}
  local s, hidden = x:matmul(y:transpose()) * 0.25 + b, nn.op.logical_not(seen)
  return s:masked_fill(hidden:reshape{2, 1, 16, 16}, -1e9):softmax():matmul(z), {x, y, z, t}
end
function cases.slopes() -- of distances
  local m = nn.input("m", {H, 1, 1})
  local distance = (nn.index({N, 1}, 1) - nn.index({1, M}, 2)):to("f32")
  return attention({bias = m * distance * 0.1, causal = true}, m)
end
function cases.scales() -- of heads
  local w = nn.input("w", {H, 1, 1})
  return attention({score = function(s) return (s + 1) * w end}, w)
end
function cases.cap() -- of all heads
  local c = nn.input("c", {1})
  return attention({score = function(s) return (s / (c * c + 1)):tanh() * (c * c + 1) end}, c)
end
function cases.table() -- a learned bias by distance
  local t = nn.input("t", {(M + N) * H})
  local function score(s, at) return s + t:gather((at.key - at.query + N - 1) * H + at.head) end
  return attention({score = score}, t)
end
function cases.rows()
  local w = nn.input("w", {B, H, N, 1})
  return attention({score = function(s) return s * w end}, w)
end
function cases.dropout() return attention{dropout = {p = 0.3, seed = 3}, causal = true} end
function cases.lengths()
  return attention{lengths = nn.input("n", {B}, {dtype = "i32", below = M + 1}), window = 9}
end
function cases.lse()
  local x, y, z = q(), k(), v()
  local o, lse = x:attention(y, z, {lse = true})
  return o * lse:reshape{B, H, N, 1}, {x, y, z}
end
function cases.grouped()
  local x, y, z = q(6), k(2), v(2)
  return x:attention(y, z, {causal = true}), {x, y, z}
end
function cases.one_key()
  local x, y, z = q(), nn.input("k", {B, H, 1, D}), nn.input("v", {B, H, 1, W})
  return x:attention(y, z, {}), {x, y, z}
end
function cases.odd_values()
  local x, y, z = q(), k(), v(H, 7)
  return x:attention(y, z, {}), {x, y, z}
end
function cases.deep()
  local x, y, z = q(1, 256), k(1, 256), v(1, 256)
  return x:attention(y, z, {}), {x, y, z}
end
function cases.far() -- rows whose scores are all the same, and far from 0
  local x, y, z = q(), k(), v()
  local row = nn.index({N, 1}, 1) % 3
  local s = nn.where(row:eq(0), -1e9, nn.where(row:eq(1), -3e38, x:matmul(y:transpose()) * 0.25))
  return s:softmax():matmul(z), {x, y, z}
end
function cases.hidden() -- all keys by a number that bf16 rounds: derivatives see it rounded too
  local x, y, z = q(), k(), v()
  local added = (1 - nn.state("seen", {B, 1, 1, M})) * -10000
  return (x:matmul(y:transpose()) * 0.25 + added):softmax():matmul(z), {x, y, z}
end
function cases.low() -- scores of -144: what is past the last key would have a weight of infinity
  local x, y, z = q(), k(), v()
  return (x * 0 + 6):attention(y * 0 - 6, z, {}), {x, y, z}
end
function cases.itself() local x = q(); return x:attention(x, x, {}), {x} end
function cases.twice() -- a derivative of a derivative
  local x, y, z = q(), k(), v()
  local o = x:attention(y, z, {})
  return nn.grad((o * o):sum(), x), {x, y, z}
end
function cases.two_values()
  local x, y, z = q(), k(), v()
  local p = weights(x, y)
  return p:matmul(z) + p:matmul(z * z), {x, y, z}
end
function cases.entropy()
  local x, y, z = q(), k(), v()
  local p = weights(x, y)
  return p:matmul(z) - (p * (p + 1e-9):log()):sum(-1, true), {x, y, z}
end
function cases.largest() -- the largest score of a row is no constant
  local x, y, z = q(), k(), v()
  local s = x:matmul(y:transpose()) * 0.25
  local e = (s - s:amax(-1, true)):exp()
  return (e / e:sum(-1, true)):matmul(z), {x, y, z}
end
function cases.largest_sink() -- nor that of scores beside a sink, from which softmax takes another
  local x, y, z, sink = q(), k(), v(), nn.input("sink", {1, H, 1, 1})
  local hidden = nn.index({1, M}, 2):gt(nn.index({N, 1}, 1))
  local s = (x:matmul(y:transpose()) * 0.25):masked_fill(hidden, -math.huge)
  s = nn.concat({s, sink:expand{B, H, N, 1}}, -1)
  return (s - s:amax(-1, true)):softmax():slice(-1, 1, M):matmul(z), {x, y, z, sink}
end
function cases.shared_keys()
  local x, y, z = q(), k(1), v()
  return weights(x, y):matmul(z), {x, y, z}
end
function cases.learned_keys()
  local x, y, z = q(), nn.input("k", {1, H, M, D}), v()
  return weights(x, y):matmul(z), {x, y, z}
end
function cases.common_keys() -- matrices that all batches and heads share
  local x, y, z = q(), nn.input("k", {M, D}), nn.input("v", {M, W})
  return weights(x, y):matmul(z), {x, y, z}
end
function cases.learned_heads() -- the same, of heads, by einsum, which puts these first
  local x, y, z = nn.input("q", {B, N, H, D}), nn.input("k", {M, H, D}), nn.input("v", {M, H, W})
  local s = nn.einsum("bnhd,mhd->bhnm", x, y) * 0.25
  return nn.einsum("bhnm,mhd->bnhd", s:softmax(), z), {x, y, z}
end

-- Scores of learned tokens and of a text, which is causal, under one softmax.
local function memory(sink)
  local x, y, z = q(), k(), v()
  local y1, z1 = nn.input("k1", {H, P, D}), nn.input("v1", {H, P, W})
  local hidden = nn.index({1, M}, 2):gt(nn.index({N, 1}, 1) + (M - N))
  local s = {x:matmul(y1:transpose()) * 0.3,
             (x:matmul(y:transpose()) * 0.25):masked_fill(hidden, -math.huge)}
  s[3] = sink and sink:expand{B, H, N, 1}
  return nn.concat(s, -1):softmax(), z, z1, {x, y, z, y1, z1, sink}
end
function cases.memory()
  local p, z, z1, list = memory()
  return p:matmul(nn.concat({z1:expand{B, H, P, W}, z}, 3)), list
end
function cases.memory_parts() -- the weights of each read apart, some of them dropped
  local p, z, z1, list = memory()
  p = p * nn.random(p.shape, {kind = "bernoulli", p = 0.75, seed = 3}):to("f32") * (1 / 0.75)
  return p:slice(-1, 1, P):matmul(z1) + p:slice(-1, P + 1, P + M):matmul(z), list
end
function cases.memory_sink()
  local p, z, z1, list = memory(nn.input("sink", {1, H, 1, 1}))
  return p:slice(-1, 1, M + P):matmul(nn.concat({z1:expand{B, H, P, W}, z}, 3)), list
end
function cases.memory_joined() -- batches and heads as one, a mask of all keys
  local x, y, z, y1, z1 = q(), k(), v(), nn.input("k1", {B, H, P, D}), nn.input("v1", {B, H, P, W})
  local function joined(t) return t:reshape{B * H, t.shape[3], t.shape[4]} end
  local function scores(t) return joined(x):bmm(joined(t):transpose()) end
  local s = nn.concat({scores(y1), scores(y)}, -1):reshape{B, H, N, M + P} * 0.25
  s = s:masked_fill((nn.index({1, M + P}, 2) + nn.index({N, 1}, 1)):gt(60), -math.huge)
  local p = s:softmax():reshape{B * H, N, M + P}
  return p:bmm(nn.concat({joined(z1), joined(z)}, 2)), {x, y, z, y1, z1}
end
function cases.memory_scaled() -- each by a number of its own
  local x, y, z = q(), k(), v()
  local y1, z1 = nn.input("k1", {B, H, P, D}), nn.input("v1", {B, H, P, W})
  local s = {x:matmul(y1:transpose()) * 0.125, x:matmul(y:transpose()) * 0.125}
  return nn.concat(s, -1):softmax():matmul(nn.concat({z1, z}, 3)), {x, y, z, y1, z1}
end
function cases.memory_row() -- one query: a copy of all keys would be more than its scores
  local x, y, z = nn.input("q", {B, H, 1, D}), k(), v()
  local y1, z1 = nn.input("k1", {B, H, 1, D}), nn.input("v1", {B, H, 1, W})
  local s = nn.concat({x:matmul(y:transpose()), x:matmul(y1:transpose())}, -1) * 0.25
  return s:softmax():matmul(nn.concat({z, z1}, 3)), {x, y, z, y1, z1}
end
function cases.mixed_heads() -- weights of all heads and queries, for each key
  local x, y, z = q(), k(), nn.input("z", {B, N, H, W})
  return weights(x, y):permute{1, 3, 4, 2}:matmul(z), {x, y, z}
end
function cases.fused_projection() -- heads as permutations, without a reshape behind them
  local x = nn.input("x", {B, 40, 3 * 2 * D})
  local function part(i)
    return x:slice(3, i * 2 * D + 1, (i + 1) * 2 * D):reshape{B, 40, 2, D}:permute{1, 3, 2, 4}
  end
  return part(0):attention(part(1), part(2), {}):permute{1, 3, 2, 4}:reshape{B, 40, 2 * D}, {x}
end
function cases.einsum() -- heads behind the tokens
  local x, y, z = nn.input("q", {B, N, H, D}), nn.input("k", {B, M, H, D}),
    nn.input("v", {B, M, H, W})
  local p = (nn.einsum("bnhd,bmhd->bhnm", x, y) * 0.25):softmax()
  return nn.einsum("bhnm,bmhd->bnhd", p, z), {x, y, z}
end
function cases.joined_batches() -- products of (B H, N, D), a mask of (B, H, N, M) between them
  local x, y, z = q(), k(), v()
  local function joined(t) return t:reshape{B * H, t.shape[3], t.shape[4]} end
  local scores = (joined(x) * 0.25):bmm(joined(y):transpose()):reshape{B, H, N, M}
  local hidden = nn.index({M}, 1):gt(nn.index({N, 1}, 1))
  local p = joined(scores:masked_fill(hidden, -math.huge)):softmax()
  p = p * nn.random(p.shape, {kind = "bernoulli", p = 0.75, seed = 3}):to("f32")
  return p:bmm(joined(z)):reshape{B, H, N, W}, {x, y, z}
end
function cases.repeated_heads() -- keys written out for each head that shares them
  local x, y, z = q(6), k(2), v(2)
  return weights(x, y:repeat_interleave(3, 2)):matmul(z:repeat_interleave(3, 2)), {x, y, z}
end
function cases.exponentials() -- of a product, which is no attention
  local x, a, b = nn.input("x", {B, 64, 32}), nn.input("a", {B, 32, 48}), nn.input("b", {B, 48, 16})
  return (x:matmul(a) * 0.1):exp():matmul(b), {x, a, b}
end
function cases.other_batches() -- v with its batches exchanged is not v turned
  local x, z, a = nn.input("x", {3, 3, N, M}), nn.input("v", {3, 3, M, W}),
    nn.input("a", {3, 3, N, W})
  local p = x:softmax()
  return p:matmul(z) + (p * a:matmul(z:permute{2, 1, 4, 3})):sum(4, true)
end
function cases.joined_inputs() -- keep their order in memory
  local a, b = nn.input("a", {2, 3, 4, 8}), nn.input("b", {2, 3, 5, 8})
  return nn.concat({a, b}, 3):permute{1, 3, 2, 4}:reshape{2, 9, 24}
end
function cases.padded_types() -- integers and floats beside each other
  local a, b = nn.input("a", {4}, {dtype = "i32"}), nn.input("b", {4})
  return nn.op.pad(a, {dims = {0}, ends = {4}}) + nn.op.pad(b, {dims = {4}, ends = {0}})
end
function cases.bias_own() -- that nothing shares
  local b = nn.input("b", {B, H, N, M})
  return attention({bias = b, causal = true}, b)
end
function cases.trained_bias() -- parameters, scaled and updated by the kernels that find derivatives
  local function network(x, y, z)
    local b, c = nn.param("b", {H, N, M}, {"normal", 1}), nn.param("c", {1, H, 1, M}, {"normal", 1})
    return x:attention(y, z, {bias = b + c, causal = true}):linear("out", {out = W})
  end
  nn.train(B, function() return {loss = (network(q(), k(), v()) ^ 2):mean()} end,
           {optimizer = "adamw", lr = 0.1})
  return network(q(), k(), v())
end
function cases.trained() -- two entries, and scores divided by a parameter that is trained
  local function network(x, y, z)
    local scores = x:linear("q_proj", {out = D}):matmul(y:linear("k_proj", {out = D}):transpose())
    return (scores / nn.param("tau", {H, 1, 1}, {"constant", 2})):softmax()
           :matmul(z:linear("v_proj", {out = W}))
  end
  nn.train(B, function()
    return {loss = (network(q(), k(), v()) ^ 2):mean()}
  end, {optimizer = "sgd", lr = 0.1})
  return network(q(), k(), v())
end

local y, list = cases[cfg.case]()
nn.output("y", y)
if list then
  for i, g in ipairs(nn.grad((y * nn.input("dy", y.shape)):sum(), list)) do
    nn.output("d" .. i, cfg.alone and g or g + list[i])
  end
end
