local nn = require "nn"
local x = nn.input("x", {1, 140000, 1, 1})
nn.output("y", x:conv2d("c", {out = 70000, kernel = 1, groups = 70000}))
