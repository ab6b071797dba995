-- norm_grads.lua: a step whose norm is read by maps that are cheap to compute again: the sums over
-- rows that its derivatives are compute them of what is normalised, and share one kernel.
local nn = require "nn"
local c = nn.config{rows = 8192, columns = 1024, form = "layer"}
local norms = {layer = nn.layer_norm, rms = nn.rms_norm, log_softmax = nn.log_softmax}
local function loss(x)
  local h = x:linear("fc", {out = c.columns})
  local y = c.form == "log_softmax" and h:log_softmax() or norms[c.form](h, "norm")
  return (y * y * y):sum{2}
end

nn.output("y", loss(nn.input("x", {c.rows, 64})))
nn.train(c.rows, function()
  return {loss = loss(nn.random({c.rows, 64}, {kind = "normal", step = nn.training_step()}))}
end, {lr = 1e-3})
