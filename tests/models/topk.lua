-- The k largest elements along an axis of length `length`, with `outer` rows before it and `inner`
-- elements behind it in memory. --set case=NAME
local nn = require "nn"
local cfg = nn.config{case = "plain", k = 5, outer = 3, length = 100, inner = 5}
local dims = {cfg.outer, cfg.length, cfg.inner}
local cases = {}

function cases.plain() -- x beside what is found, for a loop over the files to compare
  local x = nn.input("x", dims)
  nn.output("x_out", x * 1)
  local values, places = x:topk(cfg.k, 2)
  nn.output("values", values)
  nn.output("places", places)
end
function cases.every() -- along every axis
  local x = nn.input("x", dims)
  for axis = 1, 3 do
    local values, places = x:topk(math.min(cfg.k, dims[axis]), axis)
    nn.output("values_" .. axis, values)
    nn.output("places_" .. axis, places)
  end
end
function cases.special() -- ties, NaN, infinities, zeros of both signs
  local x = nn.floor(nn.input("x", dims) * 2)
  local row, at = nn.index(dims, 1), nn.index(dims, 2)
  local bad = nn.where(row:eq(1):logical_and((at % 7):eq(3)), 0 / 0, x)
  bad = nn.where(row:eq(2), nn.where((at % 3):eq(0), -1 / 0, 1 / 0), bad)
  bad = nn.where(row:eq(0), nn.where((at % 2):eq(0), x * 0, x * -0.0), bad)
  local values, places = bad:topk(cfg.k, 2)
  nn.output("values", values)
  nn.output("places", places)
end
function cases.rising() -- each element is larger than all before it
  local x = nn.index(dims, 2) * 0.5
  local values, places = x:topk(cfg.k, 2)
  nn.output("values", values)
  nn.output("places", places)
end
function cases.integers()
  local x = nn.input("x", dims, {dtype = "i32", below = 90}) * -23456789
  local u = nn.input("u", dims, {dtype = "u8", below = 256})
  local values, places = x:topk(cfg.k, 2)
  nn.output("values", values)
  nn.output("places", places)
  local bytes = u:topk(cfg.k, 2)
  nn.output("bytes", bytes)
end
function cases.maps() -- one kernel: a map before, maps behind
  local x = nn.input("x", dims)
  local values, places = nn.tanh(x + nn.param("bias", {cfg.inner})):topk(cfg.k, 2)
  nn.output("weight", nn.exp(values) * 0.5)
  nn.output("expert", places + 1000)
end
cases[cfg.case]()
