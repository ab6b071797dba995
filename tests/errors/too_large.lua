local nn = require "nn"
nn.output("y", nn.input("x", {100000, 100000}):relu())
