-- Every map of the op table, over one vector; --set size=7 for an odd length.
local nn = require "nn"
local cfg = nn.config{size = 96, rows = 3}

local x = nn.sigmoid(nn.input("x", {cfg.rows, cfg.size})) + 0.25 -- where all of them are smooth
local y = nn.sigmoid(nn.input("y", {cfg.size})) + 0.5
for _, row in ipairs(nn.rows()) do
  if row.class == "map" then
    local f = nn.op[row.name]
    local value
    if row.type == "draw" then value = f(nn.index({cfg.rows, cfg.size}, 2), 1, 2, 3)
    elseif row.type == "whole" then value = f(nn.index({cfg.rows, cfg.size}, 2), 3)
    elseif row.nin == 1 then value = f(x)
    elseif row.nin == 2 then value = f(x, y)
    else value = f(nn.gt(x, y), x, y) end
    nn.output(row.name, value)
  end
end
