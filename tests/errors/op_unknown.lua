local nn = require "nn"
nn.output("y", nn.op.rellu(nn.input("x", {4})))
