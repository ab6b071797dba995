local nn = require "nn"
local x = nn.input("x", {1, 3, 8, 8})
nn.output("y", x:avg_pool2d(2, 3))
