local nn = require "nn"
nn.op_row{name = "leaky", cuda = "nn_max($1, 0.1f * $1)", ref = function(x) return where(lt(x, 0), 0.1 * x, x) end, grad = function(g, y, x) return where(lt(x, 0), g * 0.2, g) end}
nn.output("y", nn.input("x", {4}) * 2)
