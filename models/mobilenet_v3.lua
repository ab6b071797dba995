-- mobilenet_v3.lua: MobileNetV3 (Howard et al. 2019): --set kind=large (5.48 M parameters, 0.22
-- GMAC per image at 224x224) or kind=small (2.54 M, 0.06 GMAC). Names as in torchvision's
-- mobilenet_v3_large and mobilenet_v3_small.
local nn, mobile, classifier = require "nn", require "mobile", require "classifier"
local cfg = classifier.settings{kind = "large", dropout = 0.2}

local relu, swish = nn.relu, nn.hardswish
local kinds = {
  -- kernel, wide, out, squeezed, activation, stride
  large = {last = 1280,
    {3,  16,  16, false, relu,  1},
    {3,  64,  24, false, relu,  2},
    {3,  72,  24, false, relu,  1},
    {5,  72,  40, true,  relu,  2},
    {5, 120,  40, true,  relu,  1},
    {5, 120,  40, true,  relu,  1},
    {3, 240,  80, false, swish, 2},
    {3, 200,  80, false, swish, 1},
    {3, 184,  80, false, swish, 1},
    {3, 184,  80, false, swish, 1},
    {3, 480, 112, true,  swish, 1},
    {3, 672, 112, true,  swish, 1},
    {5, 672, 160, true,  swish, 2},
    {5, 960, 160, true,  swish, 1},
    {5, 960, 160, true,  swish, 1},
  },
  small = {last = 1024,
    {3,  16,  16, true,  relu,  2},
    {3,  72,  24, false, relu,  2},
    {3,  88,  24, false, relu,  1},
    {5,  96,  40, true,  swish, 2},
    {5, 240,  40, true,  swish, 1},
    {5, 240,  40, true,  swish, 1},
    {5, 120,  48, true,  swish, 1},
    {5, 144,  48, true,  swish, 1},
    {5, 288,  96, true,  swish, 2},
    {5, 576,  96, true,  swish, 1},
    {5, 576,  96, true,  swish, 1},
  },
}
local rows = assert(kinds[cfg.kind], "kind is large or small")
local eps = 1e-3

local function features(x)
  x = nn.scope("0", mobile.conv_norm, x,
               {out = 16, kernel = 3, stride = 2, activation = swish, eps = eps})
  for i, row in ipairs(rows) do
    local kernel, wide, out, squeezed, activation, stride = table.unpack(row)
    x = nn.scope(tostring(i), mobile.inverted_residual, x, {
      kernel = kernel, wide = wide, out = out, stride = stride, activation = activation, eps = eps,
      squeezed = squeezed and mobile.divisible(wide // 4) or 0, squeeze_activation = relu,
      gate = nn.hardsigmoid})
  end
  return nn.scope(tostring(#rows + 1), mobile.conv_norm, x,
                  {out = 6 * x.shape[2], activation = swish, eps = eps})
end

local function head(x)
  x = x:linear("0", {out = rows.last}):hardswish():dropout(cfg.dropout)
  return x:linear("3", {out = cfg.classes})
end

classifier.build(function(x)
  x = nn.scope("features", features, x):global_avg_pool():flatten()
  return nn.scope("classifier", head, x)
end, cfg, classifier.sgd())
