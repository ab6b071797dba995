-- llama.lua: LLaMA (Touvron et al. 2023) and similar models: the logits of the token after each one
-- of a prompt; the entries `prompt` and `next` generate text, as in gpt2.lua. RMS norms, rotary
-- positions, grouped heads, SwiGLU. Names as in Hugging Face's LlamaForCausalLM: --set
-- size=tinyllama fits the weights of TinyLlama-1.1B. tied=true: one table for head and embedding.
local nn, transformer = require "nn", require "transformer"
local own = nn.config{batch = 1, tokens = 16, tied = false, eps = 1e-5}
local cfg = transformer.sizes{
  {"tiny", {vocab = 97, positions = 40, layers = 2, heads = 4, groups = 2, width = 32,
            inner = 88, theta = 10000.0}},
  {"tinyllama", {vocab = 32000, positions = 2048, layers = 22, heads = 32, groups = 4,
                 width = 2048, inner = 5632, theta = 10000.0}},
  {"llama2_7b", {vocab = 32000, positions = 4096, layers = 32, heads = 32, groups = 32,
                 width = 4096, inner = 11008, theta = 10000.0}},
  {"llama3_8b", {vocab = 128256, positions = 8192, layers = 32, heads = 32, groups = 8,
                 width = 4096, inner = 14336, theta = 500000.0}},
}
local B, N, C = own.batch, own.tokens, cfg.width
assert(cfg.heads > 0 and C % cfg.heads == 0, "width must be a multiple of heads")
local D, eps = C // cfg.heads, {eps = own.eps}
assert(D % 2 == 0, "rotary positions need an even head size")

local function linear(x, name, out) return x:linear(name, {out = out, bias = false}) end

-- Rotary embedding: rotates the pairs (c, c + D / 2) of each head by angles proportional to the
-- position; x (B, H, n, D) at positions (n).
local half = D // 2
local function rotary(x, positions)
  local angle = positions:reshape{positions.shape[1], 1} *
                nn.pow(cfg.theta, nn.index({1, half}, 2) * (-2.0 / D))
  local cos, sin = nn.cos(angle), nn.sin(angle)
  local a, b = nn.slice(x, 4, 1, half), nn.slice(x, 4, half + 1)
  return nn.concat({a * cos - b * sin, b * cos + a * sin}, 4)
end

local function self_attn(x, positions, attend)
  local q = transformer.split_heads(linear(x, "q_proj", C), cfg.heads, 1)
  local k = transformer.split_heads(linear(x, "k_proj", cfg.groups * D), cfg.groups, 1)
  local v = transformer.split_heads(linear(x, "v_proj", cfg.groups * D), cfg.groups, 1)
  local y = attend(rotary(q, positions), rotary(k, positions), v)
  return linear(transformer.join_heads(y), "o_proj", C)
end

local function mlp(x)
  return linear(linear(x, "gate_proj", cfg.inner):silu() * linear(x, "up_proj", cfg.inner),
                "down_proj", C)
end

local function layer(x, positions, attend)
  local normed = x:rms_norm("input_layernorm", eps)
  x = x + nn.scope("self_attn", self_attn, normed, positions, attend)
  return x + nn.scope("mlp", mlp, x:rms_norm("post_attention_layernorm", eps))
end

-- The logits of tokens (B, n) at positions (n), whose heads `attend` lets see each other: (q, k, v)
-- -> (B, H, n, D).
local function decode(ids, positions, attend)
  local tokens = nn.param("model.embed_tokens.weight", {cfg.vocab, C}, {"normal", 0, 0.02})
  local x = tokens:gather(ids)
  for i = 0, cfg.layers - 1 do
    x = nn.scope("model.layers." .. i, layer, x, positions, attend)
  end
  x = x:rms_norm("model.norm", eps)
  return own.tied and x:matmul(tokens:transpose()) or linear(x, "lm_head", cfg.vocab)
end

local input_ids = nn.input("input_ids", {B, N}, {dtype = "i32", below = cfg.vocab})
local function causal(q, k, v) return q:attention(k, v, {causal = true}) end
nn.output("logits", decode(input_ids, nn.index({N}, 1), causal))

transformer.writes_text{
  batch = B, tokens = N, positions = cfg.positions, vocab = cfg.vocab, heads = cfg.groups,
  head = D, decode = decode,
}
