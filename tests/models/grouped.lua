-- grouped.lua: convolutions in groups of few channels, or of one, their gradients, and transposed
-- ones.
local nn = require "nn"
local c = nn.config{batch = 2, groups = 8, channels = 4, outputs = 4, -- of a group
                    height = 9, kernel = 3, stride = 1, dilation = 1, pad = 1}
local x = nn.input("x", {c.batch, c.groups * c.channels, c.height, c.height + 2})
local w = nn.input("w", {c.groups * c.outputs, c.channels, c.kernel, c.kernel})
local options = {stride = c.stride, padding = c.pad, dilation = c.dilation, groups = c.groups}
local y = nn.functional.conv2d(x, w, nil, options)
nn.output("y", y)
local g = nn.input("g", y.shape)
local loss = (y * g):sum()
nn.output("dx", nn.grad(loss, x))
nn.output("dw", nn.grad(loss, w))
nn.output("t", nn.functional.conv_transpose2d(y, w, nil, options))
