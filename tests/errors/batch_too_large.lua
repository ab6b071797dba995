local nn = require "nn"
nn.output("y", nn.input("a", {70000, 3, 2}):matmul(nn.input("b", {70000, 2, 3})))
