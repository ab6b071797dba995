-- efficientnet_b0.lua: EfficientNet-B0 (Tan and Le 2019): 5.29 M parameters, 0.39 GMAC per image at
-- 224x224. Names and shapes as in torchvision.
local nn, mobile, classifier = require "nn", require "mobile", require "classifier"
local cfg = classifier.settings{dropout = 0.2, stochastic_depth = 0.2}

-- made: blocks before it, of 16 in all: the later one is, the more often it is left out.
local function stage(x, made, times, kernel, stride, out, blocks)
  for i = 0, blocks - 1 do
    local channels = x.shape[2]
    x = nn.scope(tostring(i), mobile.inverted_residual, x, {
      wide = times * channels, out = out, kernel = kernel, stride = i == 0 and stride or 1,
      activation = nn.silu, squeezed = channels // 4, squeeze_activation = nn.silu,
      gate = nn.sigmoid, dropped = cfg.stochastic_depth * (made + i) / 16})
  end
  return x
end

local function features(x)
  local made = 0
  x = nn.scope("0", mobile.conv_norm, x, {out = 32, kernel = 3, stride = 2, activation = nn.silu})
  for i, row in ipairs{
    -- times wider, kernel, stride of the first, out, blocks
    {1, 3, 1,  16, 1},
    {6, 3, 2,  24, 2},
    {6, 5, 2,  40, 2},
    {6, 3, 2,  80, 3},
    {6, 5, 1, 112, 3},
    {6, 5, 2, 192, 4},
    {6, 3, 1, 320, 1},
  } do
    x, made = nn.scope(tostring(i), stage, x, made, table.unpack(row)), made + row[5]
  end
  return nn.scope("8", mobile.conv_norm, x, {out = 4 * x.shape[2], activation = nn.silu})
end

classifier.build(function(x)
  x = nn.scope("features", features, x):global_avg_pool():flatten():dropout(cfg.dropout)
  return x:linear("classifier.1", {out = cfg.classes})
end, cfg, classifier.sgd())
