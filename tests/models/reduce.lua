-- Every reduction along every kind of axes: inner, outer, both ends, all. --set only=NAME: one of
-- them; rows, columns, depth: the shape.
local nn = require "nn"
local cfg = nn.config{only = "", rows = 6, columns = 40, depth = 30}
local given = nn.input("x", {cfg.rows, cfg.columns, cfg.depth})
local x = nn.sigmoid(given) -- of one sign: nothing cancels

-- A reduction of the model's own: the mean of squares.
nn.op_row{name = "mean_square", class = "reduce", result = "a.sum / a.count",
  ref_result = function(sum, count) return sum / count end, acc = {name = "squares",
    {"sum", init = "0.f", element = "$1 * $1", combine = "a.sum + b.sum",
     ref = function(sum, count, value) return sum + value * value end},
    {"count", init = "0.f", element = "1.f", combine = "a.count + b.count",
     ref = function(sum, count) return count + 1 end}}}
nn.op_row{name = "spread", class = "reduce", result = "a.high - a.low", -- identities as text
  ref_result = function(high, low) return high - low end, acc = {name = "ends",
    {"high", init = "-1e38f", element = "$1", combine = "nn_max(a.high, b.high)",
     ref = function(high, low, value) return math.max(high, value) end},
    {"low", init = "nn_inf()", element = "$1", combine = "nn_min(a.low, b.low)",
     ref = function(high, low, value) return math.min(low, value) end}}}
nn.op_row{name = "product", class = "reduce", cuda = "$1 * $2", init = "1.f", ref_init = 1,
  ref = function(a, b) return a * b end}

local reductions = {
  sum = function(axes) return x:sum(axes) end,
  mean = function(axes) return x:mean(axes, true) * 2 end,
  amax = function(axes) return given:amax(axes) end,
  amin = function(axes) return given:amin(axes) end,
  prod = function(axes) return nn.where(given:ge(0), 2, 0.5):prod(axes) end,
  all = function(axes) return (given - given:amin()):all(axes) end, -- but where the smallest lies
  any = function(axes) return (given:ge(given:amax())):any(axes) end,
  var = function(axes) return given:var(axes) end,
  std = function(axes) return (given + 3):std(axes, true, 0) end,
  argmax = function(axes) return nn.floor(given * 2):argmax(axes) end, -- with ties
  argmin = function(axes) return nn.floor(given * 2):argmin(axes) end,
  logsumexp = function(axes) return (given * 30):logsumexp(axes) end,
  mean_square = function(axes) return given:mean_square(axes) end,
  spread = function(axes) return given:spread(axes) end,
  product = function(axes) return nn.where(given:ge(0), 2, 0.5):product(axes) end,
}
for _, name in ipairs{"sum", "mean", "amax", "amin", "prod", "all", "any", "var", "std",
                      "argmax", "argmin",
                      "logsumexp", "mean_square", "spread", "product"} do
  if cfg.only == "" or cfg.only == name then
    for at, axes in ipairs{{1}, {2}, {3}, {1, 2}, {2, 3}, {1, 3}, {1, 2, 3}} do
      nn.output(string.format("%s_%d", name, at), reductions[name](axes))
    end
  end
end
if cfg.only == "" then
  for axis = 1, 3 do
    nn.output("softmax_" .. axis, given:softmax(axis))
    nn.output("log_softmax_" .. axis, given:log_softmax(axis))
  end
end
