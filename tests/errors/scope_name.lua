local nn = require "nn"
nn.scope("a b;", function() return nn.input("x", {4}):relu() end)
