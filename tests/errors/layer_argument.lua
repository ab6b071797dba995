local nn = require "nn"
local x = nn.input("x", {1, 3, 8, 8})
nn.output("y", x:conv2d("c", {out = {}, kernel = 3}))
