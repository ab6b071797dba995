-- A step of a small residual network with batch norms, a max pool whose windows overlap,
-- augmentation, and a loss with label smoothing: what nn.train makes of it.
local nn = require "nn"
local cfg = nn.config{batch = 4, width = 8, size = 12, optimizer_clip = 0.0}
local B, W, S = cfg.batch, cfg.width, cfg.size

local function network(x)
  x = x:conv2d("c1", {out = W, kernel = 3, pad = 1, bias = false}):batch_norm2d("bn1"):relu()
  x = x:max_pool2d{kernel = 3, stride = 2, pad = 1}
  local y = x:conv2d("c2", {out = W, kernel = 3, pad = 1, bias = false}):batch_norm2d("bn2"):relu()
  x = (x + y:conv2d("c3", {out = W, kernel = 3, pad = 1, bias = false}):batch_norm2d("bn3")):relu()
  x = x:conv2d("c4", {out = 2 * W, kernel = 3, pad = 1, stride = 2, bias = false})
       :batch_norm2d("bn4"):relu()
  return x:global_avg_pool():flatten():linear("fc", {out = 5})
end
nn.output("logits", network(nn.input("image", {B, 3, S, S})))
nn.train(B, function()
  local x, labels = nn.images{B, 3, S, S, classes = 5, mean = {0.5, 0.4, 0.3}, std = 0.25, crop = 2,
                              flip = true, cutout = 3}
  local logits = network(x):dropout(0.1)
  return {loss = logits:cross_entropy(labels, {label_smoothing = 0.1, reduction = "none"}),
          accuracy = logits:accuracy(labels)}
end, {lr = 0.1, momentum = 0.9, nesterov = true, weight_decay = 5e-4, schedule = "cosine",
      warmup = 5, clip_norm = cfg.optimizer_clip,
      no_decay = {"bn*"}})
