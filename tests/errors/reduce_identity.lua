local nn = require "nn"
nn.op_row{name = "largest", class = "reduce", result = "a.most",
  ref_result = function(most) return most end, acc = {name = "largest",
    {"most", init = "kLowest", element = "$1", combine = "nn_max(a.most, b.most)",
     ref = function(most, value) return math.max(most, value) end}}}
nn.output("y", nn.largest(nn.input("x", {4, 6}), {2}))
