-- Attention without a softmax: weights that are maps of scores.
local nn = require "nn"
local cfg = nn.config{case = "relu", batch = 6, heads = 4, rows = 400, keys = 420, depth = 32, values = 24}
local q = nn.input("q", {cfg.batch, cfg.heads, cfg.rows, cfg.depth})
local k = nn.input("k", {cfg.batch, cfg.heads, cfg.keys, cfg.depth})
local v = nn.input("v", {cfg.batch, cfg.heads, cfg.keys, cfg.values})
local i = nn.arange(cfg.rows):reshape{cfg.rows, 1}
local j = nn.arange(cfg.keys):reshape{1, cfg.keys}
local s = nn.matmul(q, k:transpose(3, 4)) * cfg.depth ^ -0.5
local cases = {}

function cases.relu() -- causal
  return nn.where(i:ge(j), s, -math.huge):relu()
end

function cases.sigmoid() -- Ramapuram et al. 2024
  return (s - math.log(cfg.keys)):sigmoid()
end

function cases.retention() -- Sun et al. 2023: scores that decay with the distance
  return s * nn.where(i:ge(j), nn.exp(-0.03 * (i - j):to("f32")), 0)
end

function cases.squared() -- So et al. 2021
  return s:relu():square() / cfg.keys
end

function cases.kept() -- the scores are an output, too
  nn.output("scores", s)
  return s:relu()
end

function cases.shared() -- read by two products
  local weights = s:relu() * 0.5
  nn.output("z", nn.matmul(weights, nn.input("u", {cfg.batch, cfg.heads, cfg.keys, cfg.values})))
  return weights
end

nn.output("y", nn.matmul(cases[cfg.case](), v))
