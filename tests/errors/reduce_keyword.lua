local nn = require "nn"
nn.op_row{name = "total", class = "reduce", result = "a.for", acc = {{"for", init = "0.f", element = "$1", combine = "a.for + b.for", ref = function(x, v) return x + v end}}}
nn.output("y", nn.input("x", {3, 5}):total(2))
