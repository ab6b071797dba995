-- A transformer block: heads of attention from one product, then two layers with GELU between them.
local nn = require "nn"
local cfg = nn.config{batch = 2, time = 10, channels = 32, heads = 2}

local size = cfg.channels // cfg.heads
local x = nn.input("x", {cfg.batch, cfg.time, cfg.channels})

local function attention(x)
  local qkv = x:linear("qkv", {out = 3 * cfg.channels})
  qkv = qkv:reshape{cfg.batch, cfg.time, 3, cfg.heads, size}:permute{3, 1, 4, 2, 5}
  local part = {}
  for i = 1, 3 do
    part[i] = nn.slice(qkv, 1, i, i):reshape{cfg.batch, cfg.heads, cfg.time, size}
  end
  local scores = (part[1]:matmul(part[2]:transpose()) * (1 / math.sqrt(size))):softmax()
  local y = scores:matmul(part[3]):permute{1, 3, 2, 4}:reshape{cfg.batch, cfg.time, cfg.channels}
  return y:linear("out", {out = cfg.channels})
end

x = x + attention(x:layer_norm("norm1"))
local hidden = x:layer_norm("norm2"):linear("up", {out = 4 * cfg.channels}):gelu()
nn.output("y", x + hidden:linear("down", {out = cfg.channels}))
