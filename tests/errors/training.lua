-- What is wrong in how a model is trained: --set case=...
local nn = require "nn"
local case = nn.config{case = "input", batch = 2}.case -- batch: of no effect
local images, recipe = {2, 1, 4, 4, classes = 3}, {lr = 0.1}
if case == "crop" then images.crop = -1 end
if case == "std" then images.std = 0 end
if case == "lr" then recipe.lr = "high" end
if case == "momentum" then recipe.momentum = "high" end
if case == "cutout" then images.cutout = 5 end
if case == "no_decay" then recipe.no_decay = {"fc.bias", "bn*"} end
if case == "group" then recipe.groups = {{match = {"norm*", "*.bias2"}, lr = 1}} end
nn.train(2, function()
  local x, labels = nn.images(images)
  if case == "input" then x = nn.input("extra", {2, 1, 4, 4}) end
  local logits = x:flatten():linear("fc", {out = 3})
  local made = {loss = logits:cross_entropy(labels, {reduction = "none"})}
  for i = 1, case == "many" and 16 or 0 do made["number" .. i] = logits:mean(2) * i end
  return made
end, recipe)
