-- nn_bessel.lua: Bessel functions, normal distribution, entropies, of the module `nn` (nn.lua),
-- composed of maps as the functions of nn_special.lua are.
local core, nn = ...
local op, tools = core.op, core.tools
local define, polynomial, as_floats = tools.define, tools.polynomial, tools.as_floats

-- ---- Bessel functions --------------------------------------------------------------------------

-- Polynomials of Abramowitz and Stegun, 9.8.1 to 9.8.4: one near 0, from 3.75 on another times
-- exp(|x|) / sqrt(|x|). scaled: the result is multiplied by exp(-|x|).
local function bessel(x, near, far, scaled)
  local size = op.abs(x)
  local small, t = op.lt(size, 3.75), x * (1 / 3.75)
  local z = op.max(size, 3.75)
  local about_0, beyond = polynomial(t * t, near), op.rsqrt(z) * polynomial(3.75 / z, far)
  if scaled then return small, about_0 * op.exp(-size), beyond end
  return small, about_0, op.exp(z) * beyond
end
local function order_0(x, scaled)
  local small, near, far = bessel(x,
    {0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0},
    {0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319,
     0.01328592, 0.39894228}, scaled)
  return op.where(small, near, far)
end
local function order_1(x, scaled)
  local small, near, far = bessel(x,
    {0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5},
    {-0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555, 0.00163801, -0.00362018,
     -0.03988024, 0.39894228}, scaled)
  return op.where(small, near * x, op.where(op.lt(x, 0.0), -far, far))
end
-- i1(x) / x near 0, where it is 1/2.
local function over(y, x)
  local zero = op.eq(x, 0.0)
  return op.where(zero, 0.5, y / op.where(zero, 1.0, x))
end
-- The modified Bessel function of the first kind of order 1.
define("i1(x: tensor)", "torch.special.i1", function(x)
  x = as_floats(x)
  local y = order_1(x)
  return nn.custom_gradient(y, {x}, function(g) return g * (nn.i0(x) - over(y, x)) end)
end)
-- The modified Bessel function of the first kind of order 0.
define("i0(x: tensor)", "torch.i0, torch.special.i0", function(x)
  x = as_floats(x)
  return nn.custom_gradient(order_0(x), {x}, function(g) return g * nn.i1(x) end)
end)
-- exp(-|x|) i1(x), which does not overflow.
define("i1e(x: tensor)", "torch.special.i1e", function(x)
  x = as_floats(x)
  local y = order_1(x, true)
  return nn.custom_gradient(y, {x}, function(g)
    return g * (nn.i0e(x) - over(y, x) - op.sign(x) * y)
  end)
end)
-- exp(-|x|) i0(x), which does not overflow.
define("i0e(x: tensor)", "torch.special.i0e", function(x)
  x = as_floats(x)
  local y = order_0(x, true)
  return nn.custom_gradient(y, {x}, function(g) return g * (nn.i1e(x) - op.sign(x) * y) end)
end)

-- ---- the normal distribution -------------------------------------------------------------------

-- The inverse of erf, by single-precision polynomials (Giles, "Approximating the erfinv function",
-- 2010).
define("erfinv(y: tensor)", "torch.erfinv", function(y)
  y = as_floats(y)
  local detached = op.stop_gradient(y)
  local w = -op.log1p(-(detached * detached))
  local near = polynomial(w - 2.5, {
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941})
  local far = polynomial(op.sqrt(w) - 3.0, {
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682})
  local x = op.where(op.lt(w, 5.0), near, far) * detached
  x = op.where(op.eq(op.abs(detached), 1.0), detached * math.huge, x)
  return nn.custom_gradient(x, {y}, function(g)
    return g * op.exp(x * x) * 0.8862269254527580
  end)
end)
-- exp(x^2) erfc(x), which does not underflow as erfc(x) does: from 2 on by a continued fraction.
define("erfcx(x: tensor)", "torch.special.erfcx", function(x)
  x = as_floats(x)
  local small, far = op.lt(x, 2.0), op.max(x, 2.0)
  local near = op.min(x, 2.0)
  local fraction = far
  for k = 16, 1, -1 do fraction = far + k / 2 / fraction end
  local y = op.where(small, op.exp(near * near) * op.erfc(near), 0.56418958354775629 / fraction)
  return nn.custom_gradient(y, {x}, function(g)
    return g * (y * x * 2.0 - 1.1283791670955126)
  end)
end)
local root_of_half = math.sqrt(0.5)
-- The probability that a standard normal variable is below x.
define("ndtr(x: tensor)", "torch.special.ndtr", function(x)
  x = as_floats(x)
  return op.erfc(x * -root_of_half) * 0.5
end)
-- The logarithm of ndtr, accurate where the probability is small.
define("log_ndtr(x: tensor)", "torch.special.log_ndtr", function(x)
  x = as_floats(x)
  local low, scaled = op.lt(x, -1.0), x * root_of_half
  local below = op.min(scaled, -root_of_half) -- each form only where it is accurate
  local tail = op.log(nn.erfcx(-below) * 0.5) - below * below
  local y = op.where(low, tail, op.log1p(op.erfc(scaled) * -0.5))
  return nn.custom_gradient(y, {x}, function(g)
    return g * math.sqrt(2 / math.pi) / nn.erfcx(-scaled)
  end)
end)

-- ---- entropies ---------------------------------------------------------------------------------

-- -x log(x): 0 at 0, minus infinity below it.
define("entr(x: tensor)", "torch.special.entr", function(x)
  x = as_floats(x)
  local above = op.gt(x, 0.0)
  local y = -x * op.log(op.where(above, x, 1.0))
  y = op.where(op.lt(x, 0.0), -math.huge, op.where(op.eq(x, 0.0), 0.0, y))
  return nn.custom_gradient(y, {x}, function(g) return g * -(op.log(x) + 1.0) end)
end)
-- x * log(1 + y), accurate for y near 0; 0 if x is 0.
define("xlog1py(x: value, y: value)", "torch.special.xlog1py", function(x, y)
  return tools.times_log(x, y, op.log1p, -1.0)
end)
