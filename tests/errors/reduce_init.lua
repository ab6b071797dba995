local nn = require "nn"
nn.op_row{name = "times_all", class = "reduce", cuda = "$1 * $2", ref = function(a, b) return a * b end}
nn.output("y", nn.times_all(nn.input("x", {4, 6}), {2}))
