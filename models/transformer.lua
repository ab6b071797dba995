-- transformer.lua: common parts of transformer models.
local nn = require "nn"

-- The settings of one of some sizes, {name, settings} each, which --set size=NAME chooses; the
-- first is the default. Each setting can be given by itself too.
local function sizes(known)
  local wanted, names = nn.config{size = known[1][1]}.size, {}
  for i, size in ipairs(known) do
    names[i] = size[1]
    if size[1] == wanted then return nn.config(size[2]) end
  end
  error("size is one of " .. table.concat(names, ", "), 2)
end

-- (B, N, parts * H * D) -> as many tensors (B, H, N, D)
local function split_heads(x, heads, parts)
  local B, N = x.shape[1], x.shape[2]
  if heads < 1 or x.shape[3] % (heads * parts) ~= 0 then
    error(("a width of %d is no multiple of %d heads"):format(x.shape[3] // parts, heads), 2)
  end
  local D = x.shape[3] // (heads * parts)
  local all, list = x:reshape{B, N, parts, heads, D}:permute{3, 1, 4, 2, 5}, {}
  for i = 1, parts do list[i] = nn.slice(all, 1, i, i):reshape{B, heads, N, D} end
  return table.unpack(list)
end

-- (B, H, N, D) -> (B, N, H * D)
local function join_heads(x)
  local d = x.shape
  return x:permute{1, 3, 2, 4}:reshape{d[1], d[3], d[2] * d[4]}
end

-- ---- text generation: states hold the tokens, and keys and values of all but the last -----------

-- Entries that generate text, one token per step, with the states `count` (of tokens), `tokens`
-- (batch, positions), and `keys` and `values` of each layer: `prompt` reads input_ids (batch,
-- tokens), `next` the previous token. m: batch, tokens, positions, vocab; heads of keys, and the
-- size `head` of each; decode(ids, positions, attend): the logits (batch, n, vocab) of ids (batch,
-- n) at positions (n), with attention by attend(q, k, v). Settings: temperature, 0 for the most
-- likely token; top_k, 0 to sample from all; top_p, sample from the fewest most likely tokens whose
-- probabilities sum to at least this, 1 from all; seed.
local function writes_text(m)
  local B, N, P = m.batch, m.tokens, m.positions
  local own = nn.config{temperature = 0.0, top_k = 0, top_p = 1.0, seed = 0}
  if N < 1 then error("a prompt has at least one token", 2) end
  if N > P then error("there are more tokens than positions", 2) end
  if own.temperature < 0 then error("temperature is above 0, or 0: the most likely token", 2) end
  if own.top_k < 0 or own.top_k > m.vocab then
    error("top_k is from 1 to vocab, or 0: all tokens", 2)
  end
  if own.top_k > 0 and own.temperature == 0 then
    error("top_k needs a temperature above 0 (at 0 the most likely token is taken)", 2)
  end
  if own.top_p <= 0 or own.top_p > 1 then error("top_p is above 0 and at most 1", 2) end
  if own.top_p < 1 and own.temperature == 0 then
    error("top_p needs a temperature above 0 (at 0 the most likely token is taken)", 2)
  end
  -- Number of tokens. One more than P, requested in a full context, is an error (`beyond`).
  local full = "the context of " .. P .. " tokens is full, no token follows them"
  local count = nn.state("count", {1}, {dtype = "i32", init = 1, below = P + 1, beyond = full})
  local tokens = nn.state("tokens", {B, P}, {dtype = "i32"})
  local function cache(name) return nn.state(name, {B, m.heads, P, m.head}, {dtype = "auto"}) end

  -- A token drawn by scaled logits x (B, vocab) from those that top_k and top_p leave: the largest
  -- sum of a logit and a Gumbel variate.
  local function draw(x, position)
    if own.top_k > 0 then
      local most = nn.topk(x, own.top_k, 2)
      x = nn.where(x:ge(nn.slice(most, 2, own.top_k, own.top_k)), x, -math.huge)
    end
    if own.top_p < 1 then
      local sorted = x:sort(2) -- the least likely first
      local most_likely = nn.index({1, m.vocab}, 2):eq(m.vocab - 1) -- is kept whatever top_p is
      local kept = sorted:softmax(2):cumsum(2):gt(1 - own.top_p) | most_likely
      x = nn.where(x:ge(nn.where(kept, sorted, math.huge):amin(2, true)), x, -math.huge)
    end
    local u = nn.random({B, m.vocab}, {kind = "uniform", seed = own.seed, step = position})
    return (x - (-nn.max(u, 2^-25):log()):log()):argmax(2) -- u is 0 to 1 - 2^-24: all are finite
  end

  -- The next token from logits (B, vocab), at index `position` of the text: the most likely one, or
  -- drawn at `temperature`, in fp32.
  local function choose(logits, position)
    if own.temperature == 0 then return logits:argmax(2) end
    return nn.precision("fp32", function()
      return draw(logits * (1 / own.temperature), position)
    end)
  end

  -- Appends the token after `last` (an index from 0); `most` bounds the number of tokens then;
  -- nothing is written beyond the last position.
  local function append(name, logits, last, written, most)
    local next_token = choose(logits, last)
    local place = nn.index({1, P}, 2)
    nn.update(tokens, nn.where(place:eq(last + 1), next_token:reshape{B, 1}, written))
    nn.update(count, nn.min(last + 2, most))
    nn.output(name, next_token)
  end

  nn.entry("prompt", function()
    local ids = nn.input("input_ids", {B, N}, {dtype = "i32", below = m.vocab})
    local function attend(q, k, v)
      for name, x in pairs{keys = k, values = v} do
        local all = cache(name)
        nn.update(all, N == P and x or nn.concat({x, nn.slice(all, 3, N + 1, P)}, 3))
      end
      return q:attention(k, v, {causal = true})
    end
    local logits = m.decode(ids, nn.index({N}, 1), attend)
    local written = N == P and ids or nn.concat({ids, nn.slice(tokens, 2, N + 1, P)}, 2)
    append("first_token", nn.slice(logits, 2, N, N):reshape{B, m.vocab},
           nn.index({1}, 1) + (N - 1), written, P) -- after a prompt of P tokens it is only output
  end)

  nn.entry("next", function() -- one token more
    local last = nn.min(count, P) - 1
    local here, seen = nn.index({1, 1, P, 1}, 3):eq(last), function(at) return at.key:le(last) end
    local function attend(q, k, v)
      local old_k, old_v = cache("keys"), cache("values")
      local all_k, all_v = nn.where(here, k, old_k), nn.where(here, v, old_v)
      nn.update(old_k, all_k)
      nn.update(old_v, all_v)
      return q:attention(all_k, all_v, {keep = seen})
    end
    local ids = tokens:take_along(nn.index({B, 1}, 2) + last, 2)
    local logits = m.decode(ids, last, attend):reshape{B, m.vocab}
    nn.output("next_logits", logits)
    append("token", logits, last, tokens, P + 1)
  end)
end

return {sizes = sizes, split_heads = split_heads, join_heads = join_heads,
        writes_text = writes_text}
