local nn = require "nn"
local x = nn.input("image", {1, 3, 8, 8})
nn.output("y", x:linear("fc", {out = "10"}))
