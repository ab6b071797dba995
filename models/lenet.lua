-- LeNet-5 with ReLU and max pooling, for 28x28 digits.
local nn = require "nn"
local cfg = nn.config{batch = 1, classes = 10}

local function network(x)
  x = x:conv2d("conv1", {out = 6, kernel = 5, pad = 2}):relu():max_pool2d{kernel = 2}
  x = x:conv2d("conv2", {out = 16, kernel = 5}):relu():max_pool2d{kernel = 2}
  x = x:flatten():linear("fc1", {out = 120}):relu():linear("fc2", {out = 84}):relu()
  return x:linear("fc3", {out = cfg.classes})
end

nn.output("probabilities", network(nn.input("image", {cfg.batch, 1, 28, 28})):softmax())

nn.train(cfg.batch, function()
  local x, labels = nn.images{cfg.batch, 1, 28, 28, classes = cfg.classes, mean = 0.13, std = 0.31}
  local logits = network(x)
  return {loss = logits:cross_entropy(labels, {reduction = "none"}),
          accuracy = logits:accuracy(labels)}
end, {optimizer = "adam", lr = 1e-3, epochs = 10})
