-- Its output depends on a parameter alone: nothing is left to launch in a run.
local nn = require "nn"
nn.output("y", nn.param("w", {4}) * 2)
