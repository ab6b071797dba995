-- Sorting along an axis of length `length`, with `outer` rows before it and `inner` elements behind
-- it in memory. --set case=NAME
local nn = require "nn"
local cfg = nn.config{case = "plain", outer = 3, length = 100, inner = 5, run = 100, merges = 2}
local dims = {cfg.outer, cfg.length, cfg.inner}
local cases = {}

local function both(values, places)
  nn.output("values", values)
  nn.output("places", places)
end
function cases.plain() -- with x, to compare the files
  local x = nn.input("x", dims)
  nn.output("x_out", x * 1)
  both(x:sort(2, true))
end
function cases.every() -- along every axis, in both orders
  local x = nn.input("x", dims)
  for axis = 1, 3 do
    for _, descending in ipairs{false, true} do
      local values, places = x:sort(axis, descending)
      nn.output(("values_%d_%s"):format(axis, descending), values)
      nn.output(("places_%d_%s"):format(axis, descending), places)
    end
  end
end
function cases.special() -- ties, NaN, infinities, zeros of both signs
  local x = nn.floor(nn.input("x", dims) * 2)
  local row, at = nn.index(dims, 1), nn.index(dims, 2)
  local bad = nn.where(row:eq(1):logical_and((at % 7):eq(3)), 0 / 0, x)
  bad = nn.where(row:eq(2), nn.where((at % 3):eq(0), -1 / 0, 1 / 0), bad)
  bad = nn.where(row:eq(0), nn.where((at % 2):eq(0), x * 0, x * -0.0), bad)
  both(bad:sort(2))
end
function cases.integers()
  local x = nn.input("x", dims, {dtype = "i32", below = 90}) * -23456789
  local u = nn.input("u", dims, {dtype = "u8", below = 256})
  both(x:sort(2))
  nn.output("bytes", (u:sort(2, true)))
end
function cases.maps() -- a map before, maps after
  local x = nn.input("x", dims)
  local values, places = nn.tanh(x + nn.param("bias", {cfg.inner})):sort(2)
  nn.output("weight", nn.exp(values) * 0.5)
  nn.output("rank", places + 1000)
end
function cases.part() -- only the first elements are read
  local x = nn.input("x", dims)
  both(x:topk(cfg.length // 2, 2))
end
function cases.runs() -- runs of any length, and one or two merges
  local x = nn.input("x", dims)
  local attrs = {axis = 1, count = cfg.run, smallest = 1}
  local runs = nn.op.sort_runs(x, attrs)
  local pairs_of = nn.op.sort_merge(x, runs, attrs)
  nn.output("runs", runs)
  nn.output("pairs", pairs_of)
  if cfg.merges == 1 then return end
  nn.output("fours", nn.op.sort_merge(x, pairs_of, {axis = 1, count = 2 * cfg.run, smallest = 1}))
end
function cases.gradient()
  local x = nn.input("x", dims)
  local y = x:sort(2) * nn.input("w", dims)
  nn.output("dx", nn.grad(y:sum(), x))
end
cases[cfg.case]()
