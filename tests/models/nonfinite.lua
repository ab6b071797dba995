-- Infinities and NaN among the inputs of contractions: they spread to the sums that read them, no
-- further. And numbers beyond what floats hold, which are infinite.
local nn = require "nn"
local x = nn.input("x", {2, 16, 9, 11})
local huge = nn.where(nn.gt(x, 2.2), 1 / 0, x)
local odd = nn.where(nn.lt(x, -2.4), 0 / 0, huge) * 1
local y = odd:conv2d("conv", {out = 24, kernel = 3, pad = 1})
nn.output("conv", y)
nn.output("relu", nn.relu(y))
nn.output("grouped", odd:conv2d("grouped", {out = 16, kernel = 3, groups = 16}))
local a = nn.input("a", {20, 96})
a = nn.where(nn.gt(a, 2.5), -1 / 0, a) * 1
nn.output("matmul", a:linear("fc", {out = 40}))
nn.output("turned", nn.matmul(nn.transpose(a), nn.input("b", {20, 64})))
nn.output("beyond", nn.exp(nn.input("c", {40}) * 90) - 3)
