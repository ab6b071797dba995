-- shared.lua: a function whose calls have the layers of the first (nn.shared). Its states go on from
-- call to call: `calls` is how many there were between, `off` says whether the running mean, moved
-- by a tenth at each call, is elsewhere.
local nn = require "nn"
local x, y = nn.input("x", {6, 4}), nn.input("y", {6, 4})
local inner = nn.shared("inner", function(t) return t:linear("fc", {out = 4}) end)
local f = nn.shared("f", function(t)
  local calls = nn.state("calls", {1}, {dtype = "i32"})
  nn.update(calls, calls + 1)
  local made = inner(inner(t):relu())
  return made:batch_norm1d("bn", {training = true}), made, calls
end)
local a, made_a, before = f(x)
local b, made_b = f(y)
local _, made_c, last = f(x)
nn.output("difference", made_a - made_c)
nn.output("calls", last - before)
local mean = 0
for _, made in ipairs{made_a, made_b, made_c} do mean = mean * 0.9 + made:mean(1) * 0.1 end
local moved = nn.shared("f", function() return nn.buffer("bn.running_mean", {4}) end)()
nn.output("off", (mean - moved):abs():amax():gt(1e-5))
local loss = (b * b * y):sum() + (a * y):sum()
for i, g in ipairs(nn.grad(loss, nn.parameters())) do nn.output("g" .. i, g) end
