-- A small network with all that training keeps between steps: running statistics, momentum, random
-- pictures and dropout by the step. 8x8 pictures of one channel. --set case=...: one that is wrong.
local nn = require "nn"
local cfg = nn.config{batch = 8, width = 4, case = "", head = "fc", lr0 = 0.05,
                      schedule0 = "cosine", classes = 4, flip = true, decay = 0.0}
local B, linear = cfg.batch, cfg.case == "linear"

local function network(x)
  x = linear and x or x:conv2d("conv1", {out = cfg.width, kernel = 3, stride = 2, pad = 1,
                                         bias = false}):batch_norm2d("bn1"):relu()
  return x:flatten():dropout(0.1):linear(cfg.head, {out = cfg.classes})
end

if cfg.case ~= "no_parameters" then
  nn.output("logits", network(nn.input("image", {B, 1, 8, 8})))
end
if cfg.case ~= "no_train" then
  nn.train(B, function()
    local x, labels = nn.images{B, 1, 8, 8, classes = cfg.classes, crop = cfg.flip and 1 or 0,
                                flip = cfg.flip, mean = 0.5, std = 0.25}
    if cfg.case == "spike" then -- beyond f16, in one step
      x = x * nn.where(nn.eq(nn.training_step(), 3), 1e6, 1.0)
    end
    local logits = cfg.case == "no_parameters" and x:mean{2, 3} or network(x)
    local loss = logits:cross_entropy(labels, {reduction = "none"})
    if cfg.case == "root" then -- of 0: the loss is finite, its gradient is not
      local p = nn.param("p", {3}, 0)
      loss = loss + (p * p):sqrt():sum()
    end
    if cfg.case == "log" and not nn.in_training() then loss = (loss - 10):log() end
    if cfg.case == "steep" then loss = loss * 1e16 end
    if cfg.case == "apart" then loss = (x * x):mean{2, 3, 4} end
    if cfg.case == "no_loss" then return {accuracy = logits:accuracy(labels)} end
    local beside = cfg.case == "beside" and nn.param("beside", {3}, 2):sum() or nil
    return {loss = loss, accuracy = logits:accuracy(labels), beside = beside}
  end, {lr = cfg.lr0, momentum = 0.9, schedule = cfg.schedule0, epochs = 2,
        weight_decay = cfg.decay})
end
