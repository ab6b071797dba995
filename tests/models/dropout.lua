-- dropout.lua: ten layers whose elements are left out at random; layer=norm: convolutions and batch
-- norms, conv: convolutions alone, linear: products and tanh.
local nn = require "nn"
local cfg = nn.config{batch = 4, drop = 0.2, layer = "norm"}

local function network(x)
  if cfg.layer == "linear" then x = x:flatten() end
  for i = 1, 10 do
    if cfg.layer == "linear" then
      x = x:linear("layer" .. i, {out = 64}):tanh()
    else
      x = x:conv2d("layer" .. i, {out = 8, kernel = 3, pad = 1, bias = false})
      x = cfg.layer == "norm" and x:batch_norm2d("norm" .. i):relu() or x:relu()
    end
    x = x:dropout(cfg.drop)
  end
  return (cfg.layer == "linear" and x or x:global_avg_pool():flatten()):linear("fc", {out = 4})
end

nn.output("y", network(nn.input("image", {cfg.batch, 3, 8, 8})))
nn.train(cfg.batch, function()
  local x, labels = nn.images{cfg.batch, 3, 8, 8, classes = 4, flip = true, crop = 1}
  local y = network(x)
  return {loss = y:cross_entropy(labels, {reduction = "none"}), accuracy = y:accuracy(labels)}
end, {optimizer = "sgd", lr = 0.002})
