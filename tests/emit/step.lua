-- step.lua: a small residual network with batch norm folded, and a step of training of its head
-- with momentum.
local nn = require "nn"
local cfg = nn.config{batch = 2}

local x = nn.input("image", {cfg.batch, 3, 8, 8})
x = x:conv2d("stem", {out = 8, kernel = 3, pad = 1, bias = false}):batch_norm2d("bn"):relu()
for _, name in ipairs{"a", "b"} do -- two layers of one shape share a kernel
  x = nn.scope(name, function(y)
    return (y + y:conv2d("conv", {out = 8, kernel = 3, pad = 1})):relu()
  end, x)
end
local features = x:global_avg_pool():flatten()
local y = features:linear("head", {out = 4})
nn.output("y", y)

nn.entry("train", function()
  local all = nn.parameters()
  local head = {all[#all - 1], all[#all]}
  local loss = ((y - 1) * (y - 1)):mean()
  for i, gradient in ipairs(nn.grad(loss, head)) do
    local speed = nn.state("momentum" .. i, head[i].shape)
    local now = speed * 0.9 + gradient
    nn.update(speed, now)
    nn.update(head[i], head[i] - now * 0.1)
  end
  nn.output("loss", loss)
end)
