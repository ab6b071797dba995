local nn = require "nn"
nn.output("y", nn.input("x", {1, -2, 8}):relu())
