-- inception_v3.lua: Inception v3 (Szegedy et al. 2015): 23.83 M parameters, 5.71 GMAC per image at
-- 299x299. Names and shapes as in torchvision's inception_v3, without the auxiliary head. Images
-- must be at least 75x75.
local nn, inception, classifier = require "nn", require "inception", require "classifier"
local cfg = classifier.settings({transform_input = not nn.trains(), dropout = 0.5}, 299, 75)
local conv = inception.conv
local row, column = {1, 7}, {7, 1} -- a 7x7 filter as the product of two
local half = {stride = 2, pad = 0}

-- Convolutions one after the other: name_1, name_2, ...; each {out, kernel, o}.
local function chain(x, name, list)
  for i, layer in ipairs(list) do x = conv(x, name .. "_" .. i, table.unpack(layer)) end
  return x
end

local function mean3x3(x) return x:avg_pool2d{kernel = 3, stride = 1, pad = 1} end

local function block_a(x, pooled)
  return nn.concat{
    conv(x, "branch1x1", 64, 1),
    chain(x, "branch5x5", {{48, 1}, {64, 5}}),
    chain(x, "branch3x3dbl", {{64, 1}, {96, 3}, {96, 3}}),
    conv(mean3x3(x), "branch_pool", pooled, 1)}
end

local function block_b(x) -- halves the size
  return nn.concat{
    conv(x, "branch3x3", 384, 3, half),
    chain(x, "branch3x3dbl", {{64, 1}, {96, 3}, {96, 3, half}}),
    x:max_pool2d{kernel = 3, stride = 2}}
end

local function block_c(x, few)
  return nn.concat{
    conv(x, "branch1x1", 192, 1),
    chain(x, "branch7x7", {{few, 1}, {few, row}, {192, column}}),
    chain(x, "branch7x7dbl", {{few, 1}, {few, column}, {few, row}, {few, column}, {192, row}}),
    conv(mean3x3(x), "branch_pool", 192, 1)}
end

local function block_d(x) -- halves the size
  return nn.concat{
    chain(x, "branch3x3", {{192, 1}, {320, 3, half}}),
    chain(x, "branch7x7x3", {{192, 1}, {192, row}, {192, column}, {192, 3, half}}),
    x:max_pool2d{kernel = 3, stride = 2}}
end

local function block_e(x)
  local y = conv(x, "branch3x3_1", 384, 1)
  local z = chain(x, "branch3x3dbl", {{448, 1}, {384, 3}})
  return nn.concat{
    conv(x, "branch1x1", 320, 1),
    conv(y, "branch3x3_2a", 384, {1, 3}),
    conv(y, "branch3x3_2b", 384, {3, 1}),
    conv(z, "branch3x3dbl_3a", 384, {1, 3}),
    conv(z, "branch3x3dbl_3b", 384, {3, 1}),
    conv(mean3x3(x), "branch_pool", 192, 1)}
end

local function network(x)
  if cfg.transform_input then x = inception.transform_input(x) end
  x = conv(x, "Conv2d_1a_3x3", 32, 3, half)
  x = conv(x, "Conv2d_2a_3x3", 32, 3, {pad = 0})
  x = conv(x, "Conv2d_2b_3x3", 64, 3):max_pool2d{kernel = 3, stride = 2}
  x = conv(x, "Conv2d_3b_1x1", 80, 1)
  x = conv(x, "Conv2d_4a_3x3", 192, 3, {pad = 0}):max_pool2d{kernel = 3, stride = 2}
  for _, mixed in ipairs{
    {"5b", block_a, 32}, {"5c", block_a, 64}, {"5d", block_a, 64},
    {"6a", block_b}, {"6b", block_c, 128}, {"6c", block_c, 160}, {"6d", block_c, 160},
    {"6e", block_c, 192},
    {"7a", block_d}, {"7b", block_e}, {"7c", block_e},
  } do
    x = nn.scope("Mixed_" .. mixed[1], mixed[2], x, mixed[3])
  end
  return x:global_avg_pool():flatten():dropout(cfg.dropout):linear("fc", {out = cfg.classes})
end

classifier.build(network, cfg, classifier.sgd())
