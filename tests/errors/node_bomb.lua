local nn = require "nn"
local x = nn.input("x", {4})
while true do x = x + 1 end
