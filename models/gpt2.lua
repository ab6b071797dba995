-- gpt2.lua: GPT-2 (Radford et al. 2019): the logits of the token that follows each one of a prompt;
-- the entries `prompt` and `next` write text: --entry prompt --save s.safetensors, then --weights
-- s.safetensors --entry next --steps 20 --graph --save t.safetensors: the state `tokens` holds it,
-- a token more each step. Names as Hugging Face's published files, whose products are stored (in,
-- out): --set size=small takes the weights of gpt2. Where the file says transformer.wte: --set
-- prefix=transformer. The head is the table of tokens.
local nn, transformer = require "nn", require "transformer"
local own = nn.config{batch = 1, tokens = 16, prefix = "", temperature = 0.0, top_k = 0, seed = 0}
local cfg = transformer.sizes{
  {"tiny", {vocab = 97, positions = 40, layers = 2, heads = 3, width = 24}},
  {"small", {vocab = 50257, positions = 1024, layers = 12, heads = 12, width = 768}},
  {"medium", {vocab = 50257, positions = 1024, layers = 24, heads = 16, width = 1024}},
  {"large", {vocab = 50257, positions = 1024, layers = 36, heads = 20, width = 1280}},
  {"xl", {vocab = 50257, positions = 1024, layers = 48, heads = 25, width = 1600}},
}
local B, N, C = own.batch, own.tokens, cfg.width
assert(N >= 1, "a prompt has at least one token")
assert(N <= cfg.positions, "there are more tokens than positions")
assert(own.temperature >= 0, "temperature is above 0, or 0: the most likely token")
assert(own.top_k >= 0 and own.top_k <= cfg.vocab, "top_k is from 1 to vocab, or 0: all tokens")

local function conv1d(x, name, out)
  local weight = nn.param(name .. ".weight", {x.shape[3], out}, {"normal", 0, 0.02})
  return x:matmul(weight) + nn.param(name .. ".bias", {out}, {"constant", 0})
end

local function head_parts(x)
  return transformer.split_heads(conv1d(x, "c_attn", 3 * C), cfg.heads, 3)
end

local function mlp(x) return conv1d(conv1d(x, "c_fc", 4 * C):gelu("tanh"), "c_proj", C) end

-- The logits of tokens (B, n) at positions, whose heads `attend` lets see each other: (q, k, v) ->
-- (B, H, n, D).
local function decode(ids, positions, attend)
  local function attn(x)
    return conv1d(transformer.join_heads(attend(head_parts(x))), "c_proj", C)
  end
  local function block(x)
    x = x + nn.scope("attn", attn, x:layer_norm("ln_1"))
    return x + nn.scope("mlp", mlp, x:layer_norm("ln_2"))
  end
  local wte = nn.param("wte.weight", {cfg.vocab, C}, {"normal", 0, 0.02})
  local wpe = nn.param("wpe.weight", {cfg.positions, C}, {"normal", 0, 0.02})
  local x = wte:gather(ids) + wpe:gather(positions)
  for i = 0, cfg.layers - 1 do x = nn.scope("h." .. i, block, x) end
  return x:layer_norm("ln_f"):matmul(wte:transpose())
end

local function prompt() return nn.input("input_ids", {B, N}, {dtype = "i32", below = cfg.vocab}) end
local function causal(q, k, v) return q:attention(k, v, {causal = true}) end
local function first_positions() return nn.index({N}, 1) end

nn.output("logits", nn.scope(own.prefix, decode, prompt(), first_positions(), causal))

-- ---- generation: states hold the tokens, and keys and values of all but the last ----------------

local P, D = cfg.positions, C // cfg.heads
-- How many tokens there are: one more is asked for than fit in a context that is full.
local count = nn.state("count", {1}, {dtype = "i32", init = 1, below = P + 1}) -- P: it is full
local tokens = nn.state("tokens", {B, P}, {dtype = "i32"})
local function cache(name) return nn.state(name, {B, cfg.heads, P, D}, {dtype = "auto"}) end

-- The next token of logits (B, vocab), the position-th of the text: the most likely one, or drawn
-- from the `top_k` most likely at `temperature` (by the largest sum of a logit and a Gumbel
-- variate).
local function choose(logits, position)
  if own.temperature == 0 then return logits:argmax(2) end
  local x = logits * (1 / own.temperature)
  if own.top_k > 0 then
    local most = nn.topk(x, own.top_k, 2)
    x = nn.where(x:ge(nn.slice(most, 2, own.top_k, own.top_k)), x, -math.huge)
  end
  local u = nn.random({B, cfg.vocab}, {kind = "uniform", seed = own.seed, step = position})
  return (x - (-((u + 1e-7):log())):log()):argmax(2)
end

-- The token after `last`, which counts from 0; nothing is written beyond the last position.
local function append(name, logits, last, written)
  local next_token = choose(logits, last)
  local place = nn.index({1, P}, 2)
  nn.update(tokens, nn.where(place:eq(last + 1), next_token:reshape{B, 1}, written))
  nn.update(count, nn.min(last + 2, P + 1))
  nn.output(name, next_token)
end

nn.entry("prompt", function() -- reads input_ids
  local ids = prompt()
  local function attend(q, k, v)
    for name, x in pairs{keys = k, values = v} do
      local all = cache(name)
      nn.update(all, N == P and x or nn.concat({x, nn.slice(all, 3, N + 1, P)}, 3))
    end
    return causal(q, k, v)
  end
  local logits = nn.scope(own.prefix, decode, ids, first_positions(), attend)
  local written = N == P and ids or nn.concat({ids, nn.slice(tokens, 2, N + 1, P)}, 2)
  append("first_token", nn.slice(logits, 2, N, N):reshape{B, cfg.vocab}, nn.index({1}, 1) + (N - 1),
         written)
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
  local logits = nn.scope(own.prefix, decode, ids, last, attend)
  logits = logits:reshape{B, cfg.vocab}
  nn.output("next_logits", logits)
  append("token", logits, last, tokens)
end)
