local nn = require "nn"
local x = nn.input("image", {1, 3, 8, 8})
nn.output("y", x:conv2d("c", {out = 1.5, kernel = 3}))
