-- Rows near the most that a block keeps in registers, with one to four values of each element
-- needed in several sweeps: what finds no room is read again. --set columns=N rows=N only=NAME
local nn = require "nn"
local cfg = nn.config{rows = 2, columns = 32000, only = ""}
local dims = {cfg.rows, cfg.columns}
local cases = {}
local function input(name) return nn.input(name, dims) end

function cases.residual() -- a layer norm, and what it is made of again behind it
  local x, r = input("x", dims), input("r", dims)
  local h = x + r
  local centred = h - h:mean(2, true)
  local y = centred * nn.rsqrt((centred * centred):mean(2, true) + 1e-5)
  nn.output("norm", y * nn.param("gain", {cfg.columns}) + nn.param("offset", {cfg.columns}) + r)
  nn.output("sum", h)
end
function cases.softmax()
  local x = input("s")
  nn.output("soft", nn.exp(x - x:amax(2, true)) / nn.exp(x - x:amax(2, true)):sum(2, true))
end
function cases.many() -- three sweeps, four values
  local a, b, c = input("a"), input("b"), input("c")
  local p = nn.tanh(a * b) + c
  local q = p - p:amax(2, true)
  local s = nn.exp(q) * c
  nn.output("mixed", s / s:abs():sum(2, true) * a + b - c * p)
end
function cases.places() -- states of several words
  local x = input("t")
  local y = nn.abs(x) - nn.var(x, 2, true)
  nn.output("best", y:argmax(2))
  nn.output("rest", y / (y:amax(2, true) + 1) * x)
end
for _, name in ipairs{"residual", "softmax", "many", "places"} do
  if cfg.only == "" or cfg.only == name then cases[name]() end
end
