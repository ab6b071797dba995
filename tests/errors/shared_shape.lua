local nn = require "nn"
local x = nn.input("x", {2, 4})
local f = nn.shared("f", function(t) return t:linear("fc", {out = 4}) end)
nn.output("y", f(f(x):slice(2, 1, 3)))
