-- gpt2.lua: GPT-2 (Radford et al. 2019): the logits of the token after each one of a prompt; the
-- entries `prompt` and `next` generate text: --entry prompt --save s.safetensors, then --weights
-- s.safetensors --entry next --steps 20 --graph --save t.safetensors; the state `tokens` holds it,
-- one more token per step. Names as in Hugging Face's published files, whose linear weights are
-- stored (in, out): --set size=small fits the weights of gpt2. If the file has names like
-- transformer.wte: --set prefix=transformer. The head is tied to the token embedding.
local nn, transformer = require "nn", require "transformer"
local own = nn.config{batch = 1, tokens = 16, prefix = ""}
local cfg = transformer.sizes{
  {"tiny", {vocab = 97, positions = 40, layers = 2, heads = 3, width = 24}},
  {"small", {vocab = 50257, positions = 1024, layers = 12, heads = 12, width = 768}},
  {"medium", {vocab = 50257, positions = 1024, layers = 24, heads = 16, width = 1024}},
  {"large", {vocab = 50257, positions = 1024, layers = 36, heads = 20, width = 1280}},
  {"xl", {vocab = 50257, positions = 1024, layers = 48, heads = 25, width = 1600}},
}
local B, N, C = own.batch, own.tokens, cfg.width
assert(N <= cfg.positions, "there are more tokens than positions")

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

local input_ids = nn.input("input_ids", {B, N}, {dtype = "i32", below = cfg.vocab})
local function causal(q, k, v) return q:attention(k, v, {causal = true}) end
nn.output("logits", nn.scope(own.prefix, decode, input_ids, nn.index({N}, 1), causal))
transformer.writes_text{
  batch = B, tokens = N, positions = cfg.positions, vocab = cfg.vocab, heads = cfg.heads,
  head = C // cfg.heads,
  decode = function(...) return nn.scope(own.prefix, decode, ...) end,
}
