local nn = require "nn"
nn.output("y", nn.input("x", {65536, 32768}):reshape{1 << 31}:sum())
