local nn = require "nn"
local a = nn.input("a", {4, 5})
local b = nn.input("b", {6, 7})
nn.output("y", a:matmul(b))
