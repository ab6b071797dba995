local nn = require "nn"
nn.op_row{name = "evil", class = "reduce", result = "a.x", acc = {{"x", init = "0.f", element = "$1", combine = "a.x + b.x", run = {"x", add = "a.x + $1; asm(0)"}, ref = function(x, v) return x + v end}}}
nn.output("y", nn.input("x", {8, 100}):evil(2))
