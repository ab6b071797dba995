-- One matrix product, to be measured: m, n, k and a batch. `weights`: b is a linear layer's. Operands
-- and result are of the type that --dtype names: the result is a state, as outputs are fp32.
local nn = require "nn"
local cfg = nn.config{m = 64, n = 64, k = 64, batch = 1, weights = 1}

local function stored(name, dims) return nn.state(name, dims, {dtype = "auto"}) end
if cfg.weights == 1 then
  nn.update(stored("y", {cfg.m, cfg.n}),
            stored("x", {cfg.m, cfg.k}):linear("w", {out = cfg.n, bias = false}))
else
  nn.update(stored("y", {cfg.batch, cfg.m, cfg.n}),
            stored("a", {cfg.batch, cfg.m, cfg.k}):matmul(stored("b", {cfg.batch, cfg.k, cfg.n})))
end
