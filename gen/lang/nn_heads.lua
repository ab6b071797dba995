-- nn_heads.lua: multi-head attention, of the module `nn` (nn.lua), with PyTorch's parameter names
-- and shapes, so that its state dicts load unchanged.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define = tools.fail, tools.define

-- ---- attention with any number of batch dimensions ----------------------------------------------

-- The broadcast sizes of the dimensions before the last three; nil if they do not broadcast.
local function batches_of(list)
  local all, most = {}, 0
  for _, x in ipairs(list) do most = math.max(most, #shape(x) - 3) end
  for i = 1, most do
    all[i] = 1
    for _, x in ipairs(list) do
      local dims = shape(x)
      local size = dims[#dims - 3 - most + i] or 1
      if size ~= 1 and all[i] ~= 1 and size ~= all[i] then return nil end
      all[i] = all[i] == 1 and size or all[i]
    end
  end
  return all
end

-- x (..., H, L, E) as (product of batches, heads or H, L, E), expanded as needed.
local function four(x, batches, heads)
  local dims = shape(x)
  local wide = table.move(batches, 1, #batches, 1, {})
  local own = dims[#dims - 2] or 1
  wide[#wide + 1], wide[#wide + 2], wide[#wide + 3] = heads or own, dims[#dims - 1], dims[#dims]
  if tools.product(wide, 1, #wide) ~= tools.product(dims, 1, #dims) then
    x = nn.expand(#dims > 2 and x or op.reshape(x, {dims = {1, dims[1], dims[2]}}), wide)
  end
  local all = tools.product(batches, 1, #batches)
  return op.reshape(x, {dims = {all, table.unpack(wide, #wide - 2)}})
end

local function sdpa_fails(text, ...) fail("scaled_dot_product_attention: " .. text, ...) end

-- A mask that broadcasts to (..., H, N, M), in nn.attention's form.
local function masks_batches(mask, batches, list)
  if #shape(mask) < 4 or #batches < 2 then return mask end
  local own, with = batches_of{mask}, batches_of{mask, table.unpack(list)}
  if not with or #with ~= #batches or table.concat(with, ",") ~= table.concat(batches, ",") then
    sdpa_fails("%s does not broadcast to the batches of %s, %s and %s", tostring(mask),
               tostring(list[1]), tostring(list[2]), tostring(list[3]))
  end
  local whole = tools.product(own, 1, #own) ~= 1
  return four(mask, whole and batches or own)
end

-- softmax(q @ k^T * scale + mask) @ v of (..., L, E); mask: bools, true is visible, or floats,
-- which are added. grouped: several heads of q may share one of k and v.
define([[scaled_dot_product_attention(q|query: tensor, k|key: tensor, v|value: tensor,
       mask|attn_mask: tensor = nil, {dropout|dropout_p: chance = 0,
       causal|is_causal: boolean = false, scale: number = nil,
       grouped|enable_gqa: boolean = true})]],
       "F.scaled_dot_product_attention", function(q, k, v, mask, o)
  local list, rank = {q, k, v}, 0
  for _, x in ipairs(list) do
    rank = math.max(rank, #shape(x))
    if #shape(x) < 2 then sdpa_fails("expected (..., L, E), got %s", tostring(x)) end
  end
  local batches = batches_of(list)
  if not batches then
    sdpa_fails("the batches of q, k and v do not broadcast: %s, %s and %s", tostring(q),
               tostring(k), tostring(v))
  end
  local given = {scale = o.scale, causal = o.causal or nil}
  -- PyTorch's causal mask is aligned to the first key
  if o.causal and shape(q)[#shape(q) - 1] ~= shape(k)[#shape(k) - 1] then
    given.causal = nil
    given.keep = function(at) return op.le(at.key, at.query) end
  end
  if mask then
    given[tools.is_float(mask) and "bias" or "mask"] = masks_batches(mask, batches, list)
  end
  if o.dropout > 0 then
    given.dropout = {p = o.dropout, seed = tools.training.seed, step = tools.step_now()}
  end
  local heads = {}
  for i, x in ipairs(list) do heads[i] = shape(x)[#shape(x) - 2] or 1 end
  if not o.grouped and heads[2] ~= 1 and heads[1] ~= heads[2] then
    sdpa_fails("%d heads of q and %d of k: grouped = true lets heads share k and v", heads[1],
               heads[2])
  end
  local of_keys = math.max(heads[2], heads[3])
  local function as(i, most) return four(list[i], batches, heads[i] == 1 and most or nil) end
  local y = nn.attention(as(1, of_keys), as(2, heads[3]), as(3, heads[2]), given)
  local dims = shape(y)
  local all = table.move(dims, 2, 4, #batches + 1, batches)
  return op.reshape(y, {dims = table.move(all, #all - rank + 1, #all, 1, {})})
end)

-- ---- multi-head attention ---------------------------------------------------------------------

-- (N, L, heads * size) -> (N, heads, L, size).
local function split_heads(x, heads)
  local N, L, E = table.unpack(shape(x))
  return op.permute(op.reshape(x, {dims = {N, L, heads, E // heads}}), {dims = {0, 2, 1, 3}})
end

local function same_sizes(x, sizes)
  return table.concat(shape(x), ",") == table.concat(sizes, ",")
end

-- Projects query, key and value (N, L, E) by their weights and biases.
local function projected(q, k, v, own, bias)
  local E = shape(q)[3]
  local bound = math.sqrt(6 / (4 * E))
  local init, linear = {"uniform", -bound, bound}, nn.functional.linear
  local function of_bias()
    return bias and nn.param("in_proj_bias", {3 * E}, {"constant", 0}) or nil
  end
  if own then
    return nn.chunk(linear(q, nn.param("in_proj_weight", {3 * E, E}, init), of_bias()), 3, -1)
  end
  local weights, biases = {}, {}
  if shape(k)[3] == E and shape(v)[3] == E then
    weights = {nn.chunk(nn.param("in_proj_weight", {3 * E, E}, init), 3, 1)}
  else
    for i, of in ipairs{{"q", q}, {"k", k}, {"v", v}} do
      weights[i] = nn.param(of[1] .. "_proj_weight", {E, shape(of[2])[3]}, init)
    end
  end
  if bias then biases = {nn.chunk(of_bias(), 3, 1)} end
  return linear(q, weights[1], biases[1]), linear(k, weights[2], biases[2]),
      linear(v, weights[3], biases[3])
end

-- Adds a PyTorch mask, bools that hide or floats that are added, to nn.attention's options; the
-- last `more` keys are always visible.
local function add_mask(given, mask, more)
  local hides = not tools.is_float(mask)
  if more > 0 then
    local sizes = tools.with(shape(mask), #shape(mask), more)
    local none = hides and op.ne(nn.index(sizes, 1) * 0, 0) or core.full(sizes, 0.0)
    mask = nn.concat({hides and op.ne(mask, 0) or mask, none}, -1)
  end
  if hides then
    local seen = op.logical_not(mask)
    given.mask = given.mask and given.mask & seen or seen
  else
    given.bias = given.bias and given.bias + mask or mask
  end
end

-- The masks of a call as options of nn.attention.
local function masks(o, N, L, S, more)
  local what, given = "multi_head_attention", {}
  if o.causal then
    given.keep = function(at)
      local seen = op.le(at.key, at.query)
      return more > 0 and op.logical_or(seen, op.ge(at.key, S)) or seen
    end
    if more == 0 and L == S then given.causal, given.keep = true, nil end
  end
  if o.mask then
    local mask, of_heads = o.mask, {N * o.heads, L, S}
    if same_sizes(mask, of_heads) then
      mask = op.reshape(mask, {dims = {N, o.heads, L, S}})
    elseif not same_sizes(mask, {L, S}) then
      fail("%s: mask: expected (%d, %d) or (%s), got %s", what, L, S, table.concat(of_heads, ", "),
           tostring(mask))
    end
    add_mask(given, mask, more)
  end
  if o.key_padding_mask then
    local mask = o.key_padding_mask
    if not same_sizes(mask, {N, S}) then
      fail("%s: key_padding_mask: expected (%d, %d), got %s", what, N, S, tostring(mask))
    end
    add_mask(given, op.reshape(mask, {dims = {N, 1, 1, S}}), more)
  end
  if o.dropout > 0 and tools.training.active then
    given.dropout = {p = o.dropout, seed = tools.training.seed, step = tools.step_now()}
  end
  return given
end

local function check_sizes(q, k, v, o)
  local what, E = "multi_head_attention", shape(q)[3]
  if E == 0 then fail("%s: expected features, got %s", what, tostring(q)) end
  if E % o.heads ~= 0 then fail("%s: heads = %d does not divide %d", what, o.heads, E) end
  for name, of in pairs{kdim = k, vdim = v} do
    if o[name] and o[name] ~= shape(of)[3] then
      fail("%s: %s = %d: %s has %d features", what, name, o[name],
           name == "kdim" and "key" or "value", shape(of)[3])
    end
  end
end

-- Keys and values with those that every query sees in addition: a learned one, and zeros.
local function with_more(k, v, o)
  local N, _, E = table.unpack(shape(k))
  local function joined(x, one) return nn.concat({x, nn.expand(one, {N, 1, E})}, 2) end
  if o.add_bias_kv then
    local init = {"normal", 0, 1 / math.sqrt(E)}
    k, v = joined(k, nn.param("bias_k", {1, 1, E}, init)),
        joined(v, nn.param("bias_v", {1, 1, E}, init))
  end
  if o.add_zero_attn then
    local zero = core.full({1, 1, E}, 0.0)
    k, v = joined(k, zero), joined(v, zero)
  end
  return k, v
end

-- Multi-head attention of (N, L, E).
local function of_batch(q, k, v, own, o)
  check_sizes(q, k, v, o)
  local N, L, E = table.unpack(shape(q))
  local S = shape(k)[2]
  local more = (o.add_bias_kv and 1 or 0) + (o.add_zero_attn and 1 or 0)
  local given = masks(o, N, L, S, more)
  given.weights = o.need_weights or nil
  q, k, v = projected(q, k, v, own, o.bias)
  k, v = with_more(k, v, o)
  local y, weights = nn.attention(split_heads(q, o.heads), split_heads(k, o.heads),
                                  split_heads(v, o.heads), given)
  y = op.reshape(op.permute(y, {dims = {0, 2, 1, 3}}), {dims = {N, L, E}})
  local out = nn.scope("out_proj", function()
    local w = nn.param("weight", {E, E}, {"uniform", -1 / math.sqrt(E), 1 / math.sqrt(E)})
    return nn.functional.linear(y, w, o.bias and nn.param("bias", {E}, {"constant", 0}) or nil)
  end)
  if weights and o.average_attn_weights then weights = nn.mean(weights, 2) end
  return out, weights
end

-- Attention with `heads` heads of the queries x over key and value, by default x; (L, N, E), or (N,
-- L, E) with batch_first, or (L, E). key_padding_mask (N, S), mask (L, S) or (N * heads, L, S):
-- bools, true is hidden, or floats, added; a query that sees no key yields zeros. need_weights: a
-- second result (N, L, S), the attention probabilities averaged over heads, or with
-- average_attn_weights = false (N, heads, L, S). add_bias_kv: a learned extra key and value,
-- parameters name.bias_k, bias_v (1, 1, E); add_zero_attn: extra zeros; masks hide neither.
-- Parameters name.in_proj_weight (3E, E), in_proj_bias (3E), out_proj.weight (E, E), out_proj.bias
-- (E); with other key and value sizes, kdim and vdim, q_proj_weight, k_proj_weight, v_proj_weight.
define([[multi_head_attention(x|query: tensor, name: name, {heads|num_heads: count,
       key: tensor = nil, value: tensor = nil, bias: boolean = true,
       batch_first: boolean = false, dropout: chance = 0, mask|attn_mask: tensor = nil,
       key_padding_mask: tensor = nil, causal|is_causal: boolean = false,
       need_weights: boolean = false, average_attn_weights: boolean = true,
       add_bias_kv: boolean = false, add_zero_attn: boolean = false, kdim: count = nil,
       vdim: count = nil})]],
       "nn.MultiheadAttention", function(x, o)
  local rank, key, value = #shape(x), o.key or x, o.value or o.key or x
  if rank ~= 2 and rank ~= 3 or #shape(key) ~= rank or #shape(value) ~= rank then
    fail("multi_head_attention: expected (L, N, E) or (L, E), got %s%s", tostring(x),
         o.key and " with key " .. tostring(key) or "")
  end
  local own = not o.key and not o.value
  if rank == 2 then
    if o.key_padding_mask then o.key_padding_mask = nn.unsqueeze(o.key_padding_mask, 1) end
    local y, weights = of_batch(nn.unsqueeze(x, 1), nn.unsqueeze(key, 1), nn.unsqueeze(value, 1),
                                own, o)
    return nn.squeeze(y, 1), weights and nn.squeeze(weights, 1)
  end
  local function batched(v) return o.batch_first and v or op.permute(v, {dims = {1, 0, 2}}) end
  local y, weights = of_batch(batched(x), batched(key), batched(value), own, o)
  return batched(y), weights
end)
