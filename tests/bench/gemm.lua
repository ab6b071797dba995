-- One matrix product, to be measured: m, n, k and a batch. `weights`: b is a linear layer's.
local nn = require "nn"
local cfg = nn.config{m = 64, n = 64, k = 64, batch = 1, weights = 1}

if cfg.weights == 1 then
  nn.output("y", nn.input("x", {cfg.m, cfg.k}):linear("w", {out = cfg.n, bias = false}))
else
  nn.output("y", nn.input("a", {cfg.batch, cfg.m, cfg.k})
                 :matmul(nn.input("b", {cfg.batch, cfg.k, cfg.n})))
end
