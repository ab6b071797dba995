-- block.lua: the transformer block of PhysicsNeMo's profiling tutorial: layer norms come first, qkv
-- has no bias, GELU follows both layers of the MLP. With its default sizes 12 593 152 parameters,
-- and 68.72 GFLOP of contractions per example. nngen train models/block.lua: SGD with momentum on
-- random tokens generated on the device, new ones at each step; one_batch=true: always the same.
local nn, transformer = require "nn", require "transformer"
local cfg = nn.config{batch = 1, tokens = 2048, width = 1024, heads = 32, dropout = 0.0,
                      one_batch = false}
local B, N, C, H = cfg.batch, cfg.tokens, cfg.width, cfg.heads
assert(H > 0 and C % H == 0, "width must be a multiple of heads")

local function attn(x)
  local q, k, v = transformer.split_heads(x:linear("qkv", {out = 3 * C, bias = false}), H, 3)
  local y = q:attention(k, v, {dropout = {p = nn.in_training() and cfg.dropout or 0,
                                          step = nn.training_step()}})
  return transformer.join_heads(y):linear("proj", {out = C}):dropout(cfg.dropout)
end

local function mlp(x)
  x = x:linear("fc1", {out = 4 * C}):gelu():dropout(cfg.dropout)
  return x:linear("fc2", {out = C}):gelu():dropout(cfg.dropout)
end

local function block(x)
  x = x + nn.scope("attn", attn, x:layer_norm("norm1"))
  return x + nn.scope("mlp", mlp, x:layer_norm("norm2"))
end

nn.output("y", block(nn.input("x", {B, N, C})))
nn.train(B, function()
  local step = not cfg.one_batch and nn.training_step() or 0
  local y = block(nn.random({B, N, C}, {kind = "normal", step = step}))
  return {loss = (y * y):sum{2, 3}}
end, {lr = 1e-4, momentum = 0.9})
