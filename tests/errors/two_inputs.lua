local nn = require "nn"
nn.output("y", nn.input("a", {8, 4}) + nn.input("b", {8, 4}))
