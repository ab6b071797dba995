local nn = require "nn"
nn.output("y", nn.index({65536, 32768}, 1):sum())
