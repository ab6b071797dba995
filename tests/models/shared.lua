-- shared.lua: a function whose calls have the layers of the first (nn.shared), wherever it is called
-- from, and weights as they were before the run. Its states go on from call to call: `calls` is how
-- many there were between, `off` says whether a mean that each call moves by a tenth is elsewhere.
-- `difference`, `ordered` and `same` are 0.
local nn = require "nn"
local x, y = nn.input("x", {6, 4}), nn.input("y", {6, 4})
local inner = nn.shared("inner", function(t) return t:linear("fc", {out = 4}) end)
local running -- the mean that a call finds
local f = nn.shared("f", function(t)
  local calls = nn.state("calls", {1}, {dtype = "i32"})
  nn.update(calls, calls + 1)
  local made = inner(nn.scope("deep", inner, t):relu())
  running = nn.buffer("mean", {4})
  nn.update(running, running * 0.9 + made:mean(1) * 0.1)
  return made:batch_norm1d("bn", {training = true}), made, calls
end)
local a, made_a, before = f(x)
local b, made_b = f(y)
local _, made_c, last = f(x)
f(y)
nn.output("difference", made_a - made_c)
nn.output("calls", last - before)
local mean = 0
for _, made in ipairs{made_a, made_b, made_c} do mean = mean * 0.9 + made:mean(1) * 0.1 end
nn.output("off", (mean - running):abs():amax():gt(1e-5))
local order = nn.shared("order", function(t) -- the second state takes what the first one was
  local now, before = nn.state("now", {6, 4}), nn.state("before", {6, 4})
  nn.update(before, now)
  nn.update(now, t)
  return t + now - before
end)
nn.output("ordered", order(x) + nn.scope("elsewhere", order, y) - x - y - x)
local w = nn.parameters()[1]
nn.update(w, w * 2)
nn.output("same", inner(x) - x:matmul(w:transpose()) - inner(x * 0))
local loss = (b * b * y):sum() + (a * y):sum()
for i, g in ipairs(nn.grad(loss, nn.parameters())) do nn.output("g" .. i, g) end
