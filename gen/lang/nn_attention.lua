-- nn_attention.lua: attention, of the module `nn` (nn.lua), as a composition of ops.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, options, tensor, count = tools.fail, tools.options, tools.tensor, tools.count

-- ---- arguments ----------------------------------------------------------------------------------

local function said(dims) return "(" .. table.concat(dims, ", ") .. ")" end

-- d: B batch, H query heads, G key heads, R = H / G, N queries, M keys.
local function dimensions(q, k, v)
  for i, x in ipairs{q, k, v} do
    local name = ("qkv"):sub(i, i)
    if #shape(tensor("attention: " .. name, x)) ~= 4 then
      fail("attention: %s: expected (batch, heads, tokens, depth), got %s", name, tostring(x))
    end
  end
  local of_q, of_k, of_v = shape(q), shape(k), shape(v)
  local d = {B = of_q[1], H = of_q[2], N = of_q[3], D = of_q[4], G = of_k[2], M = of_k[3],
             Dv = of_v[4]}
  if of_k[1] ~= d.B or of_v[1] ~= d.B then
    fail("attention: the batches of q, k and v differ: %s, %s and %s", said(of_q), said(of_k),
         said(of_v))
  end
  if of_k[4] ~= d.D then fail("attention: q has depth %d, k has %d", d.D, of_k[4]) end
  if of_v[2] ~= d.G then fail("attention: k has %d heads, v has %d", d.G, of_v[2]) end
  if of_v[3] ~= d.M then fail("attention: k has %d keys, v has %d", d.M, of_v[3]) end
  if d.M == 0 and d.B * d.H * d.N > 0 then
    fail("attention: there is no key: k is %s", said(of_k))
  end
  if d.H % d.G ~= 0 then
    fail("attention: %d heads of q are not a multiple of %d heads of k", d.H, d.G)
  end
  d.R = d.H // d.G
  return d
end

local function is_integer(x) return ({i32 = true, i64 = true, u8 = true})[core.dtype(x)] end
local function is_float(x) return core.dtype(x):find("f") ~= nil end
local function is_bool(x) return core.dtype(x) == "bool" end

local function typed(what, x, is, wanted)
  if not core.is_tensor(x) or not is(x) then
    fail("attention: %s: expected %s, got %s", what, wanted,
         core.is_tensor(x) and core.dtype(x) or "a " .. type(x))
  end
  return x
end

-- A tensor of this shape, reshaped to (b, h, n, m).
local function of_shape(d, what, x, wanted, b, h, n, m)
  local has = said(shape(x))
  if has ~= said(wanted) then
    fail("attention: %s: expected shape %s, got %s", what, said(wanted), has)
  end
  return op.reshape(x, {dims = {b, h, n, m}})
end

-- x's shape padded with leading ones to the rank of `full`, to which it must broadcast.
local function widened(what, x, full)
  local has, dims = shape(x), {}
  local more = #full - #has
  local fits = more >= 0
  for i, size in ipairs(full) do
    dims[i] = has[i - more] or 1
    fits = fits and (dims[i] == 1 or dims[i] == size)
  end
  if not fits then
    fail("attention: %s of shape %s does not broadcast to %s", what, said(has), said(full))
  end
  return dims
end

-- Checks that a tensor broadcasts to (B, H, N, M).
local function broadcast(d, what, x)
  return op.reshape(x, {dims = widened(what, x, {d.B, d.H, d.N, d.M})})
end

-- The coordinates of an element of the scores: index tensors, each along its own dimension and of
-- size 1 along the others.
local function places(d)
  local at = {batch = nn.index({d.B, 1, 1, 1}, 1), head = nn.index({1, d.H, 1, 1}, 2),
              query = nn.index({1, 1, d.N, 1}, 3), key = nn.index({1, 1, 1, d.M}, 4)}
  return setmetatable(at, {__index = function(_, name)
    fail("attention: at has no '%s'; it has: at.batch, at.head, at.query, at.key", tostring(name))
  end})
end

local function shifted(x, by) return by == 0 and x or x + by end

-- ---- which keys a query sees --------------------------------------------------------------------

-- Visibility by position: `behind` is the number of keys before the first query's position.
local function near(d, o, at, behind)
  local seen
  if o.causal then seen = op.le(at.key, shifted(at.query, behind)) end
  if o.window then
    local w = count("attention: window", o.window)
    local after = op.lt(shifted(at.query, behind - w), at.key)
    seen = op.logical_and(seen or op.lt(at.key, shifted(at.query, behind + w)), after)
  end
  if not o.prefix then return seen end
  if not o.causal then fail("attention: prefix needs causal = true") end
  local prefix = o.prefix
  if core.is_tensor(prefix) then
    prefix = of_shape(d, "prefix", typed("prefix", prefix, is_integer, "integers"), {d.B}, d.B, 1,
                      1, 1)
  elseif math.type(prefix) ~= "integer" then
    fail("attention: prefix: expected a whole number or a tensor of integers, got %s",
         tools.said(prefix))
  end
  return op.logical_or(seen, op.lt(at.key, prefix))
end

local function same_document(d, ids)
  if core.is_tensor(ids) then
    if d.N ~= d.M then
      fail("attention: documents of %d queries and %d keys are two tensors, {of queries, of keys}",
           d.N, d.M)
    end
    ids = {ids, ids}
  end
  if type(ids) ~= "table" or #ids ~= 2 then
    fail("attention: documents: expected one tensor of integers, or two")
  end
  for i = 1, 2 do typed("documents", ids[i], is_integer, "integers") end
  return op.eq(of_shape(d, "documents", ids[1], {d.B, d.N}, d.B, 1, d.N, 1),
               of_shape(d, "documents", ids[2], {d.B, d.M}, d.B, 1, 1, d.M))
end

-- All conditions combined into one bool tensor; nil if every query sees every key.
local function visible(d, o, at, behind)
  local all
  local function also(x) all = all and x and op.logical_and(all, x) or x or all end
  also(near(d, o, at, behind))
  if o.lengths then
    local lengths = typed("lengths", o.lengths, is_integer, "integers")
    also(op.lt(at.key, of_shape(d, "lengths", lengths, {d.B}, d.B, 1, 1, 1)))
  end
  if o.documents then also(same_document(d, o.documents)) end
  if o.mask then
    also(broadcast(d, "mask", typed("mask", o.mask, is_bool, "bools (true: visible)")))
  end
  if o.keep then
    local kept = typed("keep", o.keep(at), is_bool, "bools (true: visible)")
    widened("keep", kept, {d.B, d.H, d.N, d.M})
    also(kept)
  end
  return all
end

-- May a query see no key at all?
local function may_see_none(d, o)
  return o.lengths or o.mask or o.keep or o.score or o.bias or type(o.documents) == "table" or
         (o.causal or o.window) and d.M < d.N
end

-- ---- scores -------------------------------------------------------------------------------------

local function rescored(s, f, at)
  local new = f(s, at)
  if not core.is_tensor(new) or said(shape(new)) ~= said(shape(s)) then
    fail("attention: score: expected %s as it was given, got %s", said(shape(s)), tools.said(new))
  end
  return new
end

-- ALiBi slopes by head: 2^(-8/H), 2^(-16/H) .. 2^-8 (Press, Smith, Lewis 2021), or as given. If H
-- is not a power of two: those of the largest power of two n below it, then the first, third .. for
-- 2 n heads.
local function alibi(d, slopes, at, behind)
  if slopes == true then
    local n = 1
    while 2 * n <= d.H do n = 2 * n end
    slopes = op.pow(2.0, (at.head + 1) * (-8.0 / n))
    if n < d.H then
      slopes = op.where(at.head:lt(n), slopes, op.pow(2.0, (at.head - n) * (-8.0 / n) - 4.0 / n))
    end
  else
    typed("alibi", slopes, is_float, "true or floats")
    slopes = of_shape(d, "alibi", slopes, {d.H}, 1, d.H, 1, 1)
  end
  return slopes * (at.key - shifted(at.query, behind))
end

local function itself(x) return x end

-- a @ of(b), where R heads of a share one head of b, which is loaded once for them.
local function shared_product(d, a, b, of)
  if d.R == 1 then return op.matmul(a, of(b)) end
  local of_a, of_b = shape(a), shape(b)
  a = op.reshape(a, {dims = {d.B, d.G, d.R, d.N, of_a[4]}})
  b = of(op.reshape(b, {dims = {d.B, d.G, 1, of_b[3], of_b[4]}}))
  return op.reshape(op.matmul(a, b), {dims = {d.B, d.H, d.N, shape(b)[5]}})
end

-- The scores: q k^T with all modifications, and -inf where a key is not visible.
local function scores(d, q, k, o, at)
  local behind = d.M - d.N
  local s = shared_product(d, q, k, nn.transpose) * (o.scale or 1 / math.sqrt(d.D))
  if o.score then s = rescored(s, o.score, at) end
  if o.softcap then s = op.tanh(s * (1 / o.softcap)) * o.softcap end
  if o.bias then s = s + broadcast(d, "bias", typed("bias", o.bias, is_float, "floats")) end
  if o.alibi then s = s + alibi(d, o.alibi, at, behind) end
  local keep = visible(d, o, at, behind)
  return keep and op.where(keep, s, -math.huge) or s
end

-- The dropout factor: 1 / (1 - p) for probabilities that are kept, 0 elsewhere.
local function dropout(d, given)
  local o = options("attention: dropout", given, {p = tools.REQUIRED, seed = 0, step = 0})
  if type(o.p) ~= "number" or not (o.p >= 0 and o.p <= 1) then
    fail("attention: dropout: p = %s: expected a number from 0 to 1", tools.said(o.p))
  end
  if o.p == 0 then return 1.0 end
  local stays = nn.random({d.B, d.H, d.N, d.M},
                          {kind = "bernoulli", p = 1 - o.p, seed = o.seed, step = o.step})
  return op.where(stays, o.p < 1 and 1 / (1 - o.p) or 0.0, 0.0)
end

local function check(o)
  local function finite(x) return type(x) == "number" and x - x == 0 end
  if o.scale and not finite(o.scale) then
    fail("attention: scale: expected a number, got %s", tools.said(o.scale))
  end
  if o.softcap and not (finite(o.softcap) and o.softcap > 0) then
    fail("attention: softcap: expected a number above 0, got %s", tools.said(o.softcap))
  end
  for name, kind in pairs{score = "function", keep = "function", causal = "boolean",
                          lse = "boolean", weights = "boolean"} do
    if o[name] and type(o[name]) ~= kind then
      fail("attention: %s: expected a %s, got %s", name, kind, tools.said(o[name]))
    end
  end
end

-- Kernels copy heads in units of 4 bytes: a 16-bit head of odd size gets a column of zeros.
local function even_heads(x)
  local precision = core.precision("fp32")
  core.precision(precision)
  if shape(x)[4] % 2 == 0 or precision ~= "fp16" and precision ~= "bf16" then return x end
  return op.pad(x, {dims = {0, 0, 0, 0}, ends = {0, 0, 0, 1}})
end

-- softmax(q @ k^T * scale) @ v, q (B, H, N, D), k (B, G, M, D), v (B, G, M, Dv) -> (B, H, N, Dv). H
-- is a multiple of G: H / G heads of q share one of k. A query that sees no key yields 0. Query i
-- has position p = i + M - N among the keys: queries are the last N of M.
--   scale      by default 1 / sqrt(D)
--   causal     true: keys j <= p are visible
--   window     w: keys of p - w < j < p + w are visible; with causal the last w
--   prefix     with causal: keys below this number, or integers (B), are visible for every p
--   lengths    integers (B): keys below are visible
--   documents  integers (B, N), or {(B, N), (B, M)}: a query sees the keys of its own document
--   mask       bools that broadcast to (B, H, N, M): true is visible
--   keep       function(at) -> bools: a mask from the indices at.batch, at.head, at.query, at.key
--   score      function(s, at) -> s: applied to the scaled scores (B, H, N, M), to which the index
--              tensors at.* broadcast, before all of the following
--   softcap    c: c * tanh(s / c)
--   bias       floats that broadcast to (B, H, N, M), added
--   alibi      true, or slopes (H): slope * (j - p) is added; true: the paper's, 2^(-8/H) ..
--   dropout    {p, seed = 0, step = 0}: of the probabilities, drawn as nn.random does
--   lse        true: a second result (B, H, N), the logarithm of the sum of exp(score) over visible
--              keys
--   weights    true: a further result (B, H, N, M), the attention probabilities, stored in memory
tools.define([[attention(q: tensor, k: tensor, v: tensor, {scale: any = nil,
             causal: any = nil, window: any = nil, prefix: any = nil, lengths: any = nil,
             documents: any = nil, mask: any = nil, keep: any = nil, score: any = nil,
             softcap: any = nil, bias: any = nil, alibi: any = nil, dropout: any = nil,
             lse: any = nil, weights: any = nil})]],
             "F.scaled_dot_product_attention, flex_attention", function(q, k, v, o)
  check(o)
  local d = dimensions(q, k, v)
  q, k, v = even_heads(q), even_heads(k), even_heads(v)
  local Dv = shape(v)[4]
  local s = scores(d, q, k, o, places(d))
  local axes, none = {axes = 1 << 3}, may_see_none(d, o)
  local most = op.stop_gradient(op.reduce_max(s, axes)) -- its value cancels out
  if none then most = op.where(op.eq(most, -math.huge), 0.0, most) end
  local e = op.exp(s - most)
  local sum = op.reduce_sum(e, axes)
  local p = e / (none and op.where(op.eq(sum, 0.0), 1.0, sum) or sum)
  if o.dropout then p = p * dropout(d, o.dropout) end
  local y = shared_product(d, p, v, itself)
  if Dv > d.Dv then y = op.slice(y, {dims = {0, 0, 0, 0}, ends = {d.B, d.H, d.N, d.Dv}}) end
  local results = {y}
  if o.lse then results[2] = op.reshape(most + op.log(sum), {dims = {d.B, d.H, d.N}}) end
  if o.weights then results[#results + 1] = p end
  return table.unpack(results)
end)
