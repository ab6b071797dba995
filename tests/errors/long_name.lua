local nn = require "nn"
nn.output("y", nn.input(("n"):rep(300), {4}):relu())
