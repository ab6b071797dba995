-- vit.lua: the Vision Transformer (Dosovitskiy et al. 2020), names and shapes as in torchvision's
-- state dicts: --set size=b_16 fits the weights of vit_b_16.
local nn, transformer, classifier = require "nn", require "transformer", require "classifier"
local run = nn.config{batch = nn.trains() and 128 or 1, augment = true}
local cfg = transformer.sizes{
  {"tiny", {image = 32, patch = 8, layers = 2, heads = 3, width = 24, inner = 96, classes = 10}},
  {"b_16", {image = 224, patch = 16, layers = 12, heads = 12, width = 768, inner = 3072,
            classes = 1000}},
  {"b_32", {image = 224, patch = 32, layers = 12, heads = 12, width = 768, inner = 3072,
            classes = 1000}},
  {"l_16", {image = 224, patch = 16, layers = 24, heads = 16, width = 1024, inner = 4096,
            classes = 1000}},
}
local C, eps = cfg.width, {eps = 1e-6}
assert(cfg.patch > 0 and cfg.image % cfg.patch == 0, "image must be a multiple of patch")
local side = cfg.image // cfg.patch

local function self_attention(x)
  local w = nn.param("in_proj_weight", {3 * C, C}, {"normal", 0, C ^ -0.5})
  local qkv = x:matmul(w:transpose()) + nn.param("in_proj_bias", {3 * C}, {"constant", 0})
  local q, k, v = transformer.split_heads(qkv, cfg.heads, 3)
  return transformer.join_heads(q:attention(k, v)):linear("out_proj", {out = C})
end

local function mlp(x) return x:linear("0", {out = cfg.inner}):gelu():linear("3", {out = C}) end

local function encoder_layer(x)
  x = x + nn.scope("self_attention", self_attention, x:layer_norm("ln_1", eps))
  return x + nn.scope("mlp", mlp, x:layer_norm("ln_2", eps))
end

local function encoder(x) -- returns only the class token
  for i = 0, cfg.layers - 1 do x = nn.scope("layers.encoder_layer_" .. i, encoder_layer, x) end
  return nn.slice(x, 2, 1, 1):layer_norm("ln", eps)
end

-- The class token is before the patches: its row of x is 0 until it is added with the positions.
local function network(x)
  local class = nn.param("class_token", {1, 1, C}, {"normal", 0, 0.02})
  local places = nn.param("encoder.pos_embedding", {1, side * side + 1, C}, {"normal", 0, 0.02})
  local added = nn.concat({class + nn.slice(places, 2, 1, 1), nn.slice(places, 2, 2)}, 2)
  x = x:conv2d("conv_proj", {out = C, kernel = cfg.patch, stride = cfg.patch})
       :flatten(3):transpose()
  x = nn.scope("encoder", encoder, nn.op.pad(x, {dims = {0, 1, 0}, ends = {0, 0, 0}}) + added)
  return x:reshape{run.batch, C}:linear("heads.head", {out = cfg.classes})
end

classifier.build(network, {batch = run.batch, size = cfg.image, classes = cfg.classes,
                           augment = run.augment}, classifier.adamw())
