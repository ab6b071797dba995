local nn = require "nn"
local x = nn.input("x", {4})
local f = nn.shared("f", function(t) return t:linear("fc", {out = 4}) end)
local g = nn.shared("f", function(t) return t:linear("fc", {out = 4}):relu() end)
nn.output("y", f(x) + g(x))
