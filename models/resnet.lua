-- resnet.lua: the ResNet family (He et al. 2015, Xie et al. 2016, Zagoruyko 2016), names and shapes
-- as in torchvision.
local nn, classifier = require "nn", require "classifier"

local function conv3x3(x, name, out, stride)
  return x:conv2d(name, {out = out, kernel = 3, stride = stride, pad = 1, bias = false})
end

local function basic_block(x, out, stride)
  local y = conv3x3(x, "conv1", out, stride):batch_norm2d("bn1"):relu()
  y = conv3x3(y, "conv2", out, 1):batch_norm2d("bn2")
  if stride ~= 1 or x.shape[2] ~= out then
    x = x:conv2d("downsample.0", {out = out, kernel = 1, stride = stride, bias = false})
         :batch_norm2d("downsample.1")
  end
  return (y + x):relu()
end

-- From pixels to the first stage: a quarter of the size.
local function stem(x, width)
  return x:conv2d("conv1", {out = width, kernel = 7, stride = 2, pad = 3, bias = false})
          :batch_norm2d("bn1"):relu():max_pool2d{kernel = 3, stride = 2, pad = 1}
end

-- Four stages with blocks[i] blocks each; from the second on each halves the size and doubles the
-- width. With o.dilated the last two keep the size: their 3x3 convolutions have dilation 2 and 4
-- instead. o.block: basic_block, or another function with its arguments and a dilation.
local function stages(x, blocks, width, o)
  local block, dilation = o.block or basic_block, 1
  for stage, count in ipairs(blocks) do
    local stride, wider = stage > 1 and 2 or 1, dilation
    local keeps = o.dilated and stage > 2
    if keeps then stride, wider = 1, 2 * dilation end
    for i = 1, count do
      if i == 2 then stride, dilation = 1, wider end
      local name = string.format("layer%d.%d", stage, i - 1)
      x = nn.scope(name, block, x, width << stage >> 1, stride, dilation)
    end
    dilation = wider
  end
  return x
end

-- build(blocks, o): blocks per stage, for example {2, 2, 2, 2}; o: options of stages.
local function build(blocks, o)
  -- small images, like those of CIFAR-10, the default in training, keep their size at first
  local pictures = nn.config{size = nn.trains() and 32 or 224}.size
  local kind = nn.config{stem = nn.trains() and pictures < 64 and "cifar" or "imagenet"}.stem
  local cifar = kind == "cifar"
  assert(cifar or kind == "imagenet", "stem is imagenet or cifar")
  local size = cifar and 32 or 224
  local cfg = classifier.settings({width = 64, nesterov = true}, size, size)

  local function network(x)
    if cifar then
      x = conv3x3(x, "conv1", cfg.width, 1):batch_norm2d("bn1"):relu()
    else
      x = stem(x, cfg.width)
    end
    x = stages(x, blocks, cfg.width, o or {})
    return x:global_avg_pool():flatten():linear("fc", {out = cfg.classes})
  end
  classifier.build(network, cfg, classifier.sgd(cfg.nesterov))
end

return {build = build, stem = stem, stages = stages}
