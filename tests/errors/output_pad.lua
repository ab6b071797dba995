local nn = require "nn"
local x = nn.input("x", {1, 4, 5, 5})
nn.output("y", x:conv_transpose2d("up", {out = 4, kernel = 3, stride = 2, output_pad = 2}))
