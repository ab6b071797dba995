local nn = require "nn"
local case = nn.config{case = "param"}.case
if case == "param" then nn.param("p", {4}, math.huge) end
if case == "nan" then nn.param("p", {4}, {"normal", 0, 0 / 0}) end
if case == "wide" then nn.buffer("b", {4}, -1e39) end
if case == "state" then nn.state("s", {4}, {init = {"uniform", -math.huge, 1}}) end
if case == "layer" then nn.input("x", {4, 4}):prelu("a", {init = math.huge}) end
