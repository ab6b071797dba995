local nn = require "nn"
local x = nn.input("image", {1, 3, 8, 8})
local y = x:conv2d("c", {out = 4, kernel = 1})
nn.output("y", y:conv2d("c", {out = 4, kernel = 1}))
