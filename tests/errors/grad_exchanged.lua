local nn = require "nn"
nn.op_row{name = "times", nin = 2, cuda = "$1 * $2", ref = function(x, z) return x * z end, grad = function(g, y, x, z) return g * z, g * z end}
nn.output("y", nn.input("x", {4}) * 2)
