local nn = require "nn"
nn.op_row{name = "above", class = "reduce", result = "a.n", acc = {{"n", init = "0.f", element = "$1", combine = "a.n + b.n", ref = function(n, x) return n + (x > 0 and x or 0) end}}}
nn.output("y", nn.input("x", {8, 100}):above(2))
