local nn = require "nn"
local x = nn.input("image", {1, 3, 8, 8})
nn.output("y", nn.concat({x, nn.input("b", {1, 3, 8, 7})}, 2))
