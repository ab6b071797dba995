-- squeezenet.lua: SqueezeNet 1.1 (Iandola et al. 2016): 1.24 M parameters, 0.35 GMAC per image at
-- 224x224. Names and shapes as in torchvision's squeezenet1_1.
local nn, classifier = require "nn", require "classifier"
local cfg = classifier.settings{dropout = 0.5}

-- Squeezes to few channels, and expands them by 1x1 and 3x3 convolutions.
local function fire(x, squeezed, out)
  x = x:conv2d("squeeze", {out = squeezed, kernel = 1}):relu()
  return nn.concat{x:conv2d("expand1x1", {out = out, kernel = 1}):relu(),
                   x:conv2d("expand3x3", {out = out, kernel = 3, pad = 1}):relu()}
end

local function features(x)
  local layer = 2 -- the convolution and its activation are 0 and 1
  x = x:conv2d("0", {out = 64, kernel = 3, stride = 2}):relu()
  for _, fires in ipairs{{{16, 64}, {16, 64}}, {{32, 128}, {32, 128}},
                         {{48, 192}, {48, 192}, {64, 256}, {64, 256}}} do
    x, layer = x:max_pool2d{kernel = 3, stride = 2, ceil_mode = true}, layer + 1
    for _, sizes in ipairs(fires) do
      x, layer = nn.scope(tostring(layer), fire, x, table.unpack(sizes)), layer + 1
    end
  end
  return x
end

classifier.build(function(x)
  x = nn.scope("features", features, x):dropout(cfg.dropout)
  x = x:conv2d("classifier.1", {out = cfg.classes, kernel = 1}):relu()
  return x:global_avg_pool():flatten()
end, cfg, classifier.adamw())
