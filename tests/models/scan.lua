-- Scans along an axis of length `length`, with `outer` rows before it and `inner` elements behind
-- it in memory; with maps over the same elements before and after. --set case=NAME
local nn = require "nn"
local cfg = nn.config{case = "plain", outer = 3, length = 100, inner = 5}
local dims = {cfg.outer, cfg.length, cfg.inner}
local cases = {}

function cases.plain() -- x beside its sums, for a loop over the files to compare
  local x = nn.input("x", dims)
  nn.output("x_out", x * 1)
  nn.output("y", x:cumsum(2))
end
function cases.every() -- every scan, along every axis
  local x = nn.input("x", dims)
  for axis = 1, 3 do
    nn.output("sum_" .. axis, nn.sigmoid(x):cumsum(axis)) -- of one sign: nothing cancels
    nn.output("product_" .. axis, (x * 0.01 + 1):cumprod(axis))
    nn.output("lse_" .. axis, (x * 30):logcumsumexp(axis))
  end
end
function cases.maps() -- one kernel: a map before, maps behind, of which one reads x again
  local x, scale = nn.input("x", dims), nn.param("scale", {cfg.inner}, {"uniform", 0.5, 1.5})
  local y = (nn.sigmoid(x) * scale):cumsum(2)
  nn.output("y", nn.sqrt(y + 1) * 0.5 - x)
end
function cases.integers() -- exact: what is known in closed form
  local i = nn.index(dims, 2)
  local bits = nn.input("bits", dims, {dtype = "bool"})
  local bytes = nn.input("bytes", dims, {dtype = "u8", below = 256})
  local eights, rest = i // 8, i % 8
  nn.output("zero", rest:cumsum(2) - (eights * 28 + rest * (rest + 1) // 2))
  nn.output("ones", nn.eq(i, i):cumsum(2) - i)
  nn.output("count", bits:cumsum(2))
  nn.output("bytes_sum", bytes:cumsum(2) * 2)
  nn.output("sign", (bytes:to("i32") % 2 * 2 - 1):cumprod(2))
end
function cases.nonfinite() -- a NaN spoils what follows in its own row, nothing else
  local x = nn.input("x", dims)
  local row, at = nn.index(dims, 1), nn.index(dims, 2)
  local bad = nn.where(row:eq(1):logical_and(at:eq(37)), 0 / 0, x)
  bad = nn.where(row:eq(2):logical_and(at:eq(5)), -1 / 0, bad)
  nn.output("y", bad:cumsum(2))
  nn.output("lse", bad:logcumsumexp(2))
end
function cases.softly() -- what a sampler does with a vocabulary
  local p = nn.input("x", {cfg.outer, cfg.length}):softmax()
  nn.output("kept", p * nn.le(p:cumsum() - p, 0.9))
end
cases[cfg.case]()
