-- classifier.lua: common parts of image classifiers: settings, the output `logits`, and training,
-- by default on images like those of CIFAR-10.
local nn = require "nn"

-- nn.config of a network: its `own` settings plus the common ones. size: image size; trained: image
-- size in training. Default: 10 classes for images as small as those of CIFAR-10, else 1000.
local function settings(own, size, trained)
  local all = {batch = nn.trains() and 128 or 1, classes = 0, augment = true,
               size = nn.trains() and (trained or 32) or size or 224}
  for name, value in pairs(own) do all[name] = value end
  local cfg = nn.config(all)
  if cfg.classes == 0 then cfg.classes = cfg.size < 64 and 10 or 1000 end
  return cfg
end

-- network: a function from images (N, 3, size, size) to logits (N, classes); cfg: the result of
-- settings(), or alike; o: options of nn.train.
local function build(network, cfg, o)
  local dims = {cfg.batch, 3, cfg.size, cfg.size}
  nn.output("logits", network(nn.input("image", dims)))
  nn.train(cfg.batch, function()
    local x, labels = nn.images{cfg.batch, 3, cfg.size, cfg.size, classes = cfg.classes,
                                crop = cfg.augment and 4 or 0, flip = cfg.augment,
                                mean = {0.4914, 0.4822, 0.4465}, std = {0.2470, 0.2435, 0.2616}}
    local logits = network(x)
    return {loss = logits:cross_entropy(labels, {reduction = "none"}),
            accuracy = logits:accuracy(labels)}
  end, o)
end

-- Options of nn.train for networks with batch norm, and for transformers and similar ones.
local function sgd(nesterov)
  return {lr = 0.1, momentum = 0.9, nesterov = nesterov ~= false, weight_decay = 5e-4,
          schedule = "cosine", warmup = 500, epochs = 20}
end
local function adamw()
  return {optimizer = "adamw", lr = 1e-3, weight_decay = 0.05, clip_norm = 1.0,
          schedule = "cosine", warmup = 500, epochs = 20}
end

return {settings = settings, build = build, sgd = sgd, adamw = adamw}
