-- options.lua: attention and its derivatives under options of nn.attention together, each turned on
-- by name; norms and turn: of queries and keys, which are then projections.
local nn = require "nn"
local c = nn.config{B = 2, H = 8, N = 1024, D = 64, causal = false, window = 0, alibi = false,
                    softcap = 0.0, dropout = 0.0, lengths = false, documents = false, bias = false,
                    table = false, norms = false, turn = false, spans = 0}
local B, H, N, D = c.B, c.H, c.N, c.D
local bias = c.bias and nn.input("bias", {H, N, N})
local by_place = c.table and nn.param("table", {H * (2 * N - 1)})
local function ids(name, shape, below)
  return c[name] and nn.input(name, shape, {dtype = "i32", below = below}) or nil
end
local function score(s, at)
  return s + by_place:gather(at.head * (2 * N - 1) + at.key - at.query + N - 1)
end

local function turned(y)
  local angles = nn.index({N, 1}, 1) * nn.pow(10000.0, nn.index({1, D // 2}, 2) * (-2.0 / D))
  local cos, sin = nn.cos(angles), nn.sin(angles)
  local a, b = nn.slice(y, 4, 1, D // 2), nn.slice(y, 4, D // 2 + 1, D)
  return nn.concat({a * cos - b * sin, b * cos + a * sin}, 4)
end
local x = (c.norms or c.turn) and nn.input("x", {B, N, 256})
local function heads(name, plain)
  if not x then return nn.input(name, {B, H, N, D}) end
  local y = x:linear(name, {out = H * D, bias = false})
  y = y:reshape{B, N, H, D}:permute{1, 3, 2, 4}
  if plain then return y end
  if c.norms then y = y:rms_norm(name .. "_norm") end
  return c.turn and turned(y) or y
end

local list = {heads("q"), heads("k"), heads("v", true), bias or by_place or nil}
-- Tokens of so many pictures in a text, whose first and last ones stand in a tensor, see each other.
local ends = c.spans > 0 and nn.input("ends", {2 * c.spans}, {dtype = "i32", below = N})
local function in_picture(at)
  local seen = at.query:ge(at.key)
  for i = 1, 2 * c.spans, 2 do
    local first, last = ends:slice(1, i, i), ends:slice(1, i + 1, i + 1)
    local function inside(x) return x:ge(first):logical_and(x:le(last)) end
    seen = seen:logical_or(inside(at.query):logical_and(inside(at.key)))
  end
  return seen
end
local y = list[1]:attention(list[2], list[3], {
  causal = c.causal, window = c.window > 0 and c.window or nil, alibi = c.alibi or nil,
  softcap = c.softcap > 0 and c.softcap or nil, bias = bias or nil,
  score = by_place and score or nil, dropout = c.dropout > 0 and {p = c.dropout, seed = 3} or nil,
  lengths = ids("lengths", {B}, N + 1), documents = ids("documents", {B, N}, 5),
  keep = ends and in_picture or nil})
nn.output("y", y)
for i, g in ipairs(nn.grad((y * nn.input("dy", y.shape)):sum(), list)) do
  nn.output("d" .. i, g)
end
