-- An op of the model's own between two of the table.
local nn = require "nn"
nn.op_row{name = "twice", cuda = "$1 * 2.f", ref = function(x) return x * 2 end}
nn.output("y", nn.op.twice(nn.input("x", {4, 8}):relu()) + 1)
