local nn = require "nn"
local x = nn.input("x", {4})
nn.output("y", nn.random({4}, {step = x:sum()}))
