-- The derivative of every map of the op table by each of its operands, made by nn.grad, over one
-- matrix where all of them are smooth; --set size=7 for an odd length.
local nn = require "nn"
local cfg = nn.config{size = 96, rows = 3}

local x = nn.sigmoid(nn.input("x", {cfg.rows, cfg.size})) * 0.6 + 0.3
local y = nn.sigmoid(nn.input("y", {cfg.rows, cfg.size})) * 0.6 + 1.0 -- never near x
local weight = nn.input("weight", {cfg.rows, cfg.size})
local differentiable = {arith = true, float = true, where = true} -- by their types
local without = {stop_gradient = true} -- derivatives
for _, row in ipairs(nn.rows()) do
  if row.class == "map" and differentiable[row.type] and not without[row.name] then
    local values = row.nin == 1 and {x} or {x, y}
    local value = row.nin == 3 and nn.op[row.name](nn.gt(weight, 0), x, y) or
                    nn.op[row.name](table.unpack(values))
    for i, g in ipairs(nn.grad((value * weight):sum(), values)) do
      nn.output(("d_%s%s"):format(row.name, row.nin > 1 and "_" .. i or ""), g)
    end
  end
end
