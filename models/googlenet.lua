-- googlenet.lua: GoogLeNet (Szegedy et al. 2014) with batch norm: 6.62 M parameters, 1.50 GMAC per
-- image at 224x224. Names and shapes as in torchvision's googlenet, without the auxiliary heads.
local nn, inception, classifier = require "nn", require "inception", require "classifier"
local cfg = classifier.settings{transform_input = not nn.trains(), dropout = 0.2}
local conv = inception.conv

-- Four branches, concatenated: 1x1; 1x1, 3x3; 1x1, 3x3 (5x5 in the paper); max pooling 3x3, 1x1.
local function block(x, ones, few2, out2, few3, out3, pooled)
  return nn.concat{
    conv(x, "branch1", ones, 1),
    conv(conv(x, "branch2.0", few2, 1), "branch2.1", out2, 3),
    conv(conv(x, "branch3.0", few3, 1), "branch3.1", out3, 3),
    conv(x:max_pool2d{kernel = 3, stride = 1, pad = 1}, "branch4.1", pooled, 1)}
end

local function halve(x, kernel)
  return x:max_pool2d{kernel = kernel, stride = 2, ceil_mode = true}
end

local function network(x)
  if cfg.transform_input then x = inception.transform_input(x) end
  x = halve(conv(x, "conv1", 64, 7, {stride = 2, pad = 3}), 3)
  x = halve(conv(conv(x, "conv2", 64, 1), "conv3", 192, 3), 3)
  for _, row in ipairs{
    {"3a",  64,  96, 128, 16,  32,  32},
    {"3b", 128, 128, 192, 32,  96,  64, halve = 3},
    {"4a", 192,  96, 208, 16,  48,  64},
    {"4b", 160, 112, 224, 24,  64,  64},
    {"4c", 128, 128, 256, 24,  64,  64},
    {"4d", 112, 144, 288, 32,  64,  64},
    {"4e", 256, 160, 320, 32, 128, 128, halve = 2},
    {"5a", 256, 160, 320, 32, 128, 128},
    {"5b", 384, 192, 384, 48, 128, 128},
  } do
    x = nn.scope("inception" .. row[1], block, x, table.unpack(row, 2))
    if row.halve then x = halve(x, row.halve) end
  end
  return x:global_avg_pool():flatten():dropout(cfg.dropout):linear("fc", {out = cfg.classes})
end

classifier.build(network, cfg, classifier.sgd())
