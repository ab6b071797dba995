local nn = require "nn"
nn.op_row{name = "evil", cuda = "(__builtin_abort(), $1)", ref = function(x) return x end}
