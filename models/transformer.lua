-- transformer.lua: what the models of transformers share.
local nn = require "nn"

-- The settings of one of some sizes, {name, settings} each, which --set size=NAME chooses; the
-- first is the default. Each setting can be given by itself too.
local function sizes(known)
  local wanted, names = nn.config{size = known[1][1]}.size, {}
  for i, size in ipairs(known) do
    names[i] = size[1]
    if size[1] == wanted then return nn.config(size[2]) end
  end
  error("size is one of " .. table.concat(names, ", "), 2)
end

-- (B, N, parts * H * D) -> as many tensors (B, H, N, D)
local function split_heads(x, heads, parts)
  local B, N = x.shape[1], x.shape[2]
  if x.shape[3] % (heads * parts) ~= 0 then
    error(("a width of %d is no multiple of %d heads"):format(x.shape[3] // parts, heads), 2)
  end
  local D = x.shape[3] // (heads * parts)
  local all, list = x:reshape{B, N, parts, heads, D}:permute{3, 1, 4, 2, 5}, {}
  for i = 1, parts do list[i] = nn.slice(all, 1, i, i):reshape{B, heads, N, D} end
  return table.unpack(list)
end

-- (B, H, N, D) -> (B, N, H * D)
local function join_heads(x)
  local d = x.shape
  return x:permute{1, 3, 2, 4}:reshape{d[1], d[3], d[2] * d[4]}
end

return {sizes = sizes, split_heads = split_heads, join_heads = join_heads}
