local nn = require "nn"
nn.output("y", nn.input("x", {1, 0, 8}):relu())
