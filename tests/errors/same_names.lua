local nn = require "nn"
local x = nn.input("x", {4})
nn.output("x", x:relu())
