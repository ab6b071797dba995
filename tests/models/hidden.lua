-- Keys and values that no query sees are not finite: attention, and its derivatives, in one kernel
-- skip them. seen = true: one that a query sees, whose NaN spreads. wrong = true: a kernel drops it.
local nn = require "nn"
local cfg = nn.config{seen = false, wrong = false, grad = false, mask = "lengths"}
local q = nn.input("q", {2, 2, 65, 16})
local function odd(name, number)
  local x = nn.input(name, {2, 2, 90, 16})
  return nn.where(nn.ge(nn.index(x.shape, 3), cfg.seen and 30 or 40), number, x) * 1
end
local k, v = odd("k", 0 / 0), odd("v", 1 / 0)
if cfg.seen then k = nn.input("k2", {2, 2, 90, 16}) end
local o = {}
if cfg.mask == "lengths" then o.lengths = nn.tensor{31, 40} end
if cfg.mask == "added" then
  o.bias = nn.where(nn.lt(nn.index({65, 90}, 2), 40), 0.0, -math.huge)
end
local y = q:attention(k, v, o)
if cfg.wrong then
  y = nn.op_row{name = "dropped", cuda = "($1 == $1 ? $1 : 0.f)", ref = function(x) return x end}(y)
end
nn.output("y", y)
if cfg.grad then
  local g = nn.grad((y * nn.input("dy", y.shape)):sum(), {q, k, v})
  for i, name in ipairs{"dq", "dk", "dv"} do nn.output(name, g[i]) end
end
