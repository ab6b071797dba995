-- convnext_tiny.lua: ConvNeXt-T (Liu et al. 2022): a ResNet with design choices of transformers;
-- 28.59 M parameters, 4.46 GMAC per image at 224x224. Names and shapes as in torchvision.
local nn, classifier = require "nn", require "classifier"
local cfg = classifier.settings{width = 96, stochastic_depth = 0.1}
local eps = {eps = 1e-6}

-- Layer norm over the channels of each pixel of (N, C, H, W).
local function norm2d(x, name)
  return x:permute{1, 3, 4, 2}:layer_norm(name, eps):permute{1, 4, 2, 3}
end

-- A 7x7 filter for each channel, then at each pixel a perceptron, four times as wide inside.
local function block(x, dropped)
  local C = x.shape[2]
  local y = x:conv2d("block.0", {out = C, kernel = 7, pad = 3, groups = C}):permute{1, 3, 4, 2}
  y = y:layer_norm("block.2", eps)
       :linear("block.3", {out = 4 * C}):gelu():linear("block.5", {out = C})
  y = y:permute{1, 4, 2, 3} * nn.param("layer_scale", {C, 1, 1}, 1e-6)
  return x + y:stochastic_depth(dropped)
end

local function features(x)
  local made, last = 0, 17 -- blocks: the later, the more often one is left out
  x = norm2d(x:conv2d("0.0", {out = cfg.width, kernel = 4, stride = 4}), "0.1")
  for stage, blocks in ipairs{3, 3, 9, 3} do
    local layer = 2 * stage - 1
    if stage > 1 then -- twice the channels, half the size
      x = norm2d(x, layer - 1 .. ".0")
          :conv2d(layer - 1 .. ".1", {out = 2 * x.shape[2], kernel = 2, stride = 2})
    end
    for i = 0, blocks - 1 do
      x = nn.scope(layer .. "." .. i, block, x, cfg.stochastic_depth * made / last)
      made = made + 1
    end
  end
  return x
end

classifier.build(function(x)
  x = nn.scope("features", features, x)
  x = norm2d(x:global_avg_pool(), "classifier.0"):flatten()
  return x:linear("classifier.2", {out = cfg.classes})
end, cfg, classifier.adamw())
