-- A multilayer perceptron: the smallest model worth reading.
local nn = require "nn"
local cfg = nn.config{batch = 8, inputs = 784, hidden = 256, classes = 10}

local x = nn.input("x", {cfg.batch, cfg.inputs})
x = x:linear("fc1", {out = cfg.hidden}):relu():linear("fc2", {out = cfg.hidden}):relu()
nn.output("logits", x:linear("fc3", {out = cfg.classes}))
