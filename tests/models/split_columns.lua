-- split_columns.lua: queries, keys and values of one projection, whose columns are heads, channels
-- and which of the three it is, in any order.
local nn = require "nn"
local c = nn.config{pack = "n3hd", batch = 2, N = 40, H = 2, D = 16, bias = true, read = "permute"}
local B, N, H, D = c.batch, c.N, c.H, c.D
local packs = { -- sizes of the columns' dimensions; where the three, heads and channels are
  n3hd = {{3, H, D}, {1, 2, 3}}, nh3d = {{H, 3, D}, {2, 1, 3}}, nhd3 = {{H, D, 3}, {3, 1, 2}},
  nd3h = {{D, 3, H}, {2, 3, 1}}, ndh3 = {{D, H, 3}, {3, 2, 1}}, n3dh = {{3, D, H}, {1, 3, 2}},
}
local size, place = table.unpack(packs[c.pack])
local x = nn.input("x", {B, N, H * D})
local columns = x:layer_norm("norm"):linear("qkv", {out = 3 * H * D, bias = c.bias})
local apart = columns:reshape{B, N, size[1], size[2], size[3]}
local q, k, v
if c.read == "chunks" then -- as GPT-NeoX: of each head, side by side
  local function part(i)
    return select(i, columns:reshape{B, N, H, 3 * D}:chunk(3, 4)):permute{1, 3, 2, 4}
  end
  q, k, v = part(1), part(2), part(3)
elseif c.read == "permute" then
  local all = apart:permute{place[1] + 2, 1, place[2] + 2, 2, place[3] + 2}
  local function part(i) return nn.slice(all, 1, i, i):reshape{B, H, N, D} end
  q, k, v = part(1), part(2), part(3)
else -- slices first
  local heads_first = place[2] < place[3]
  local function part(i)
    local t = nn.slice(apart, place[1] + 2, i, i)
    if heads_first then return t:reshape{B, N, H, D}:permute{1, 3, 2, 4} end
    return t:reshape{B, N, D, H}:permute{1, 4, 2, 3}
  end
  q, k, v = part(1), part(2), part(3)
end
if c.read == "whole" then nn.output("whole", apart * 2) end -- in its own order, too
local y = q:attention(k, v, {}):permute{1, 3, 2, 4}:reshape{B, N, H * D}
nn.output("y", y:linear("out", {out = H * D}))
