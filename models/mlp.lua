-- A multilayer perceptron: the smallest model worth reading.
local nn = require "nn"
local cfg = nn.config{batch = 8, inputs = 784, hidden = 256, classes = 10}

local function network(x)
  x = x:linear("fc1", {out = cfg.hidden}):relu():linear("fc2", {out = cfg.hidden}):relu()
  return x:linear("fc3", {out = cfg.classes})
end

nn.output("logits", network(nn.input("x", {cfg.batch, cfg.inputs})))

nn.train(cfg.batch, function() -- on square pictures of one channel
  local side = math.floor(cfg.inputs ^ 0.5)
  local x, labels = nn.images{cfg.batch, 1, side, side, classes = cfg.classes}
  local logits = network(x:flatten())
  return {loss = logits:cross_entropy(labels, {reduction = "none"}),
          accuracy = logits:accuracy(labels)}
end, {optimizer = "adam", lr = 1e-3, epochs = 10})
