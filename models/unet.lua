-- unet.lua: U-Net (Ronneberger et al. 2015): an encoder to a small image of many channels, and a
-- decoder, each level of which also reads the encoder's output at its size. Logits of a class for
-- each pixel.
local nn = require "nn"
local cfg = nn.config{batch = 1, size = 128, channels = 3, classes = 2, width = 32, levels = 4}
assert(cfg.size % (1 << cfg.levels) == 0, "size is a multiple of 2^levels")

local function twice(x, out)
  for i = 1, 2 do
    x = x:conv2d("conv" .. i, {out = out, kernel = 3, pad = 1, bias = false})
         :batch_norm2d("bn" .. i):relu()
  end
  return x
end

-- Level 0 has the image's size. Two convolutions on the way down, the levels below, two on the way
-- up.
local function level(x, depth)
  local width = cfg.width << depth
  local down = nn.scope("down" .. depth, twice, x, width)
  if depth == cfg.levels then return down end
  local below = level(down:max_pool2d(2), depth + 1)
  local up = below:conv_transpose2d("rise" .. depth, {out = width, kernel = 2, stride = 2})
  return nn.scope("up" .. depth, twice, nn.concat{down, up}, width)
end

local x = nn.input("image", {cfg.batch, cfg.channels, cfg.size, cfg.size})
nn.output("logits", level(x, 0):conv2d("head", {out = cfg.classes, kernel = 1}))
