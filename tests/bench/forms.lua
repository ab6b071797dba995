-- One matrix product whose operands lie transposed in memory (ta, tb: 1) or not; softmax: so that
-- they are stored.
local nn = require "nn"
local cfg = nn.config{m = 48, n = 32, k = 64, ta = 0, tb = 0}

local function operand(name, rows, columns, turned)
  if turned == 1 then return nn.input(name, {columns, rows}):softmax():transpose() end
  return nn.input(name, {rows, columns})
end

nn.output("y", operand("a", cfg.m, cfg.k, cfg.ta):matmul(operand("b", cfg.k, cfg.n, cfg.tb)))
