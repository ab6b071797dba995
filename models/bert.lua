-- bert.lua: BERT (Devlin et al. 2018) as a sentence embedding: the mean over its tokens, normalised
-- to length 1. Names as in Hugging Face's BertModel: --set size=minilm fits the weights of
-- all-MiniLM-L6-v2. If the file has names like bert.embeddings and LayerNorm.gamma, as
-- bert-base-uncased: --set size=base prefix=bert gamma=true.
local nn, transformer = require "nn", require "transformer"
local own = nn.config{batch = 1, tokens = 16, prefix = "", gamma = false}
local cfg = transformer.sizes{
  {"tiny", {vocab = 97, positions = 40, layers = 2, heads = 3, width = 24, inner = 96}},
  {"minilm", {vocab = 30522, positions = 512, layers = 6, heads = 12, width = 384, inner = 1536}},
  {"base", {vocab = 30522, positions = 512, layers = 12, heads = 12, width = 768, inner = 3072}},
  {"large", {vocab = 30522, positions = 512, layers = 24, heads = 16, width = 1024, inner = 4096}},
}
local B, N, C = own.batch, own.tokens, cfg.width
assert(N <= cfg.positions, "there are more tokens than positions")

local function ids(name, below) return nn.input(name, {B, N}, {dtype = "i32", below = below}) end
local input_ids, token_type_ids = ids("input_ids", cfg.vocab), ids("token_type_ids", 2)
local attention_mask = ids("attention_mask", 2)

local function norm(x)
  if not own.gamma then return x:layer_norm("LayerNorm", {eps = 1e-12}) end
  return x:layer_norm("LayerNorm", {eps = 1e-12, affine = false}) *
         nn.param("LayerNorm.gamma", {C}, {"constant", 1}) +
         nn.param("LayerNorm.beta", {C}, {"constant", 0})
end

local function embeddings()
  local x = input_ids:embedding("word_embeddings", {count = cfg.vocab, size = C})
  x = x + nn.slice(nn.param("position_embeddings.weight", {cfg.positions, C}), 1, 1, N)
  return norm(x + token_type_ids:embedding("token_type_embeddings", {count = 2, size = C}))
end

local function self_attention(x)
  local function heads(name)
    return transformer.split_heads(x:linear(name, {out = C}), cfg.heads, 1)
  end
  local visible = attention_mask:ne(0):reshape{B, 1, 1, N}
  local q, k, v = heads("query"), heads("key"), heads("value")
  return transformer.join_heads(q:attention(k, v, {mask = visible}))
end

-- The layer that ends each half of a block, with the residual x.
local function output(y, x) return norm(y:linear("dense", {out = C}) + x) end

local function layer(x)
  local y = nn.scope("attention.self", self_attention, x)
  x = nn.scope("attention.output", output, y, x)
  return nn.scope("output", output, x:linear("intermediate.dense", {out = cfg.inner}):gelu(), x)
end

local function encode()
  local x = nn.scope("embeddings", embeddings)
  for i = 0, cfg.layers - 1 do x = nn.scope("encoder.layer." .. i, layer, x) end
  return x
end

local hidden = nn.scope(own.prefix, encode)
local counted = attention_mask:to("f32"):reshape{B, N, 1}
local mean = (hidden * counted):sum(2) / nn.max(counted:sum(2), 1e-9)
nn.output("hidden", hidden)
nn.output("embedding", mean / nn.max((mean * mean):sum(2, true):sqrt(), 1e-12))
