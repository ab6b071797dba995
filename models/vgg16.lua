-- vgg16.lua: VGG-16 (Simonyan and Zisserman 2014): only 3x3 convolutions, then three linear layers;
-- 138.36 M parameters, 15.47 GMAC per image at 224x224. Names and shapes as in torchvision's vgg16,
-- with --set batch_norm=true as in its vgg16_bn.
local nn, classifier = require "nn", require "classifier"
local cfg = classifier.settings{batch_norm = false, width = 64, hidden = 4096, dropout = 0.5}

local function features(x)
  local layer = 0
  local function name() -- the next one: "0", "1", ...
    layer = layer + 1
    return tostring(layer - 1)
  end
  for _, stage in ipairs{{2, 1}, {2, 2}, {3, 4}, {3, 8}, {3, 8}} do -- convolutions, times width
    for _ = 1, stage[1] do
      x = x:conv2d(name(), {out = stage[2] * cfg.width, kernel = 3, pad = 1})
      if cfg.batch_norm then x = x:batch_norm2d(name()) end
      x, layer = x:relu(), layer + 1
    end
    x, layer = x:max_pool2d(2), layer + 1
  end
  return x
end

local function head(x)
  x = x:linear("0", {out = cfg.hidden}):relu():dropout(cfg.dropout)
  x = x:linear("3", {out = cfg.hidden}):relu():dropout(cfg.dropout)
  return x:linear("6", {out = cfg.classes})
end

classifier.build(function(x)
  x = nn.scope("features", features, x):adaptive_avg_pool2d(7):flatten()
  return nn.scope("classifier", head, x)
end, cfg, cfg.batch_norm and classifier.sgd() or classifier.adamw())
