-- LeNet-5 with ReLU and max pooling, for 28x28 digits.
local nn = require "nn"
local cfg = nn.config{batch = 1, classes = 10}

local x = nn.input("image", {cfg.batch, 1, 28, 28})
x = x:conv2d("conv1", {out = 6, kernel = 5, pad = 2}):relu():max_pool2d{kernel = 2}
x = x:conv2d("conv2", {out = 16, kernel = 5}):relu():max_pool2d{kernel = 2}
x = x:flatten():linear("fc1", {out = 120}):relu():linear("fc2", {out = 84}):relu()
nn.output("probabilities", x:linear("fc3", {out = cfg.classes}):softmax())
