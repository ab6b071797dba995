-- First and second derivatives where formulas easily lose them: at 0, beside it, and where exp is
-- infinite in fp32. `one` is what nn.grad makes, `other` the exact values, both over 1 + the
-- latter.
local nn = require "nn"
local cfg = nn.config{case = "softplus"}
local places = {-200, -100, -89, -20, -1, -1e-6, 0, 1e-6, 1, 20, 89, 100, 200}
local x, cases = nn.tensor(places), {}

local function sigmoid(v) return 1 / (1 + math.exp(-v)) end
local function slope(v) return sigmoid(v) * sigmoid(-v) end -- of the sigmoid
local function curve(v) return slope(v) * (sigmoid(-v) - sigmoid(v)) end -- of its slope
local function density(v) return math.exp(-v * v / 2) / math.sqrt(2 * math.pi) end

-- y, its first derivative and its second one at a number.
function cases.softplus() return x:softplus(), sigmoid, slope end
function cases.steep_softplus()
  return x:softplus(2, 500), function(v) return sigmoid(2 * v) end,
         function(v) return 2 * slope(2 * v) end
end
function cases.logsigmoid()
  return x:logsigmoid(), function(v) return sigmoid(-v) end, function(v) return -slope(v) end
end
function cases.bce_with_logits()
  local y = nn.bce_with_logits(x, x * 0 + 0.25, {pos_weight = 3, reduction = "none"})
  return y, function(v) return 0.75 * sigmoid(v) - 0.75 * sigmoid(-v) end,
         function(v) return 1.5 * slope(v) end
end
function cases.multilabel_soft_margin_loss()
  local y = nn.multilabel_soft_margin_loss(x:unsqueeze(2), x:unsqueeze(2) * 0 + 0.25,
                                           {reduction = "none"})
  return y, function(v) return 0.75 * sigmoid(v) - 0.25 * sigmoid(-v) end, slope
end
function cases.soft_margin_loss()
  return nn.soft_margin_loss(x, x * 0 - 1, {reduction = "none"}), sigmoid, slope
end
function cases.sigmoid() return x:sigmoid(), slope, curve end
function cases.silu()
  return x:silu(), function(v) return sigmoid(v) + v * slope(v) end,
         function(v) return 2 * slope(v) + v * curve(v) end
end
function cases.tanh()
  return x:tanh(), function(v) return 4 * slope(2 * v) end, function(v) return 8 * curve(2 * v) end
end
function cases.mish() -- its second one from differences; far from 0 it is 0
  local function first(v)
    local e = math.exp(-math.abs(v))
    local s = math.max(v, 0) + math.log(1 + e)
    local t = 1 - 2 / (math.exp(2 * math.min(s, 300)) + 1)
    return t + v * (1 - t * t) * sigmoid(v)
  end
  local function second(v)
    return math.abs(v) > 80 and 0 or (first(v + 1e-5) - first(v - 1e-5)) / 2e-5
  end
  return x:mish(), first, second
end
function cases.gelu() -- the second and the third one
  return nn.grad(x:gelu():sum(), x), function(v) return density(v) * (2 - v * v) end,
         function(v) return density(v) * v * (v * v - 4) end
end
function cases.elu() -- of 0 the derivatives are those from below
  local function below(v) return v > 0 and 0 or math.exp(v) end
  return x:elu(), function(v) return v > 0 and 1 or math.exp(v) end, below
end
function cases.logaddexp()
  return nn.logaddexp(x, x * 0), sigmoid, slope
end
function cases.logaddexp2()
  local two = math.log(2)
  return nn.logaddexp2(x * 0, x), function(v) return sigmoid(two * v) end,
         function(v) return two * slope(two * v) end
end
function cases.huber_loss()
  return nn.huber_loss(x, x:detach() * 0, {delta = 2, reduction = "none"}),
         function(v) return math.max(-2, math.min(v, 2)) end,
         function(v) return math.abs(v) > 2 and 0 or 1 end
end
function cases.smooth_l1_loss()
  return nn.smooth_l1_loss(x, x:detach() * 0, {beta = 2, reduction = "none"}),
         function(v) return math.max(-1, math.min(v / 2, 1)) end,
         function(v) return math.abs(v) > 2 and 0 or 0.5 end
end
function cases.logsumexp()
  return nn.stack({x, x * 0}, 2):logsumexp(2), sigmoid, slope
end
function cases.power_0() return x ^ 0, function() return 0 end, function() return 0 end end
function cases.power_1() return x ^ 1, function() return 1 end, function() return 0 end end
function cases.power_2()
  return x ^ 2, function(v) return 2 * v end, function() return 2 end
end
function cases.powers() -- by tensors
  local y = nn.pow(x, nn.tensor{0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 2, 1, 0})
  local n, power = {0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 2, 1, 0}, {}
  for i, v in ipairs(places) do power[v] = n[i] end
  return y, function(v) return power[v] == 0 and 0 or power[v] * v ^ (power[v] - 1) end,
         function(v) local p = power[v]; return p < 2 and 0 or p * (p - 1) * v ^ (p - 2) end
end

local y, first, second = cases[cfg.case]()
local exact = {{}, {}}
for i, v in ipairs(places) do exact[1][i], exact[2][i] = first(v) + 0.0, second(v) + 0.0 end
local once = nn.grad(y:sum(), x)
local twice = nn.grad(once:sum(), x)
local size = nn.abs(nn.tensor(exact)) + 1
nn.output("one", nn.stack({once, twice}) / size)
nn.output("other", nn.tensor(exact) / size)
