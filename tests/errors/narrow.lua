local nn = require "nn"
nn.output("y", nn.input("x", {4, 4}):narrow(2, 0, 1))
