-- drops.lua: what layers that leave out elements at random make of ones, in training: how many of
-- the results are none of the two that there may be, differ where they are to be alike, or are left
-- out too often or too seldom. --set layer=...
local nn = require "nn"
local layer, p = nn.config{layer = "dropout"}.layer, 0.25
local x = nn.ones{512, 16, 2, 3}
local low = -1.7580993408473766 -- of SELU
local a = 1 / math.sqrt((1 - p) * (1 + p * low * low))
local drops = {0, 1 / (1 - p)}
local alphas = {a * low - a * p * low, a - a * p * low}
local layers = { -- what it makes; the two values; the dimensions along which they are alike
  dropout = {nn.dropout, drops},
  dropout2d = {nn.dropout2d, drops, {3, 4}},
  dropout3d = {nn.dropout3d, drops, {3, 4}},
  alpha_dropout = {nn.alpha_dropout, alphas},
  feature_alpha_dropout = {nn.feature_alpha_dropout, alphas, {3, 4}},
  stochastic_depth = {nn.stochastic_depth, drops, {2, 3, 4}},
  drop_path = {nn.drop_path, drops, {2, 3, 4}},
  batch = {function(x, p) return nn.stochastic_depth(x, p, "batch") end, drops, {1, 2, 3, 4}},
}
local f, values, alike = table.unpack(layers[layer])

nn.entry("train", function()
  local y = f(x, p)
  local dropped = nn.lt(nn.abs(y - values[1]), 1e-5)
  local none = nn.logical_not(dropped | nn.lt(nn.abs(y - values[2]), 1e-5)):sum()
  local apart = alike and nn.gt(y:amax(alike) - y:amin(alike), 0):sum() or 0
  local share = dropped:float():mean()
  local unlikely = layer ~= "batch" and nn.gt(nn.abs(share - p), 0.06):sum() or 0
  nn.output("wrong", (none + apart + unlikely):reshape{1}:to("i32"))
end)
nn.output("same", nn.ne(f(x, p), x):sum():reshape{1}) -- where nothing is trained
