local nn = require "nn"
nn.op_row{name = "evil", cuda = "$1; asm(0)", ref = function(x) return x end}
