local nn = require "nn"
nn.op_row{name = "cube", cuda = "$1 * $1 * $1", ref = function(x) return x * x * x end, grad = function(g, y, x) return g * x * x * 2 end}
nn.output("y", nn.input("x", {4}) * 2)
