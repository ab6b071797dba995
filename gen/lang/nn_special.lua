-- nn_special.lua: gamma functions, and parts of integers and floats, of the module `nn` (nn.lua),
-- composed of maps that are fused: series and recurrences of fixed length, accurate to single
-- precision.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, is_float = tools.fail, tools.define, tools.is_float

-- A polynomial by Horner's rule, the highest coefficient first.
local function polynomial(w, coefficients)
  local p = coefficients[1] + 0.0
  for i = 2, #coefficients do p = p * w + coefficients[i] end
  return p
end
tools.polynomial = polynomial

local function floats(name, x)
  if core.is_tensor(x) and not is_float(x) then
    fail("%s: expected floats, got %s; x:to(\"f32\") converts", name, core.dtype(x))
  end
  return x
end
tools.floats = floats

-- Integers converted to floats, as PyTorch's special functions do.
local function as_floats(x)
  return core.is_tensor(x) and not is_float(x) and nn.to(x, "f32") or x
end
tools.as_floats = as_floats

-- ---- the gamma function -------------------------------------------------------------------------

-- sin(pi x), reduced to the distance to the nearest integer, so that it is accurate where small.
local function sine_of_pi(x)
  local near = op.round(x)
  return op.abs(op.sin((x - near) * math.pi))
end

-- lgamma for x >= 0.5: below 4 by the recurrence, then by Stirling's series.
local function log_gamma(x)
  local small = op.lt(x, 4.0)
  local z = op.where(small, x + 4.0, x)
  local product = op.where(small, x * (x + 1.0) * ((x + 2.0) * (x + 3.0)), 1.0)
  local u = 1.0 / z
  local rest = polynomial(u * u, {1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12}) * u
  local value = (z - 0.5) * op.log(z) - z + 0.91893853320467274 + rest - op.log(product)
  return op.where(op.eq(x, math.huge), x, value)
end
-- digamma: below 6 by the recurrence, then by the asymptotic series.
local function psi(x)
  local small, z, sum = op.lt(x, 6.0), x, 0.0
  for k = 0, 5 do sum = 1.0 / (x + (k + 0.0)) + sum end
  z = op.where(small, x + 6.0, x)
  local u = 1.0 / z
  local rest = polynomial(u * u, {1 / 240, -1 / 252, 1 / 120, -1 / 12, 0})
  return op.log(z) - u * 0.5 + rest - op.where(small, sum, 0.0)
end
-- The derivative of lgamma; NaN at -1, -2, ...
define("digamma(x: tensor)", "torch.digamma, torch.special.psi", function(x)
  x = as_floats(x)
  local low = op.lt(x, 0.5)
  local folded = op.where(low, 1.0 - x, x)
  local distance = (x - op.round(x)) * math.pi
  local turned = op.cos(distance) / op.sin(distance) * math.pi
  local y = psi(folded) - op.where(low, turned, 0.0)
  y = op.where(op.lt(x, 0.0) & op.eq(distance, 0.0), 0 / 0, y)
  y = op.where(op.eq(x, 0.0), -1.0 / x, y) -- -0.0 gives infinity
  return nn.custom_gradient(y, {x}, function(g) return g * nn.polygamma(x, 1) end)
end)
-- log |Gamma(x)|; infinite at 0, -1, -2, ...
define("lgamma(x: tensor)", "torch.lgamma, torch.special.gammaln", function(x)
  x = as_floats(x)
  local low = op.lt(x, 0.5)
  local value = log_gamma(op.where(low, 1.0 - x, x))
  local turned = 1.1447298858494002 - op.log(sine_of_pi(x)) - value
  local y = op.where(op.eq(op.abs(x), math.huge), math.huge, op.where(low, turned, value))
  return nn.custom_gradient(y, {x}, function(g) return g * nn.digamma(x) end)
end)
-- Hurwitz's sum of (x + k)^-s over k >= 0, for x > 0, by the Euler-Maclaurin formula.
local function hurwitz(s, x)
  local sum, z = 0.0, x + 8.0
  for k = 7, 0, -1 do sum = sum + op.pow(x + (k + 0.0), -s + 0.0) end
  local power, u = op.pow(z, -s + 0.0), 1.0 / z
  local odd = s * (s + 1.0) * (s + 2.0)
  local rest = 1 / 2 + u * (s / 12 - u * u * (odd / 720 -
                            u * u * (odd * (s + 3.0) * (s + 4.0) / 30240)))
  return sum + op.pow(z, -s + 1.0) * (1 / (s - 1.0)) + power * rest
end
-- Hurwitz's zeta function, the sum of (q + k)^-s over k >= 0, for s > 1 and q > 0; differentiable
-- by q only.
define("zeta(s: value, q: value)", "torch.special.zeta", function(s, q)
  s, q = as_floats(s), as_floats(q)
  local y = hurwitz(s, q)
  y = op.where(op.gt(s, 1.0) & op.gt(q, 0.0), y, op.where(op.eq(s, 1.0), math.huge, 0 / 0))
  if not core.is_tensor(q) then return op.stop_gradient(y) end
  return nn.custom_gradient(y, {q}, function(g)
    return tools.unbroadcast(g * nn.zeta(s + 1.0, q) * -s, q)
  end)
end)
-- The n-th derivative of the cotangent c, as a polynomial in c, highest power first: derivative of
-- the previous polynomial times -(1 + c^2).
local function cotangent(n)
  local powers = {1.0, 0.0}
  for _ = 1, n do
    local more = {}
    for i = 1, #powers + 1 do more[i] = 0.0 end
    for i = 1, #powers - 1 do
      local by_c = powers[i] * (#powers - i)
      more[i], more[i + 2] = more[i] - by_c, more[i + 2] - by_c
    end
    powers = more
  end
  return powers
end
-- The n-th derivative of digamma; n = 0 is digamma itself.
define("polygamma(x: tensor, n: amount)", "Tensor.polygamma", function(x, n)
  x = as_floats(x)
  if n == 0 then return nn.digamma(x) end
  local factor = -1.0
  for k = 1, n do factor = -factor * k end
  local y
  if n == 1 then
    local low, sine = op.lt(x, 0.5), sine_of_pi(x)
    local value = hurwitz(2, op.where(low, 1.0 - x, x))
    y = op.where(low, (math.pi * math.pi) / (sine * sine) - value, value)
  else
    local low, distance = op.lt(x, 0.0), (x - op.round(x)) * math.pi
    local value = hurwitz(n + 1, op.where(low, 1.0 - x, x)) * factor
    local turned = polynomial(op.cos(distance) / op.sin(distance), cotangent(n))
    y = op.where(low, value * (-1.0) ^ n - turned * math.pi ^ (n + 1), value)
  end
  return nn.custom_gradient(y, {x}, function(g) return g * nn.polygamma(x, n + 1) end)
end)
-- The logarithm of the multivariate gamma function of p dimensions.
define("mvlgamma|multigammaln(x: tensor, p: count)", "torch.mvlgamma", function(x, p)
  if p > 256 then fail("mvlgamma: p = %d: at most 256, a term for each", p) end
  local sum = p * (p - 1) / 4 * math.log(math.pi)
  for k = 1, p do sum = nn.lgamma(x - (k - 1) / 2) + sum end
  return sum
end)

-- ---- the incomplete gamma functions -------------------------------------------------------------

-- The number of terms for single precision with a up to 100 and x near a.
local terms = 64

-- Both regularised incomplete functions, lower and upper.
local function shares(a, x)
  local z = op.max(x, 1e-30)
  local below = op.lt(z, a + 1.0)
  local front = op.exp(op.log(z) * a - z - nn.lgamma(a)) -- x^a e^-x / Gamma(a)
  local near = op.where(below, z, 1.0) -- each form only where it converges
  local far = op.where(below, a + 1.0, z)
  local series = 1.0
  for k = terms, 1, -1 do series = near / (a + (k + 0.0)) * series + 1.0 end
  local fraction = far + (2.0 * terms + 1.0) - a
  for k = terms, 1, -1 do
    fraction = (far + (2.0 * k - 1.0) - a) - (k + 0.0) * ((k + 0.0) - a) / fraction
  end
  local low, high = front * series / a, front / fraction
  low, high = op.where(below, low, 1.0 - high), op.where(below, 1.0 - low, high)
  local infinite, wrong = op.eq(x, math.huge), op.lt(x, 0.0) | op.lt(a, 0.0)
  low = op.where(wrong, 0 / 0, op.where(infinite, 1.0, op.where(op.eq(x, 0.0), 0.0, low)))
  high = op.where(wrong, 0 / 0, op.where(infinite, 0.0, op.where(op.eq(x, 0.0), 1.0, high)))
  return low, high
end
local function with_density(y, a, x, sign) -- y, with derivative sign * density by x
  return nn.custom_gradient(y, {a, x}, function(g)
    local density = op.exp(op.log(x) * (a - 1.0) - x - nn.lgamma(a))
    return nil, tools.unbroadcast(g * density * sign, x)
  end)
end
-- The regularised lower incomplete gamma function for a > 0, up to 100, and x >= 0; differentiable
-- by x only.
define("igamma|gammainc(a: tensor, x: tensor)", "torch.igamma", function(a, x)
  a, x = as_floats(a), as_floats(x)
  local low = shares(a, x)
  return with_density(low, a, x, 1.0)
end)
-- 1 - igamma, accurate where that is small.
define("igammac|gammaincc(a: tensor, x: tensor)", "torch.igammac", function(a, x)
  a, x = as_floats(a), as_floats(x)
  local _, high = shares(a, x)
  return with_density(high, a, x, -1.0)
end)

-- ---- integers, and parts of floats --------------------------------------------------------------

local function wholes(name, x)
  if core.is_tensor(x) and is_float(x) then
    fail("%s: expected integers, got %s; x:to(\"i32\") converts", name, core.dtype(x))
  end
  return x
end
-- The greatest common divisor, by Euclid's algorithm: 46 steps suffice for 32-bit integers.
define("gcd(x: tensor, y: tensor)", "torch.gcd", function(x, y)
  local a, b = op.abs(wholes("gcd", x)), op.abs(wholes("gcd", y))
  for _ = 1, 46 do a, b = op.where(op.eq(b, 0), a, b), op.mod(a, b) end
  return a
end)
-- The least common multiple.
define("lcm(x: tensor, y: tensor)", "torch.lcm", function(x, y)
  return op.abs(op.floordiv(x, op.max(nn.gcd(x, y), 1)) * y)
end)

-- 2 to the power of an integer from -126 to 127, exact.
local function power_of_two(e) return op.pow(2.0, e) end

-- x = mantissa * 2^exponent, with 0.5 <= mantissa < 1 (0 for 0): two results, the exponent as i32.
define("frexp(x: tensor)", "torch.frexp", function(given)
  local x = nn.to(floats("frexp", given), "f32")
  local plain = op.ne(x, 0.0) & op.lt(op.abs(x), math.huge)
  local size = op.where(plain, op.abs(x), 0.5)
  local tiny = op.lt(size, 0x1p-100)
  size = op.where(tiny, size * 0x1p64, size)
  local e = op.floor(op.log(size) * 1.4426950408889634) + 1.0 -- off by at most one
  local half = op.floor(e * 0.5) -- 2^-e may overflow
  local m = size * power_of_two(-half) * power_of_two(half - e)
  local low, high = op.lt(m, 0.5), op.ge(m, 1.0)
  e = e - nn.to(low, "f32") + nn.to(high, "f32")
  m = op.where(low, m * 2.0, op.where(high, m * 0.5, m))
  local mantissa = op.where(plain, op.where(op.lt(x, 0.0), -m, m), x)
  e = op.where(plain, e - op.where(tiny, 64.0, 0.0), 0.0)
  mantissa = nn.custom_gradient(mantissa, {x}, function(g)
    local part = op.floor(e * 0.5)
    return g * power_of_two(-part) * power_of_two(part - e)
  end)
  return tools.as_floats_of(given, mantissa), nn.to(e, "i32")
end)
-- Per float dtype: mantissa bits, exponent of the smallest number, largest number.
local formats = {f32 = {24, -149, 0x1.fffffep127}, f16 = {11, -24, 65504.0},
                 bf16 = {8, -133, 0x1.fep127}}
-- The float next to x in the direction of y.
define("nextafter(x: tensor, y: value)", "torch.nextafter", function(x, y)
  local like = op.add(floats("nextafter", x), y)
  local bits, lowest, most = table.unpack(formats[core.dtype(like)])
  local least = 2.0 ^ lowest
  x, y = nn.to(x, "f32"), core.is_tensor(y) and nn.to(y, "f32") or y
  local mantissa, e = nn.frexp(x)
  local up = op.lt(x, y)
  local inward = op.ne(op.lt(x, 0.0), op.ge(x, y)) -- toward 0
  local half = inward & op.eq(op.abs(mantissa), 0.5) -- floats below a power of two are closer
  local places = op.max(nn.to(e, "f32") - op.where(half, bits + 1.0, bits + 0.0), lowest + 0.0)
  local part = op.floor(places * 0.5)
  local step = power_of_two(part) * power_of_two(places - part)
  local next = x + op.where(up, step, -step)
  next = op.where(op.eq(x, 0.0), op.where(up, least, -least), next)
  next = op.where(op.eq(op.abs(x), math.huge), op.where(up, -most, most), next)
  next = op.where(op.eq(x, y), y, op.where(op.ne(x, x) | op.ne(y, y), 0 / 0, next))
  return tools.as_floats_of(like, next)
end)
