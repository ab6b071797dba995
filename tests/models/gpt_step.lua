-- gpt_step.lua: a step of a language model of a few layers, as GPT's: the gradient of its logits is
-- made by the kernel of their cross-entropy, and q, k and v are parts of one product, as are their
-- gradients.
local nn = require "nn"
local c = nn.config{batch = 2, tokens = 16, width = 32, heads = 2, layers = 1, vocabulary = 500}
local B, T, C, H = c.batch, c.tokens, c.width, c.heads
local function block(x)
  local y = x:layer_norm("ln_1")
  local qkv = y:linear("attn", {out = 3 * C}):reshape{B, T, 3, H, C // H}
  local function part(i) return qkv:slice(3, i, i):reshape{B, T, H, C // H}:permute(1, 3, 2, 4) end
  local a = part(1):attention(part(2), part(3), {causal = true})
  x = x + a:permute(1, 3, 2, 4):reshape{B, T, C}:linear("proj", {out = C})
  return x + x:layer_norm("ln_2"):linear("fc", {out = 4 * C}):gelu():linear("out", {out = C})
end
local function logits(ids)
  local x = nn.gather(nn.param("wte", {c.vocabulary, C}), ids, 1) + nn.param("wpe", {T, C})
  for i = 1, c.layers do x = nn.scope("h" .. i, block, x) end
  return x:layer_norm("ln_f"):linear("head", {out = c.vocabulary, bias = false})
end

local function ids(name) return nn.input(name, {B, T}, {dtype = "i32", below = c.vocabulary}) end
nn.output("y", logits(ids("ids")))
nn.train(B, function()
  local y, targets = logits(ids("tokens")), ids("targets")
  local loss = nn.cross_entropy(y:reshape{B * T, c.vocabulary}, targets:reshape{B * T},
                                {reduction = "none"})
  return {loss = loss:reshape{B, T}:mean{2}}
end, {lr = 1e-3})
