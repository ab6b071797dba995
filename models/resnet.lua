-- resnet.lua: the ResNet family (He et al. 2015) with basic blocks, names and shapes as torchvision's.
local nn = require "nn"

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

-- build(blocks): blocks per stage, as in {2, 2, 2, 2}
local function build(blocks)
  local cfg = nn.config{batch = 1, stem = "imagenet", size = 0, classes = 0}
  local cifar = cfg.stem == "cifar"
  assert(cifar or cfg.stem == "imagenet", "stem is imagenet or cifar")
  local size = cfg.size > 0 and cfg.size or (cifar and 32 or 224)
  local classes = cfg.classes > 0 and cfg.classes or (size < 64 and 10 or 1000)

  local x = nn.input("image", {cfg.batch, 3, size, size})
  if cifar then
    x = conv3x3(x, "conv1", 64, 1):batch_norm2d("bn1"):relu()
  else
    x = x:conv2d("conv1", {out = 64, kernel = 7, stride = 2, pad = 3, bias = false})
         :batch_norm2d("bn1"):relu():max_pool2d{kernel = 3, stride = 2, pad = 1}
  end
  for stage, count in ipairs(blocks) do
    for i = 1, count do
      x = nn.scope(string.format("layer%d.%d", stage, i - 1), basic_block, x, 32 << stage,
                   i == 1 and stage > 1 and 2 or 1)
    end
  end
  nn.output("logits", x:global_avg_pool():flatten():linear("fc", {out = classes}))
end

return {build = build}
