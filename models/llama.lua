-- llama.lua: LLaMA (Touvron et al. 2023) and its kin: the logits of the token that follows each one
-- of a prompt. RMS norms, rotary positions, grouped heads, SwiGLU. Names as Hugging Face's
-- LlamaForCausalLM: --set size=tinyllama takes the weights of TinyLlama-1.1B. tied=true: the head
-- is the table of tokens.
local nn, transformer = require "nn", require "transformer"
local own = nn.config{batch = 1, tokens = 16, tied = false, eps = 1e-5}
local cfg = transformer.sizes{
  {"tiny", {vocab = 97, layers = 2, heads = 4, groups = 2, width = 32, inner = 88,
            theta = 10000.0}},
  {"tinyllama", {vocab = 32000, layers = 22, heads = 32, groups = 4, width = 2048, inner = 5632,
                 theta = 10000.0}},
  {"llama2_7b", {vocab = 32000, layers = 32, heads = 32, groups = 32, width = 4096, inner = 11008,
                 theta = 10000.0}},
  {"llama3_8b", {vocab = 128256, layers = 32, heads = 32, groups = 8, width = 4096, inner = 14336,
                 theta = 500000.0}},
}
local B, N, C = own.batch, own.tokens, cfg.width
local D, eps = C // cfg.heads, {eps = own.eps}
assert(C % cfg.heads == 0, "width wants to be a multiple of heads")
assert(D % 2 == 0, "rotary positions turn pairs: a head wants an even size")

local function linear(x, name, out) return x:linear(name, {out = out, bias = false}) end

-- Turns the pairs (c, c + D / 2) of each head by an angle that grows with the position.
local half = D // 2
local angle = nn.index({N, 1}, 1) * nn.pow(cfg.theta, nn.index({1, half}, 2) * (-2.0 / D))
local cos, sin = nn.cos(angle), nn.sin(angle)
local function rotary(x) -- (B, H, N, D)
  local a, b = nn.slice(x, 4, 1, half), nn.slice(x, 4, half + 1)
  return nn.concat({a * cos - b * sin, b * cos + a * sin}, 4)
end

local function self_attn(x)
  local q = transformer.split_heads(linear(x, "q_proj", C), cfg.heads, 1)
  local k = transformer.split_heads(linear(x, "k_proj", cfg.groups * D), cfg.groups, 1)
  local v = transformer.split_heads(linear(x, "v_proj", cfg.groups * D), cfg.groups, 1)
  local y = rotary(q):attention(rotary(k), v, {causal = true})
  return linear(transformer.join_heads(y), "o_proj", C)
end

local function mlp(x)
  return linear(linear(x, "gate_proj", cfg.inner):silu() * linear(x, "up_proj", cfg.inner),
                "down_proj", C)
end

local function layer(x)
  x = x + nn.scope("self_attn", self_attn, x:rms_norm("input_layernorm", eps))
  return x + nn.scope("mlp", mlp, x:rms_norm("post_attention_layernorm", eps))
end

local input_ids = nn.input("input_ids", {B, N}, {dtype = "i32", below = cfg.vocab})
local tokens = nn.param("model.embed_tokens.weight", {cfg.vocab, C}, {"normal", 0, 0.02})
local x = tokens:gather(input_ids)
for i = 0, cfg.layers - 1 do x = nn.scope("model.layers." .. i, layer, x) end
x = x:rms_norm("model.norm", eps)
nn.output("logits", own.tied and x:matmul(tokens:transpose()) or linear(x, "lm_head", cfg.vocab))
