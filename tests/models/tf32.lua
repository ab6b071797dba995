-- Products that warp groups compute in TF32: layers of a perceptron, whose operands are stored by
-- kernels before; halves that are joined in place; a layer's output that is kept beside the next
-- one's; a product of two values that are computed here.
local nn = require "nn"
local cfg = nn.config{case = "layers", rows = 2048, width = 256, depth = 4}
local x = nn.input("x", {cfg.rows, cfg.width})

local function layer(x, i)
  return x:linear("layer" .. i, {out = cfg.width}):relu()
end

local cases = {
  layers = function()
    for i = 1, cfg.depth do x = layer(x, i) end
    return x
  end,
  joined = function()
    x = layer(x, 1)
    return layer(nn.concat({layer(x, 2), layer(x, 3)}, 2), 4)
  end,
  kept = function()
    local first = layer(x, 1)
    return nn.concat({first, layer(first, 2)}, 2)
  end,
  given = function() return x:matmul(nn.input("w", {cfg.width, cfg.width}):transpose(1, 2)) end,
}
nn.output("y", cases[cfg.case]())
