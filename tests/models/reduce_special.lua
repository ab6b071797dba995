-- What reductions make of NaN, infinities, ties and large means; --set columns=N: along rows of any
-- length, across them, and over all.
local nn = require "nn"
local cfg = nn.config{rows = 5, columns = 300}
local dims = {cfg.rows, cfg.columns}
local x = nn.input("x", dims)
local row, column = nn.index(dims, 1), nn.index(dims, 2)
-- Row 1 has NaN at two places, row 2 nothing but -inf, row 3 a tie, row 4 both infinities.
local bad = nn.where(row:eq(1):logical_and((column % 7):eq(3)), 0 / 0, x)
bad = nn.where(row:eq(2), -1 / 0, bad)
bad = nn.where(row:eq(3), nn.floor(x), bad)
bad = nn.where(row:eq(4):logical_and(column:eq(2)), 1 / 0, bad)
bad = nn.where(row:eq(4):logical_and(column:eq(4)), -1 / 0, bad)
for at, axes in ipairs{{2}, {1}, {1, 2}} do
  for _, name in ipairs{"argmax", "argmin", "amax", "amin", "sum", "logsumexp", "any", "all"} do
    nn.output(string.format("%s_%d", name, at), nn[name](bad, axes))
  end
  local far = nn.floor(x * 512) * (1 / 512) + 10000 -- mean 1e4, deviation 1; fp32 holds it exactly
  nn.output("var_" .. at, nn.var(far, axes))
  -- An infinity at the end: no variance.
  local ends = nn.where(column:eq(cfg.columns - 1):logical_and(row:eq(1)), 1 / 0, x)
  nn.output("ends_" .. at, nn.var(ends, axes))
  nn.output("mean_" .. at, nn.op.reduce_mean(far, {axes = at == 3 and 3 or at == 1 and 2 or 1}))
end
