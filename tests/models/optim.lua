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
  if cfg.case ~= "adamw" and cfg.case ~= "muon" then how.step = step end -- they count their own
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
