local nn = require "nn"
nn.output("y", nn.input("x", {4}):reshape(true))
