local nn = require "nn"
local case = nn.config{case = "loss"}.case
local x, i = nn.input("x", {2, 3, 4, 4}), nn.input("i", {3}, {dtype = "i32", below = 3})
if case == "loss" then nn.output("y", nn.grad(x * 2, x)) end
if case == "none" then nn.output("y", nn.grad(x:sum(), {})) end
if case == "integer" then nn.output("y", nn.grad(x:sum(), i)) end
if case == "window" then nn.output("y", nn.grad(x:max_pool2d{kernel = 3, stride = 1}:sum(), x)) end
if case == "tensor" then nn.output("y", nn.grad(3, x)) end
