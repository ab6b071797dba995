-- recompute.lua: a chain of convolutions, norms and residual sums, whose step keeps much for the
-- backward pass; --set drop=0.2: elements are left out at random, the same ones where a value is
-- computed again.
local nn = require "nn"
local cfg = nn.config{batch = 4, size = 16, width = 8, blocks = 4, drop = 0.0}

local function network(x, training)
  x = x:conv2d("stem", {out = cfg.width, kernel = 3, pad = 1}):relu()
  for i = 1, cfg.blocks do
    local y = x:conv2d("conv" .. i, {out = cfg.width, kernel = 3, pad = 1, bias = false})
    y = y:batch_norm2d("bn" .. i, {training = training}):gelu()
    if training and cfg.drop > 0 then
      y = y * nn.random(y.shape, {seed = i, kind = "bernoulli", p = 1 - cfg.drop})
    end
    x = y + x
  end
  return x:global_avg_pool():flatten():linear("fc", {out = 4})
end

nn.output("y", network(nn.input("x", {cfg.batch, 3, cfg.size, cfg.size}), false))
nn.train(cfg.batch, function()
  local x = nn.input("x", {cfg.batch, 3, cfg.size, cfg.size})
  return {loss = (network(x, true) ^ 2):mean()}
end, {optimizer = "sgd", lr = 0.01})
