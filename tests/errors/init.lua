local nn = require "nn"
local case = nn.config{case = "param"}.case
if case == "param" then nn.param("p", {4}, {"normal", 0, math.huge}) end
if case == "nan" then nn.param("p", {4}, {"normal", 0, 0 / 0}) end
if case == "wide" then nn.buffer("b", {4}, -1e39) end
if case == "state" then nn.state("s", {4}, {init = {"uniform", -math.huge, 1}}) end
if case == "layer" then nn.input("x", {4, 4}):prelu("a", {init = 1e39}) end
if case == "half" then nn.state("n", {4}, {dtype = "i32", init = 1.5}) end
if case == "random" then nn.state("n", {4}, {dtype = "i32", init = {"normal", 0, 1}}) end
if case == "far" then nn.state("n", {4}, {dtype = "i32", init = 2147483648}) end
if case == "byte" then nn.state("n", {4}, {dtype = "u8", init = -1}) end
if case == "truth" then nn.state("n", {4}, {dtype = "bool", init = 2}) end
if case == "below" then nn.state("n", {4}, {dtype = "i32", below = 9, init = 9}) end
if case == "endless" then nn.state("n", {4}, {dtype = "i32", init = -math.huge}) end
if case == "chance" then nn.random({4}, {kind = "bernoulli", p = 1.5}) end
if case == "median" then nn.output("y", (nn.input("x", {4, 0}):median(2))) end
if case == "entry" then nn.entry("e", function() end) end
