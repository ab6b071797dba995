local nn = require "nn"
nn.op_row{name = "total", class = "reduce", result = "a.x", acc = {{"x", init = "0.f", element = "$1"}}}
nn.output("y", nn.input("x", {3, 5}):total(2))
