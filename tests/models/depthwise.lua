-- depthwise.lua: convolutions of each channel alone, their gradients, and transposed ones.
local nn = require "nn"
local c = nn.config{batch = 2, channels = 8, height = 9,
                    kernel = 3, stride = 1, dilation = 1, pad = 1}
local x = nn.input("x", {c.batch, c.channels, c.height, c.height + 2})
local w = nn.input("w", {c.channels, 1, c.kernel, c.kernel})
local options = {stride = c.stride, padding = c.pad, dilation = c.dilation, groups = c.channels}
local y = nn.functional.conv2d(x, w, nil, options)
nn.output("y", y)
local g = nn.input("g", y.shape)
local loss = (y * g):sum()
nn.output("dx", nn.grad(loss, x))
nn.output("dw", nn.grad(loss, w))
nn.output("t", nn.functional.conv_transpose2d(y, w, nil, options))
