-- packed.lua: attention, or what stands for it, of q, k and v that are parts of one projection, and
-- its gradients; each packing, norm and form by name.
local nn = require "nn"
local c = nn.config{pack = "heads", norm = "rms", form = "softmax"}
local x = nn.input("x", {2, 16, 16})
local function qkv(t) return t:linear("qkv", {out = 48}) end
local function by_heads(t) return t:reshape(2, 16, 2, 8):transpose(2, 3) end
local function by_channels(t) return t:reshape(2, 2, 8, 16) end
local packs = { -- (batch, heads, tokens, width), channels: (batch, heads, width, tokens)
  heads = function() return qkv(x):reshape(2, 16, 3, 2, 8):permute(3, 1, 4, 2, 5):unbind(1) end,
  channels = function() return qkv(x):reshape(2, 16, 3, 2, 8):permute(3, 1, 4, 5, 2):unbind(1) end,
  inner = function() return qkv(x):reshape(2, 16, 2, 3, 8):permute(4, 1, 3, 2, 5):unbind(1) end,
  chunks = function()
    local q, k, v = qkv(x):chunk(3, -1)
    return by_heads(q), by_heads(k), by_heads(v)
  end,
  turned = function()
    local q, k, v = qkv(x:transpose()):transpose():chunk(3, 2)
    return by_channels(q), by_channels(k), by_channels(v)
  end,
}
local norms = {
  none = function(q, k) return q, k end,
  l2 = function(q, k) return nn.normalize(q, 2, -1), nn.normalize(k, 2, -1) end,
  rms = function(q, k) return q:rms_norm("qn"), k:rms_norm("kn") end,
  one = function(q, k) return q, k:rms_norm("kn") end,
  softmax = function(q, k) return q:softmax(-1), k:softmax(-2) end,
  elu = function(q, k) return q:elu() + 1, k:elu() + 1 end,
  layer = function(q, k) return q:layer_norm("qn"), k:layer_norm("kn") end,
}
local forms = {
  softmax = function(q, k, v) return q:matmul(k:transpose()):softmax(-1):matmul(v) end,
  linear = function(q, k, v) return q:matmul(k:transpose():matmul(v)) end,
  raw = function(q, k, v) return q:matmul(k:transpose()):matmul(v) end,
  sigmoid = function(q, k, v) return q:matmul(k:transpose()):sigmoid():matmul(v) end,
}
local q, k, v = packs[c.pack]()
q, k = norms[c.norm](q, k)
local y = forms[c.form](q, k, v)
y = (y.shape[3] == 16 and y:transpose(2, 3) or y:permute(1, 4, 2, 3)):reshape(2, 16, 16)
y = y:linear("out", {out = 16})
local of = nn.parameters()
of[#of + 1] = x
for i, g in ipairs(nn.grad((y * nn.input("r", y.shape)):sum(), of)) do nn.output("g" .. i, g) end
