local nn = require "nn"
local f = nn.shared("f", function(t)
  local s = nn.state("s", {4})
  nn.update(s, s + t)
  nn.update(s, s * 2)
  return s
end)
nn.output("y", f(nn.input("x", {4})))
