local nn = require "nn"
nn.output("y", nn.input("a b", {1}):relu())
