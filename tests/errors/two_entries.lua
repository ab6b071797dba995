local nn = require "nn"
local x, y, both = nn.input("x", {4}), nn.input("y", {4}), nn.input("both", {4})
nn.output("sum", x + both)
nn.entry("step", function() nn.output("product", y * both) end)
nn.entry("other", function() nn.output("copy", x) end)
