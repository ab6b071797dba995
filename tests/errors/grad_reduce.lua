local nn = require "nn"
nn.op_row{name = "total", class = "reduce", cuda = "$1 + $2", init = "0.f", ref = function(x, z) return x + z end, grad = function(g, y, x) return g * x end}
nn.output("y", nn.input("x", {4}) * 2)
