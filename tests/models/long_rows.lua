-- Rows longer than a block keeps in registers, and rows across memory: one kernel for all that is
-- accumulated, one more for each accumulation that waits for another, one for the rest: each reads
-- the rows once.
local nn = require "nn"
local cfg = nn.config{rows = 3, columns = 40000, only = "", affine = true}
local function case(name, x, f)
  if cfg.only == "" or cfg.only == name then nn.output(name, f(x(name))) end
end
local function rows(name) return nn.input(name .. "_x", {cfg.rows, cfg.columns}) end
case("softmax", rows, function(x) return x:softmax() end)
case("log_softmax", rows, function(x) return x:log_softmax() end)
case("layer_norm", rows, function(x) return x:layer_norm("ln", {affine = cfg.affine}) end)
case("norm_softmax", rows, function(x) return x:layer_norm("ln2"):softmax() end)
local function grad(name, x, y) -- of the sum of y, weighed by another input
  return nn.grad((y * rows(name .. "_dy")):sum(), {x})[1]
end
case("softmax_grad", rows, function(x) return grad("softmax", x, x:softmax()) end)
case("norm_grad", rows, function(x) return grad("norm", x, x:layer_norm("ln3")) end)
case("channels", function() return nn.input("y", {2, 48, 7, 6}) end,
     function(y) return y:softmax(2) end)
