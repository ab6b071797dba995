-- skips.lua: a small U-Net, trained to give back its pictures. What each level makes on the way down
-- waits for the way up.
local nn = require "nn"
local cfg = nn.config{batch = 16, size = 64, width = 16, levels = 3}

local function twice(x, name, out)
  for i = 1, 2 do x = x:conv2d(name .. i, {out = out, kernel = 3, pad = 1}):relu() end
  return x
end
local function level(x, depth)
  local width = cfg.width << depth
  local down = twice(x, "down" .. depth, width)
  if depth == cfg.levels then return down end
  local below = level(down:max_pool2d(2), depth + 1)
  local up = below:conv_transpose2d("rise" .. depth, {out = width, kernel = 2, stride = 2})
  return twice(nn.concat({down, up}, 2), "up" .. depth, width)
end

nn.train(cfg.batch, function()
  local x = nn.images{cfg.batch, 3, cfg.size, cfg.size, classes = 10}
  local y = level(x, 0):conv2d("head", {out = 3, kernel = 1})
  return {loss = ((y - x) * (y - x)):mean()}
end, {optimizer = "adam", lr = 1e-3})
