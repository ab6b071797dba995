local nn = require "nn"
nn.op_row{name = "cube", cuda = "$1 * $1 * $1"}
