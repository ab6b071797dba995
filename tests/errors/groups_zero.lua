local nn = require "nn"
local x = nn.input("image", {1, 3, 8, 8})
nn.output("y", x:conv2d("c", {out = 4, kernel = 3, groups = 0}))
