-- nn.attention with each of its options, alone and together: an output for each of `cases` (all, or
-- names with commas between), as attention_reference.py computes it too.
local nn = require "nn"
local cfg = nn.config{cases = "all", batch = 2, heads = 6, groups = 3, queries = 17, keys = 17,
                      depth = 8, values = 12}
local B, H, G, N, M = cfg.batch, cfg.heads, cfg.groups, cfg.queries, cfg.keys

local integer = {dtype = "i32", below = M + 4}
local q, k, v = nn.input("q", {B, H, N, cfg.depth}), nn.input("k", {B, G, M, cfg.depth}),
  nn.input("v", {B, G, M, cfg.values})
local head_bias, key_bias = nn.input("head_bias", {H, N, M}), nn.input("key_bias", {M})
local head_slopes, distances = nn.input("head_slopes", {H}), nn.input("distances", {2 * (M + N), H})
local valid, opening = nn.input("valid", {B}, integer), nn.input("opening", {B}, integer)
local query_ids, key_ids = nn.input("query_ids", {B, N}, integer),
  nn.input("key_ids", {B, M}, integer)
local seen, row_seen = nn.input("seen", {B, 1, N, M}, {dtype = "bool"}),
  nn.input("row_seen", {N, 1}, {dtype = "bool"})

local function distance(at) return at.key - at.query end
local function case(name, options)
  if cfg.cases ~= "all" and not ("," .. cfg.cases .. ","):find("," .. name .. ",") then return end
  local y, lse = q:attention(k, v, options)
  nn.output(name, y)
  if lse then nn.output(name .. "_lse", lse) end
  return y
end

case("plain", {})
case("lse", {lse = true})
case("scale", {scale = 0.7})
case("causal", {causal = true, lse = true})
case("window", {window = 4})
case("causal_window", {causal = true, window = 3})
case("prefix", {causal = true, prefix = 3})
case("prefixes", {causal = true, window = 2, prefix = opening})
case("lengths", {lengths = valid, lse = true})
if N == M then case("documents", {documents = key_ids}) end
case("two_documents", {documents = {query_ids, key_ids}, lse = true})
case("mask", {mask = seen})
case("row_mask", {mask = row_seen})
case("keep", {keep = function(at)
  return ((at.key + at.query * 2 + at.head + at.batch) % 3):ne(0)
end})
case("bias", {bias = head_bias})
case("column_bias", {bias = key_bias, softcap = 3})
case("alibi", {alibi = true})
case("slopes", {alibi = head_slopes, causal = true})
case("softcap", {softcap = 2})
case("score", {score = function(s, at) return s * 0.5 + distance(at) * (at.head + 1) * 0.01 end})
case("relative", {score = function(s, at) -- a learned bias by head and distance
  return s + nn.gather(distances:reshape{-1}, (distance(at) + N) * H + at.head, 1)
end})
case("together", {
  causal = true, window = 9, prefix = 2, lengths = valid, mask = seen, bias = head_bias,
  alibi = true, softcap = 5,
  scale = 0.4, score = function(s, at) return s + at.query * 0.02 end,
  keep = function(at) return (at.key + at.head):ne(4) end, lse = true})
local y = case("gradient", {causal = true, lengths = valid})
if y then
  for i, g in ipairs(nn.grad((y * y):sum(), {q, k, v})) do
    nn.output("gradient_" .. ("qkv"):sub(i, i), g)
  end
end
