-- efficientnet_b0.lua: EfficientNet-B0 (Tan and Le 2019): 5.29 M parameters, 0.39 GMAC per image at
-- 224x224. Names and shapes as torchvision's.
local nn, mobile = require "nn", require "mobile"
local cfg = nn.config{batch = 1, size = 224, classes = 1000}

local function stage(x, times, kernel, stride, out, blocks)
  for i = 0, blocks - 1 do
    local channels = x.shape[2]
    x = nn.scope(tostring(i), mobile.inverted_residual, x, {
      wide = times * channels, out = out, kernel = kernel, stride = i == 0 and stride or 1,
      activation = nn.silu, squeezed = channels // 4, squeeze_activation = nn.silu,
      gate = nn.sigmoid})
  end
  return x
end

local function features(x)
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
    x = nn.scope(tostring(i), stage, x, table.unpack(row))
  end
  return nn.scope("8", mobile.conv_norm, x, {out = 4 * x.shape[2], activation = nn.silu})
end

local x = nn.scope("features", features, nn.input("image", {cfg.batch, 3, cfg.size, cfg.size}))
x = nn.dropout(x:global_avg_pool():flatten(), 0.2)
nn.output("logits", x:linear("classifier.1", {out = cfg.classes}))
