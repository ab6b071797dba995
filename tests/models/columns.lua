-- columns.lua: columns of a projection that are split into dimensions and used otherwise than by
-- attention: pairs that meet again, weights in two orders, as many dimensions as there can be.
local nn = require "nn"
local c = nn.config{case = "glu", B = 2, T = 24}
local x = nn.input("x", {c.B, c.T, 32})
local function pairs_of(name) return x:linear(name, {out = 48}):reshape{c.B, c.T, 24, 2} end
local function part(y, i) return nn.slice(y, 4, i, i) end
local cases = {}
function cases.glu() -- gates and values alternate
  local y = pairs_of("a")
  return part(y, 1):silu() * part(y, 2)
end
function cases.turned() -- permuted first
  local y = pairs_of("a"):permute{4, 1, 2, 3}
  return nn.slice(y, 1, 1, 1):silu() * nn.slice(y, 1, 2, 2)
end
function cases.rotary() -- of neighbouring pairs, as in GPT-J
  local y = pairs_of("a")
  local a, b = part(y, 1), part(y, 2)
  return nn.concat({a * 0.8 - b * 0.6, b * 0.8 + a * 0.6}, 4)
end
function cases.shared() -- the weights are read in the model's order, too
  local w = nn.param("w", {48, 32}, {"normal", 0, 0.1})
  nn.output("plain", (x * 2):matmul(w:transpose()))
  return x:matmul(w:transpose()):reshape{c.B, c.T, 24, 2}:permute{4, 1, 2, 3}:tanh()
end
function cases.wide_bias() -- a bias that makes columns of a single one
  local b = nn.param("b", {48}, {"normal", 0, 1})
  return (x:linear("a", {out = 1, bias = false}) + b):reshape{c.B, c.T, 24, 2}:permute{1, 2, 4, 3}
    :tanh()
end
function cases.dims()
  return x:reshape{1, c.B * c.T * 32}:linear("a", {out = 256}):reshape{2, 2, 2, 2, 2, 2, 2, 2}
    :permute{1, 2, 3, 4, 5, 6, 8, 7} * 2
end
function cases.parallel() -- q, k and v beside the first product of a block, as in Phi
  local qkv = x:linear("qkv", {out = 96}):view(c.B, c.T, 3, 2, 16)
  local function turned(i)
    local h = qkv:select(3, i):transpose(2, 3)
    local a, b = h:slice(4, 1, 8), h:slice(4, 9)
    return h * 0.8 + nn.concat({-b, a}, 4) * 0.6
  end
  local y = turned(1):attention(turned(2), qkv:select(3, 3):transpose(2, 3), {})
  return y:transpose(2, 3):reshape{c.B, c.T, 32} + x:linear("up", {out = 32}):gelu()
end
function cases.shuffle() return pairs_of("a"):permute{1, 2, 4, 3}:reshape{c.B, c.T, 48}:tanh() end
nn.output("y", assert(cases[c.case], "no such case")())
