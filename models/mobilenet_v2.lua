-- mobilenet_v2.lua: MobileNetV2 (Sandler et al. 2018): inverted residual blocks with depthwise
-- convolutions; 3.50 M parameters, 0.30 GMAC per image at 224x224. Names as in torchvision.
local nn, mobile, classifier = require "nn", require "mobile", require "classifier"
local cfg = classifier.settings{width = 1.0, dropout = 0.2}
local function channels(n) return mobile.divisible(n * cfg.width) end
local conv_norm = mobile.conv_norm

local function inverted_residual(x, out, stride, times)
  local inner = times * x.shape[2]
  local layers, y = 0, x
  local function conv(o)
    y, layers = nn.scope("conv." .. layers, conv_norm, y, o), layers + 1
  end
  if times ~= 1 then conv{out = inner, activation = nn.relu6} end
  conv{out = inner, kernel = 3, stride = stride, groups = inner, activation = nn.relu6}
  y = y:conv2d("conv." .. layers, {out = out, kernel = 1, bias = false})
       :batch_norm2d("conv." .. layers + 1)
  return (stride == 1 and x.shape[2] == out) and x + y or y
end

local function features(x)
  local layer = 0
  local function add(f, ...) x, layer = nn.scope(tostring(layer), f, x, ...), layer + 1 end
  add(conv_norm, {out = channels(32), kernel = 3, stride = 2, activation = nn.relu6})
  for _, row in ipairs{
    -- times wider, out, blocks, stride of the first
    {1,  16, 1, 1},
    {6,  24, 2, 2},
    {6,  32, 3, 2},
    {6,  64, 4, 2},
    {6,  96, 3, 1},
    {6, 160, 3, 2},
    {6, 320, 1, 1},
  } do
    local times, out, blocks, stride = table.unpack(row)
    for i = 1, blocks do add(inverted_residual, channels(out), i == 1 and stride or 1, times) end
  end
  add(conv_norm, {out = mobile.divisible(1280 * math.max(1, cfg.width)), activation = nn.relu6})
  return x
end

classifier.build(function(x)
  x = nn.scope("features", features, x):global_avg_pool():flatten():dropout(cfg.dropout)
  return x:linear("classifier.1", {out = cfg.classes})
end, cfg, classifier.sgd())
