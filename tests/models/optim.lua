-- A small regression, whose gradients are known by hand, under each optimizer; and every schedule
-- as a list.
local nn = require "nn"
local cfg = nn.config{case = "sgd", clip = 0.0}
local cases = {
  sgd = {optimizer = "sgd"},
  momentum = {optimizer = "sgd", momentum = 0.9, weight_decay = 0.05},
  nesterov = {optimizer = "sgd", momentum = 0.9, nesterov = true, weight_decay = 0.05},
  adam = {optimizer = "adam", weight_decay = 0.05},
  adamw = {optimizer = "adamw", weight_decay = 0.05},
  dampened = {optimizer = "sgd", momentum = 0.9, dampening = 0.3, maximize = true},
  amsgrad = {optimizer = "adam", amsgrad = true, betas = {0.5, 0.6}},
  adamax = {optimizer = "adamax", weight_decay = 0.05},
  nadam = {optimizer = "nadam", weight_decay = 0.05, momentum_decay = 0.1},
  radam = {optimizer = "radam", weight_decay = 0.05},
  rmsprop = {optimizer = "rmsprop", momentum = 0.9, centered = true, weight_decay = 0.05},
  adagrad = {optimizer = "adagrad", lr_decay = 0.1, initial_accumulator_value = 0.2},
  adadelta = {optimizer = "adadelta", weight_decay = 0.05},
  rprop = {optimizer = "rprop", etas = {0.5, 1.25}}, -- exact in fp32, as its steps only add up
  asgd = {optimizer = "asgd", lambd = 0.1, weight_decay = 0.05},
  lion = {optimizer = "lion", weight_decay = 0.05},
  muon = {optimizer = "muon"},
  groups = {optimizer = "sgd", groups = {{match = "*.bias", lr = 0.005}}, weight_decay = 0.1,
            no_decay = {"layer.bias"}},
  scaled = {optimizer = "sgd", momentum = 0.9, loss_scaling = true},
}
local x, y = nn.input("x", {8, 4}), nn.input("y", {8, 3})
local how = cases[cfg.case]
how.lr, how.clip_norm = 0.02, cfg.clip
nn.entry("train", function()
  local step = nn.state("steps", {1}, {dtype = "i32"})
  if cfg.case ~= "adamw" and cfg.case ~= "muon" and cfg.case ~= "radam" then
    how.step = step -- they count their own
  end
  local loss = nn.mse_loss(x:linear("layer", {out = 3}), y)
  nn.output("loss", loss)
  nn.optimize(loss, how)
  nn.update(step, step + 1)
end)
local at = nn.index({100}, 1)
nn.output("constant", nn.schedule("constant", at, 100))
nn.output("warm", nn.schedule("constant", at, 100, {warmup = 10}))
nn.output("step", nn.schedule("step", at, 100))
nn.output("cosine", nn.schedule("cosine", at, 100, {warmup = 20}))
nn.output("one_cycle", nn.schedule("one_cycle", at, 100))
nn.output("linear", nn.schedule("linear", at, 100, {warmup = 10}))
nn.output("polynomial", nn.schedule("polynomial", at, 100, {power = 2, final = 0.1}))
nn.output("restarts", nn.schedule("cosine", at, 100, {cycles = 3, final = 0.2, warmup = 10}))
nn.output("exponential", nn.schedule("exponential", at, 100, {gamma = 0.01}))
nn.output("inverse_sqrt", nn.schedule("inverse_sqrt", at, 100, {warmup = 10}))
nn.output("own", nn.schedule(function(t, total) return 1 - t / total end, at, 100, {warmup = 4}))
