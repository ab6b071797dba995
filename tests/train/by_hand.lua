-- Entries that a model writes itself: two networks, each with an optimizer of its own. In the entry
-- train batch norm takes the statistics of the batch and moves the running ones, dropout drops
-- other elements at each step. 8x8 pictures of one channel.
-- --set spike=true: beyond f16 in step 4.
local nn = require "nn"
local cfg = nn.config{batch = 8, loss_scaling = false, spike = false}

local function features(x)
  x = x:conv2d("conv", {out = 4, kernel = 3, stride = 2, pad = 1, bias = false})
  return x:batch_norm2d("bn"):relu():flatten():dropout(0.5)
end
local function make(entry)
  local x, labels = nn.images{cfg.batch, 1, 8, 8, classes = 4}
  if cfg.spike then x = x * nn.where(nn.eq(nn.training_step(), 3), 1e6, 1.0) end
  local seen = nn.scope("judge", features, x)
  local loss = nn.scope("judge", nn.linear, seen, "fc", {out = 4}):cross_entropy(labels)
  local guess = nn.stop_gradient(seen):linear("guess", {out = 64})
  local apart = guess:mse_loss(x:flatten())
  nn.output(entry .. ".loss", loss)
  nn.output(entry .. ".apart", apart)
  return loss, apart
end
nn.entry("train", function()
  local loss, apart = make("train")
  local one = nn.optimize(loss, {optimizer = "adam", lr = 0.01, freeze = "guess",
                                 loss_scaling = cfg.loss_scaling})
  local other = nn.optimize(apart, {optimizer = "sgd", lr = 0.1, momentum = 0.9, freeze = "judge",
                                    loss_scaling = cfg.loss_scaling})
  if cfg.loss_scaling then nn.output("train.grad_norm", one.norm + other.norm) end
end)
nn.entry("eval", make, "eval")
