local nn = require "nn"
nn.output("y", nn.input("x", {3, 1}):var(2))
