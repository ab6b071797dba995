-- densenet121.lua: DenseNet-121 (Huang et al. 2016): each layer reads the outputs of all layers
-- before it in its block; 7.98 M parameters, 2.83 GMAC per image at 224x224. Names and shapes as in
-- torchvision.
local nn, classifier = require "nn", require "classifier"
local cfg = classifier.settings{growth = 32}

local function dense_layer(x) -- `growth` new channels
  x = x:batch_norm2d("norm1"):relu()
       :conv2d("conv1", {out = 4 * cfg.growth, kernel = 1, bias = false})
  return x:batch_norm2d("norm2"):relu()
          :conv2d("conv2", {out = cfg.growth, kernel = 3, pad = 1, bias = false})
end

local function dense_block(x, layers)
  local made = {x}
  for i = 1, layers do made[i + 1] = nn.scope("denselayer" .. i, dense_layer, nn.concat(made)) end
  return nn.concat(made)
end

local function transition(x) -- half the channels, half the size
  x = x:batch_norm2d("norm"):relu()
       :conv2d("conv", {out = x.shape[2] // 2, kernel = 1, bias = false})
  return x:avg_pool2d(2)
end

local function features(x)
  x = x:conv2d("conv0", {out = 2 * cfg.growth, kernel = 7, stride = 2, pad = 3, bias = false})
  x = x:batch_norm2d("norm0"):relu():max_pool2d{kernel = 3, stride = 2, pad = 1}
  for i, layers in ipairs{6, 12, 24, 16} do
    if i > 1 then x = nn.scope("transition" .. i - 1, transition, x) end
    x = nn.scope("denseblock" .. i, dense_block, x, layers)
  end
  return x:batch_norm2d("norm5"):relu()
end

classifier.build(function(x)
  x = nn.scope("features", features, x)
  return x:global_avg_pool():flatten():linear("classifier", {out = cfg.classes})
end, cfg, classifier.sgd())
