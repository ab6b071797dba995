local nn = require "nn"
local s = nn.state("s", {4})
nn.update(s, s + 1)
