local nn = require "nn"
local x = nn.input("x", {2})
if x != 1 then nn.output("y", x) end
