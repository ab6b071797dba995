-- Many residual blocks: how long the compiler takes, and whether it stays linear.
local nn = require "nn"
local cfg = nn.config{blocks = 1000}

local function block(x)
  local y = x:conv2d("conv1", {out = 16, kernel = 3, pad = 1, bias = false})
             :batch_norm2d("bn1"):relu()
  y = y:conv2d("conv2", {out = 16, kernel = 3, pad = 1, bias = false}):batch_norm2d("bn2")
  return (x + y):relu()
end

local x = nn.input("image", {1, 16, 8, 8})
for i = 1, cfg.blocks do x = nn.scope("block" .. i, block, x) end
nn.output("y", x)
