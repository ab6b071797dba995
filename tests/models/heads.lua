-- heads.lua: attention of queries and keys that are normalised, or turned by their positions, as
-- models do it: each form is written as theirs is.
local nn = require "nn"
local c = nn.config{form = "rms", turn = "none", keys = true, B = 1, H = 4, G = 2, N = 17, D = 40,
                    part = 0, width = 24, causal = true, order = "bnhd", whole = false,
                    past = 0, train = false}
-- whole: a norm is of all heads of a position together; past: of a cache, to which one is added
local B, H, G, N, D, C = c.B, c.H, c.G, c.N, c.D, c.width
local part = c.part > 0 and c.part or D -- how much of a head is turned
-- (B, heads, N, D) of what a projection gives, whose rows of a position may be normalised as one.
local function split(y, heads, whole)
  if whole then y = whole(y) end
  if c.order == "bhnd" then return y:reshape{B, heads, N, D} end
  return y:reshape{B, N, heads, D}:permute(1, 3, 2, 4)
end

local norms = {
  none = function(y) return y end,
  rms = function(y, name) return y:rms_norm(name) end,
  layer = function(y, name) return y:layer_norm(name) end,
  l2 = function(y) return y / ((y * y):sum(-1, true):sqrt() + 1e-6) end,
  twice = function(y, name) return (y - y:mean(-1, true)):rms_norm(name) end,
  softmax = function(y) return y:softmax() * 3 end,
  scaled = function(y, name) return y * nn.param(name .. ".scale", {1, y.shape[2], 1, 1}) end,
}

local at = c.past > 0 and nn.input("at", {1, 1}, {dtype = "i32", below = c.past})
local position = at and nn.index({N, 1}, 1) + at or nn.index({N, 1}, 1)
local function angles(size) -- (N, size / 2)
  return position * nn.pow(10000.0, nn.index({1, size // 2}, 2) * (-2.0 / size))
end
local function slice(y, first, last) return nn.slice(y, 4, first, last) end
local function both(y, axis) return nn.concat({y, y}, axis) end
local turns = {
  none = function(y) return y end,
  halves = function(y) -- as LLaMA's
    local cos, sin = nn.cos(angles(part)), nn.sin(angles(part))
    local a, b = slice(y, 1, part // 2), slice(y, part // 2 + 1, part)
    local turned = {a * cos - b * sin, b * cos + a * sin}
    if part < D then turned[3] = slice(y, part + 1, D) end
    return nn.concat(turned, 4)
  end,
  rotate = function(y) -- as Hugging Face writes it
    local cos, sin = nn.cos(both(angles(part), 2)), nn.sin(both(angles(part), 2))
    local z = part < D and slice(y, 1, part) or y
    local half = nn.concat({-slice(z, part // 2 + 1, part), slice(z, 1, part // 2)}, 4)
    local turned = z * cos + half * sin
    return part < D and nn.concat({turned, slice(y, part + 1, D)}, 4) or turned
  end,
  pairs = function(y) -- even and odd elements, as GPT-J's; or complex numbers
    local heads, a = y.shape[2], angles(D):reshape{N, D // 2, 1}
    local z = y:reshape{B, heads, N, D // 2, 2}
    local re, im = nn.slice(z, 5, 1, 1), nn.slice(z, 5, 2, 2)
    local cos, sin = nn.cos(a), nn.sin(a)
    return nn.concat({re * cos - im * sin, re * sin + im * cos}, 5):reshape{B, heads, N, D}
  end,
  stacked = function(y) -- the same, of strided slices
    local cos, sin = nn.cos(angles(D)), nn.sin(angles(D))
    local re, im = nn.slice(y, 4, 1, D, 2), nn.slice(y, 4, 2, D, 2)
    return nn.flatten(nn.stack({re * cos - im * sin, re * sin + im * cos}, 5), 4, 5)
  end,
}

local function head(x, name, heads, made)
  local y = x:linear(name, {out = heads * D, bias = false})
  local function norm(z) return norms[c.form](z, name .. "_norm") end
  if not made then return split(y, heads) end
  if c.whole then return turns[c.turn](split(y, heads, norm)) end
  return turns[c.turn](norm(split(y, heads)))
end

local function cached(name, new)
  local here = nn.index({1, 1, c.past, 1}, 3):eq(at:reshape{1, 1, 1, 1})
  local old = nn.state(name, {B, G, c.past, D}, {dtype = "auto", init = 0.25})
  local all = nn.where(here, new, old)
  nn.update(old, all)
  return all
end

local function attend(x)
  local q, k, v = head(x, "q", H, true), head(x, "k", G, c.keys), head(x, "v", G)
  local masks = {causal = c.causal}
  if at then
    k, v = cached("keys", k), cached("values", v)
    masks = {keep = function(i) return i.key:le(at:reshape{1, 1, 1, 1}) end}
  end
  return q:attention(k, v, masks):permute(1, 3, 2, 4):reshape{B, N, H * D}
end

nn.output("y", attend(nn.input("x", {B, N, C})))
if c.train then
  nn.train(B, function()
    local y = attend(nn.random({B, N, C}, {kind = "normal", step = nn.training_step()}))
    return {loss = (y * y):sum{2, 3}}
  end, {lr = 1e-4, momentum = 0.9})
end
