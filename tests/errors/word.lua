local nn = require "nn"
local x = nn.input("x", {2})
nn.output("y", x:repeat(2))
