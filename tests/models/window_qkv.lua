-- window_qkv.lua: queries, keys and values of the windows of a picture, as of a Swin transformer.
local nn = require "nn"
local c = nn.config{batch = 32, size = 56, window = 7, width = 96, heads = 3,
                    shift = 0} -- in elements, of windows
local along, W, C = c.size // c.window, c.window, c.width
local x = nn.state("x", {c.batch, c.size, c.size, C}, {dtype = "auto"})
if c.shift > 0 then x = x:roll({-c.shift, -c.shift}, {2, 3}) end
x = x:reshape(c.batch, along, W, along, W, C):permute(1, 2, 4, 3, 5, 6):reshape(-1, W * W, C)
local y = x:linear("qkv", {out = 3 * C}):reshape(-1, W * W, 3, c.heads, C // c.heads)
nn.update(nn.state("y", {3, x.shape[1], c.heads, W * W, C // c.heads}, {dtype = "auto"}),
          y:permute(3, 1, 4, 2, 5))
