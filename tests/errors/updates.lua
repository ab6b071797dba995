local nn = require "nn"
local case = nn.config{case = ""}.case
local x, s = nn.input("x", {4}), nn.state("s", {4})
if case == "input" then nn.update(x, x + 1) end
if case == "shape" then nn.update(s, nn.input("z", {5})) end
if case == "dtype" then nn.update(s, nn.gt(x, 0)) end
if case == "value" then nn.update(s, 1) end
if case == "view" then nn.update(s:reshape{2, 2}, nn.input("z", {2, 2})) end
if case == "name" then nn.update("s", x) end
if case == "init" then nn.entry("init", function() end) end
if case == "twice" then
  nn.update(s, x)
  nn.update(s, x * 2)
end
if case == "another" then
  nn.output("y", x * nn.param("w", {4}))
  nn.entry("step", function() nn.output("z", x:matmul(nn.param("w", {4, 1}))) end)
end
