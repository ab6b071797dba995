-- nn_activations.lua: activation functions, of the module `nn` (nn.lua). Each is finite with finite
-- derivatives for every finite x where PyTorch's is: `where` evaluates both branches, so neither
-- may be infinite.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, is_float, floats = tools.fail, tools.define, tools.is_float, tools.floats

define("relu(x: tensor)", "F.relu, nn.ReLU", function(x)
  return is_float(x) and op.relu(x) or op.max(x, 0)
end)
-- x clamped to low .. high; unlike clamp's, the derivative at both bounds is 0.
local function between(x, low, high)
  local y = op.min(op.max(x, low), high)
  if not is_float(y) then return y end
  return nn.custom_gradient(y, {x}, function(g)
    return op.where(op.gt(x, low) & op.lt(x, high), g, 0.0)
  end)
end
-- x clamped to 0 .. 6.
define("relu6(x: tensor)", "F.relu6, nn.ReLU6", function(x) return between(x, 0, 6) end)
define("leaky_relu(x: tensor, slope|negative_slope: number = 0.01)",
       "F.leaky_relu, nn.LeakyReLU", function(x, slope)
  return op.where(op.gt(floats("leaky_relu", x), 0), x, x * slope)
end)
-- Leaky relu with a slope drawn between lower and upper in training, else their mean.
define("rrelu(x: tensor, lower: number = 0.125, upper: number = 0.3333333333333333)",
       "F.rrelu, nn.RReLU", function(x, lower, upper)
  local slope = (lower + upper) / 2
  floats("rrelu", x)
  if tools.training.active then
    slope = nn.random(shape(x), {seed = tools.training.seed, step = tools.step_now()}) *
        (upper - lower) + lower
  end
  return op.where(op.gt(x, 0), x, x * slope)
end)
-- Leaky relu with the slope name.weight: one parameter, or one per channel.
define("prelu(x: tensor, name: name, {count|num_parameters: count = 1, init: number = 0.25})",
       "F.prelu, nn.PReLU", function(x, o)
  local dims = shape(x)
  if o.count ~= 1 and (#dims < 2 or dims[2] ~= o.count) then
    fail("prelu: count = %d: expected 1 or the channels of %s", o.count, tostring(x))
  end
  return nn.functional.prelu(x, nn.param("weight", {o.count}, {"constant", o.init}))
end)
-- x if x > 0, else alpha * (exp(x) - 1).
define("elu(x: tensor, alpha: number = 1)", "F.elu, nn.ELU", function(x, alpha)
  return op.where(op.gt(floats("elu", x), 0), x, op.expm1(op.min(x, 0.0)) * alpha)
end)
define("celu(x: tensor, alpha: number = 1)", "F.celu, nn.CELU", function(x, alpha)
  if alpha == 0 then fail("celu: alpha = 0: expected a non-zero number") end
  return op.where(op.gt(floats("celu", x), 0), x, op.expm1(op.min(x, 0.0) / alpha) * alpha)
end)
define("selu(x: tensor)", "F.selu, nn.SELU", function(x)
  local alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
  return op.where(op.gt(floats("selu", x), 0), x, op.expm1(op.min(x, 0.0)) * alpha) * scale
end)
-- x * Phi(x): by erf, or with approximate = "tanh" by its approximation.
define("gelu(x: tensor, approximate: none/tanh = none)", "F.gelu, nn.GELU", function(x, approximate)
  floats("gelu", x)
  if approximate == "none" then return x * 0.5 * (1 + op.erf(x * 0.7071067811865476)) end
  return x * 0.5 * (1 + op.tanh((x + x * x * x * 0.044715) * 0.7978845608028654))
end)
define("sigmoid|expit(x: tensor)", "torch.sigmoid, nn.Sigmoid, torch.special.expit", op.sigmoid)
-- x * sigmoid(x).
define("silu|swish(x: tensor)", "F.silu, nn.SiLU", function(x)
  return op.silu(floats("silu", x))
end)

-- log(1 + exp(x)): never overflows, accurate where it is small. The custom derivative replaces that
-- of |x|, which does not exist at 0.
local function softplus(x)
  local y = op.maximum(x, 0.0) + op.log1p(op.exp(-op.abs(x)))
  return nn.custom_gradient(y, {x}, function(g) return g * op.sigmoid(x) end)
end
tools.softplus = softplus
-- log(1 + exp(beta x)) / beta; x itself if beta x is above the threshold.
define("softplus(x: tensor, beta: number = 1, threshold: number = 20)",
       "F.softplus, nn.Softplus", function(x, beta, threshold)
  local wide = floats("softplus", x) * beta
  return op.where(op.gt(wide, threshold), x, softplus(wide) * (1 / beta))
end)
-- log(sigmoid(x)).
define("logsigmoid(x: tensor)", "F.logsigmoid, nn.LogSigmoid", function(x)
  return -softplus(-floats("logsigmoid", x))
end)
-- x * tanh(softplus(x)).
define("mish(x: tensor)", "F.mish, nn.Mish", function(x)
  return floats("mish", x) * op.tanh(softplus(x))
end)
-- x / (1 + |x|).
define("softsign(x: tensor)", "F.softsign, nn.Softsign", function(x)
  return x / (op.abs(x) + 1.0)
end)
define("tanhshrink(x: tensor)", "F.tanhshrink, nn.Tanhshrink", function(x)
  return x - op.tanh(x)
end)
-- 0 from -lambda to lambda, else x shrunk toward 0 by lambda.
define("softshrink(x: tensor, lambda|lambd: number = 0.5)",
       "F.softshrink, nn.Softshrink", function(x, lambda)
  return op.where(op.gt(x, lambda), x - lambda, op.where(op.lt(x, -lambda), x + lambda, x * 0.0))
end)
-- 0 from -lambda to lambda, else x.
define("hardshrink(x: tensor, lambda|lambd: number = 0.5)",
       "F.hardshrink, nn.Hardshrink", function(x, lambda)
  return op.where(op.ge(x, -lambda) & op.le(x, lambda), 0.0, x)
end)
define("hardtanh(x: tensor, low|min_val: number = -1, high|max_val: number = 1)",
       "F.hardtanh, nn.Hardtanh", function(x, low, high)
  if low >= high then fail("hardtanh: from %g to %g: expected low below high", low, high) end
  return between(x, low, high)
end)
-- x / 6 + 1 / 2, from 0 to 1.
define("hardsigmoid(x: tensor)", "F.hardsigmoid, nn.Hardsigmoid", function(x)
  return between(floats("hardsigmoid", x) + 3.0, 0.0, 6.0) * (1 / 6)
end)
-- x * hardsigmoid(x).
define("hardswish(x: tensor)", "F.hardswish, nn.Hardswish", function(x)
  local y = floats("hardswish", x) * op.min(op.max(x + 3.0, 0.0), 6.0) * (1 / 6)
  return nn.custom_gradient(y, {x}, function(g) -- infinities included
    local slope = op.where(op.gt(x, 3.0), 1.0, x * (1 / 3) + 0.5)
    return g * op.where(op.lt(x, -3.0), 0.0, slope)
  end)
end)
-- x if it is above the threshold, else value.
define("threshold(x: tensor, threshold: number, value: number)",
       "F.threshold, nn.Threshold", function(x, threshold, value)
  return op.where(op.le(x, threshold), is_float(x) and value + 0.0 or value, x)
end)
-- softmax((x + g) / tau) with Gumbel noise g, redrawn at each training step; hard: 1 at the largest
-- element and 0 elsewhere, with the derivatives of the soft result.
define([[gumbel_softmax(x|logits: tensor, tau: number = 1, hard: boolean = false,
       axis: axis = -1, {seed: whole = 0})]], "F.gumbel_softmax", function(x, tau, hard, axis, o)
  if tau <= 0 then fail("gumbel_softmax: tau = %g: expected a number above 0", tau) end
  local u = nn.random(shape(x), {seed = tools.training.seed + o.seed, step = tools.step_now()})
  local g = -op.log(-op.log(u * (1 - 2^-23) + 2^-25))
  local soft = tools.as_floats_of(x, nn.softmax((x + g) * (1 / tau), axis))
  if not hard then return soft end
  local at = nn.argmax(soft, axis, true)
  local one = nn.to(op.eq(nn.index(shape(x), axis), at), core.dtype(soft))
  return op.stop_gradient(one - soft) + soft
end)
-- x * sigmoid(1.702 x).
define("quick_gelu(x: tensor)", "", function(x) return x * op.sigmoid(x * 1.702) end)
-- The first half along an axis times the sigmoid of the second half.
define("glu(x: tensor, axis: axis = -1)", "F.glu, nn.GLU", function(x, axis)
  local n = shape(x)[axis]
  if n % 2 ~= 0 then fail("glu: axis %d of %s has no two halves", axis, tostring(x)) end
  return nn.slice(x, axis, 1, n // 2) * op.sigmoid(nn.slice(x, axis, n // 2 + 1, n))
end)
