-- fcn_resnet50.lua: semantic segmentation (Long et al. 2014): a dilated ResNet-50, whose last
-- stages keep an eighth of the size, two convolutions, and upsampling to the image's size. Names
-- and shapes as in torchvision, without aux_classifier.
local nn, resnet, bottleneck = require "nn", require "resnet", require "bottleneck"
local cfg = nn.config{batch = 1, size = 224, classes = 21, width = 64}

local function backbone(x)
  return resnet.stages(resnet.stem(x, cfg.width), {3, 4, 6, 3}, cfg.width,
                       {block = bottleneck(), dilated = true})
end

local function classifier(x)
  x = x:conv2d("0", {out = x.shape[2] // 4, kernel = 3, pad = 1, bias = false})
       :batch_norm2d("1"):relu()
  return x:conv2d("4", {out = cfg.classes, kernel = 1})
end

local x = nn.input("image", {cfg.batch, 3, cfg.size, cfg.size})
x = nn.scope("classifier", classifier, nn.scope("backbone", backbone, x))
nn.output("logits", x:interpolate{size = {cfg.size, cfg.size}, mode = "bilinear"})
