-- nn_math.lua: element-wise functions, of the module `nn` (nn.lua): arguments broadcast as NumPy's.
-- Integers stay integers where PyTorch keeps them.
local core, nn = ...
local op, tools = core.op, core.tools
local fail, define, is_tensor = tools.fail, tools.define, core.is_tensor

local function is_float(x)
  return is_tensor(x) and core.dtype(x):find("f") ~= nil or math.type(x) == "float"
end
tools.is_float = is_float

-- y converted to the dtype of x, if x is floats.
function tools.as_floats_of(x, y)
  local dtype = core.dtype(x)
  return is_float(x) and core.dtype(y) ~= dtype and nn.to(y, dtype) or y
end

-- Integers unchanged, f of floats.
local function of_floats(f) return function(x) return is_float(x) and f(x) or x end end
local function both(f) return function(x, y) return f(x, y) end end

-- y, an i32 computed from a and b, as u8 if these promote to u8.
local function of_bytes(y, a, b)
  local bytes = core.dtype(op.add(a, b)) == "u8"
  return bytes and op.to(y, {dtype = core.dtype_number("u8")}) or y
end

-- ---- arithmetic -------------------------------------------------------------------------------

local function scaled(f)
  return function(x, y, o)
    if o.alpha ~= 1 then y = y * o.alpha end
    return f(x, y)
  end
end
-- x + alpha * y.
define("add(x: value, y: value, {alpha: value = 1})", "torch.add", scaled(op.add))
-- x - alpha * y.
define("sub|subtract(x: value, y: value, {alpha: value = 1})", "torch.sub", scaled(op.sub))
-- y - alpha * x.
define("rsub(x: value, y: value, {alpha: value = 1})", "torch.rsub", function(x, y, o)
  return op.sub(y, o.alpha ~= 1 and x * o.alpha or x)
end)
define("mul|multiply(x: value, y: value)", "torch.mul", both(op.mul))
-- For integers: is there a remainder and a negative quotient? Compares signs, as |-2^31| overflows.
local function apart(rest, x, y)
  return op.logical_and(op.ne(rest, 0), op.ne(op.lt(x, 0), op.lt(y, 0)))
end
-- x / y as floats; with rounding_mode "floor" or "trunc" the rounded quotient, an integer for
-- integers.
define("div|divide|true_divide(x: value, y: value, {rounding_mode: none/floor/trunc = none})",
       "torch.div", function(x, y, o)
  if o.rounding_mode == "floor" then return op.floordiv(x, y) end
  if o.rounding_mode == "none" then return op.div(x, y) end
  if is_float(x) or is_float(y) then return op.trunc(op.div(x, y)) end
  local below = op.floordiv(x, y)
  return of_bytes(below + op.where(apart(x - below * y, x, y), 1, 0), x, y)
end)
-- Division rounded toward minus infinity, a // b; by the integer 0: 0.
define("floordiv|floor_divide(x: value, y: value)", "torch.floor_divide", both(op.floordiv))
-- Remainder with the sign of y, as Python's %; by the integer 0: 0.
define("mod|remainder(x: value, y: value)", "torch.remainder", both(op.mod))
-- Remainder with the sign of x, as C's fmod.
define("fmod(x: value, y: value)", "torch.fmod", function(x, y)
  if is_float(x) or is_float(y) then
    local below = op.lt(x, 0) -- unlike |x|, it has the derivative 1 at 0
    local rest = op.mod(op.where(below, -x, x), op.abs(y))
    return op.where(below, -rest, rest)
  end
  local rest = op.mod(x, y)
  return op.where(apart(rest, x, y), rest - y, rest)
end)
-- x to the power y; integers to integer powers stay integers, modulo 2^32.
define("pow(x: value, y: value)", "torch.pow", function(x, y)
  if is_float(x) or is_float(y) then return op.pow(x, y) end
  if math.type(y) and y < 0 then
    fail("pow: an integer to the power %d is not an integer; x:to(\"f32\") converts to floats", y)
  end
  return of_bytes(op.int_pow(x, y), x, y)
end)
-- x to the power y, as floats.
define("float_power(x: value, y: value)", "torch.float_power", both(op.pow))
define("neg|negative(x: tensor)", "torch.neg", op.neg)
-- x itself.
define("positive|identity|clone|contiguous(x: tensor)",
       "torch.positive, nn.Identity, Tensor.clone, Tensor.contiguous", function(x) return x end)
define("abs|absolute(x: tensor)", "torch.abs", op.abs)
-- -1, 0 or 1; 0 for NaN.
define("sign|sgn(x: tensor)", "torch.sign", op.sign)
define("square(x: tensor)", "torch.square", function(x)
  if core.dtype(x) == "bool" then x = nn.to(x, "i32") end
  return x * x
end)
define("reciprocal(x: tensor)", "torch.reciprocal", function(x) return 1.0 / x end)
define("sqrt(x: tensor)", "torch.sqrt", op.sqrt)
define("rsqrt(x: tensor)", "torch.rsqrt", op.rsqrt)
-- x + (y - x) * weight.
define("lerp(x: tensor, y: tensor, weight: value)", "torch.lerp", function(x, y, weight)
  return x + (y - x) * weight
end)
-- x + value * a * b.
define("addcmul(x: tensor, a: tensor, b: tensor, {value: number = 1})",
       "torch.addcmul", function(x, a, b, o)
  return x + a * b * o.value
end)
-- x + value * a / b.
define("addcdiv(x: tensor, a: tensor, b: tensor, {value: number = 1})",
       "torch.addcdiv", function(x, a, b, o)
  return x + a / b * o.value
end)
-- x * 2^y.
define("ldexp(x: tensor, y: value)", "torch.ldexp", function(x, y) return x * op.pow(2.0, y) end)
-- sqrt(x^2 + y^2), without the squares leaving the range of floats.
define("hypot(x: value, y: value)", "torch.hypot", function(x, y)
  local a, b = op.abs(x), op.abs(y)
  local most, least = op.maximum(a, b), op.minimum(a, b)
  local ratio = least / op.where(op.eq(most, 0), 1.0, most)
  return op.where(op.eq(most, math.huge), math.huge, most * op.sqrt(ratio * ratio + 1.0))
end)

-- ---- comparisons and logic, which give bools --------------------------------------------------

define("lt|less(x: value, y: value)", "torch.lt", both(op.lt))
define("le|less_equal(x: value, y: value)", "torch.le", both(op.le))
define("gt|greater(x: value, y: value)", "torch.gt", both(op.gt))
define("ge|greater_equal(x: value, y: value)", "torch.ge", both(op.ge))
define("eq(x: value, y: value)", "torch.eq", both(op.eq))
define("ne|not_equal(x: value, y: value)", "torch.ne", both(op.ne))
define("isnan(x: tensor)", "torch.isnan", function(x) return op.ne(x, x) end)
define("isinf(x: tensor)", "torch.isinf", function(x) return op.eq(op.abs(x), math.huge) end)
define("isfinite(x: tensor)", "torch.isfinite", function(x) return op.lt(op.abs(x), math.huge) end)
define("isposinf(x: tensor)", "torch.isposinf", function(x) return op.eq(x, math.huge) end)
define("isneginf(x: tensor)", "torch.isneginf", function(x) return op.eq(x, -math.huge) end)
-- |x - y| <= atol + rtol * |y|.
define([[isclose(x: tensor, y: tensor, rtol: number = 1e-5, atol: number = 1e-8,
       equal_nan: boolean = false)]], "torch.isclose", function(x, y, rtol, atol, equal_nan)
  local close = op.le(op.abs(x - y), op.abs(y) * rtol + atol) & op.lt(op.abs(y), math.huge)
  close = close | op.eq(x, y)
  return equal_nan and close | (op.ne(x, x) & op.ne(y, y)) or close
end)
-- Are all elements close? One bool, by isclose.
define([[allclose(x: tensor, y: tensor, rtol: number = 1e-5, atol: number = 1e-8,
       equal_nan: boolean = false)]], "torch.allclose", function(x, y, rtol, atol, equal_nan)
         return nn.all(nn.isclose(x, y, rtol, atol, equal_nan))
       end)
-- Equal shape and elements? One bool; NaN is not equal to itself.
define("equal(x: tensor, y: tensor)", "torch.equal", function(x, y)
  if table.concat(core.shape(x), ",") ~= table.concat(core.shape(y), ",") then
    return nn.zeros({}, {dtype = "bool"})
  end
  return nn.all(op.eq(x, y))
end)
define("logical_and(x: value, y: value)", "torch.logical_and", both(op.logical_and))
define("logical_or(x: value, y: value)", "torch.logical_or", both(op.logical_or))
define("logical_xor(x: value, y: value)", "torch.logical_xor", both(op.logical_xor))
define("logical_not(x: tensor)", "torch.logical_not", op.logical_not)
-- Bitwise for integers; logical for bools. These are the operators & | ~, too.
local operators = {}
local function no_floats(name, ...)
  for _, v in ipairs{...} do
    if is_float(v) then
      fail("%s: expected integers or bools, not floats; nn.lt, nn.ne and so on return bools", name)
    end
  end
end
local function bitwise(name, of_bools, of_integers)
  operators[name] = function(x, y)
    no_floats(name, x, y)
    local function is_bool(v) return is_tensor(v) and core.dtype(v) == "bool" end
    return is_bool(x) and is_bool(y) and of_bools(x, y) or of_bytes(of_integers(x, y), x, y)
  end
  return operators[name]
end
local function shift(name, f)
  operators[name] = function(x, places)
    no_floats(name, x, places)
    if not is_tensor(places) and (places < 0 or places > 31) then
      fail("%s: by %d places: expected 0 to 31, integers have 32 bits", name, places)
    end
    return of_bytes(f(x, places), x, places)
  end
  return operators[name]
end
define("bitwise_and(x: value, y: value)",
       "torch.bitwise_and", bitwise("bitwise_and", op.logical_and, op.bit_and))
define("bitwise_or(x: value, y: value)",
       "torch.bitwise_or", bitwise("bitwise_or", op.logical_or, op.bit_or))
define("bitwise_xor(x: value, y: value)",
       "torch.bitwise_xor", bitwise("bitwise_xor", op.logical_xor, op.bit_xor))
define("bitwise_not(x: tensor)", "torch.bitwise_not", function(x)
  return operators.bitwise_not(x)
end)
function operators.bitwise_not(x)
  no_floats("bitwise_not", x)
  return core.dtype(x) == "bool" and op.logical_not(x) or -x - 1
end
-- Shift left by 0 to 31 bits; 0 for other shifts in a tensor.
define("bitwise_left_shift(x: value, places: value)",
       "torch.bitwise_left_shift", shift("bitwise_left_shift", op.shift_left))
-- Arithmetic shift right by 0 to 31 bits; only the sign remains for other shifts in a tensor.
define("bitwise_right_shift(x: value, places: value)",
       "torch.bitwise_right_shift", shift("bitwise_right_shift", op.shift_right))
local meta = core.meta
meta.__band, meta.__bor = operators.bitwise_and, operators.bitwise_or
meta.__bxor, meta.__bnot = operators.bitwise_xor, operators.bitwise_not
meta.__shl, meta.__shr = operators.bitwise_left_shift, operators.bitwise_right_shift
-- a where the condition holds, else b.
define("where(condition: condition, a: value, b: value)", "torch.where", op.where)
-- A number or boolean converted to x's dtype, for integers truncated toward zero; a tensor as it
-- is.
function tools.as_element(what, v, x)
  if type(v) == "boolean" then v = v and 1 or 0 end
  if math.type(v) == "integer" and is_float(x) then return v + 0.0 end
  if math.type(v) ~= "float" or is_float(x) then return v end
  if v - v ~= 0 then fail("%s: %s holds no %g", what, tostring(x), v) end
  return v < 0 and math.ceil(v) or math.floor(v)
end
-- value where mask is true, else x; x keeps its dtype: for integers a number is truncated toward
-- zero.
define("masked_fill(x: tensor, mask: condition, value: element)",
       "Tensor.masked_fill", function(x, mask, value)
  local y, dtype = op.where(mask, tools.as_element("masked_fill", value, x), x), core.dtype(x)
  return core.dtype(y) == dtype and y or nn.to(y, dtype)
end)

-- ---- bounds -----------------------------------------------------------------------------------

-- With two tensors, or a tensor and a number: the element-wise maximum; NaN if either is. With one
-- tensor its largest element; with `axis` the largest along it and their positions, as torch.max.
local function extreme(name, bounded, of_two, reduce, place)
  return function(x, y, o)
    if y ~= nil then
      if o.axis or o.keep then fail("%s: two tensors take no axis", name) end
      local axes = is_tensor(x) and is_float(x) and #core.shape(x) or 0
      if math.type(y) == "integer" and y ~= 0 and math.abs(y) <= axes then
        fail("%s: is %d an axis or a number? %s{axis = %d} or %s(%d.0)", name, y, name, y, name, y)
      end
      return is_tensor(x) and is_tensor(y) and of_two(x, y) or bounded(x, y)
    end
    if not is_tensor(x) then fail("%s: expected a tensor", name) end
    if not o.axis then return nn[reduce](x, nil, o.keep) end
    if #core.shape(x) == 0 then x, o.keep = nn.ravel(x), false end
    local most, at = nn[reduce](x, o.axis, true), nn[place](x, o.axis, true)
    if math.type(o.axis) then -- only the element at that position gets the gradient
      local axis = tools.axis(name .. ": axis", o.axis, x)
      nn.custom_gradient(most, {x}, function(g)
        return op.where(op.eq(nn.index(core.shape(x), axis), at), g, 0.0)
      end)
    end
    if o.keep then return most, at end
    return nn.squeeze(most, o.axis), nn.squeeze(at, o.axis)
  end
end
define("max|maximum(x: value, y: value = nil, {axis: any = nil, keep|keepdim: boolean = false})",
       "torch.max, torch.maximum",
       extreme("max", op.max, op.maximum, "amax", "argmax"))
-- The minimum: element-wise, of all elements, or along `axis`, as max.
define("min|minimum(x: value, y: value = nil, {axis: any = nil, keep|keepdim: boolean = false})",
       "torch.min, torch.minimum",
       extreme("min", op.min, op.minimum, "amin", "argmin"))
-- The larger of two numbers; if one is NaN, the other.
define("fmax(x: value, y: value)", "torch.fmax", function(x, y)
  return op.where(op.ne(x, x), y, op.where(op.ne(y, y), x, op.max(x, y)))
end)
define("fmin(x: value, y: value)", "torch.fmin", function(x, y)
  return op.where(op.ne(x, x), y, op.where(op.ne(y, y), x, op.min(x, y)))
end)
-- x clamped to low .. high; either is optional.
define("clamp|clip(x: tensor, low|min: value = nil, high|max: value = nil)",
       "torch.clamp", function(x, low, high)
  if low == nil and high == nil then fail("clamp: expected low, high or both") end
  if low then x = op.max(x, low) end
  if high then x = op.min(x, high) end
  return x
end)
define("clamp_min(x: tensor, low|min: value)", "torch.clamp_min", function(x, low)
  return op.max(x, low)
end)
define("clamp_max(x: tensor, high|max: value)", "torch.clamp_max", function(x, high)
  return op.min(x, high)
end)
-- Replaces NaN and infinities; by default infinities become the largest floats.
define("nan_to_num(x: tensor, nan: number = 0, posinf: number = nil, neginf: number = nil)",
       "torch.nan_to_num",
       function(x, nan, posinf, neginf)
  if not is_float(x) then return x end
  local most = core.dtype(x) == "f16" and 65504.0 or 3.4028234663852886e38
  x = op.where(op.ne(x, x), nan + 0.0, x)
  x = op.where(op.eq(x, math.huge), (posinf or most) + 0.0, x)
  return op.where(op.eq(x, -math.huge), (neginf or -most) + 0.0, x)
end)

-- ---- rounding ---------------------------------------------------------------------------------

define("floor(x: tensor)", "torch.floor", of_floats(op.floor))
define("ceil(x: tensor)", "torch.ceil", of_floats(op.ceil))
-- Rounds toward zero.
define("trunc|fix(x: tensor)", "torch.trunc", of_floats(op.trunc))
-- Rounds to the nearest integer, halves to even; with `decimals` to that many decimal places.
define("round(x: tensor, {decimals: whole = 0})", "torch.round", function(x, o)
  if not is_float(x) then
    if o.decimals ~= 0 then fail("round: %s are integers; decimals are of floats", tostring(x)) end
    return x
  end
  if o.decimals == 0 then return op.round(x) end
  local ten = 10.0 ^ math.abs(o.decimals)
  if o.decimals > 0 then return op.round(x * ten) / ten end
  return op.round(x / ten) * ten
end)
-- x - trunc(x).
define("frac(x: tensor)", "torch.frac", function(x) return x - op.trunc(x) end)

-- ---- exponentials and logarithms --------------------------------------------------------------

define("exp(x: tensor)", "torch.exp", op.exp)
define("exp2(x: tensor)", "torch.exp2", function(x) return op.pow(2.0, x) end)
-- exp(x) - 1, accurate near 0.
define("expm1(x: tensor)", "torch.expm1", op.expm1)
define("log(x: tensor)", "torch.log", op.log)
-- log(1 + x), accurate near 0.
define("log1p(x: tensor)", "torch.log1p", op.log1p)
define("log2(x: tensor)", "torch.log2", function(x) return op.log(x) * 1.4426950408889634 end)
define("log10(x: tensor)", "torch.log10", function(x) return op.log(x) * 0.4342944819032518 end)
-- x * f(y), where f, a logarithm, is finite for y > `least`; otherwise 0 if x is 0, NaN if y is
-- NaN. The dtype is that of the promotion of x and y.
function tools.times_log(x, y, log, least)
  local zero = op.eq(x, 0) & (op.le(y, least) | op.eq(y, math.huge))
  local product = x * log(op.where(zero, least + 1.0, y))
  local result = op.where(op.ne(y, y), y, op.where(zero, 0.0, product))
  return tools.as_floats_of(op.add(x, y), result)
end
-- x * log(y); 0 where x is 0.
define("xlogy(x: value, y: value)", "torch.xlogy", function(x, y)
  return tools.times_log(x, y, op.log, 0.0)
end)
local function logaddexp(x, y, scale) -- logarithms of exp(scale * x)
  local most = op.maximum(x, y)
  local apart = op.abs(x - y)
  local near = op.where(op.eq(x, y), 0.0, apart) -- equal infinities
  local sum = most + op.log1p(op.exp(near * -scale)) * (1 / scale)
  return nn.custom_gradient(sum, {x, y}, function(g) -- |x - y| has no derivative at 0
    local infinite = op.eq(x, y) & op.eq(op.abs(x), math.huge)
    local more = op.where(infinite, 0.0, x - y) * scale
    return tools.unbroadcast(g * op.sigmoid(more), x), tools.unbroadcast(g * op.sigmoid(-more), y)
  end)
end
-- log(exp(x) + exp(y)).
define("logaddexp(x: tensor, y: tensor)", "torch.logaddexp", function(x, y)
  return logaddexp(x, y, 1.0)
end)
-- log2(2^x + 2^y).
define("logaddexp2(x: tensor, y: tensor)", "torch.logaddexp2", function(x, y)
  return logaddexp(x, y, math.log(2))
end)
-- log(x / (1 - x)); with eps x is clamped to eps .. 1 - eps.
define("logit(x: tensor, eps: number = nil)", "torch.logit", function(x, eps)
  if eps then x = op.min(op.max(x, eps), 1.0 - eps) end
  return nn.custom_gradient(op.log(x / (1.0 - x)), {x}, function(g)
    return op.where(op.lt(x, 0.0) | op.gt(x, 1.0), 0 / 0, g / (x * (1.0 - x)))
  end)
end)

-- ---- trigonometry -----------------------------------------------------------------------------

define("sin(x: tensor)", "torch.sin", op.sin)
define("cos(x: tensor)", "torch.cos", op.cos)
define("tan(x: tensor)", "torch.tan", function(x) return op.sin(x) / op.cos(x) end)
define("atan|arctan(x: tensor)", "torch.atan", op.atan)
-- The angle of the point (x, y), atan2.
define("atan2|arctan2(y: value, x: value)", "torch.atan2", both(op.atan2))
define("asin|arcsin(x: tensor)", "torch.asin", function(x)
  local side = op.sqrt((1.0 - x) * (x + 1.0))
  return nn.custom_gradient(op.atan2(x, side), {x}, function(g) return g / side end)
end)
define("acos|arccos(x: tensor)", "torch.acos", function(x)
  local side = op.sqrt((1.0 - x) * (x + 1.0))
  return nn.custom_gradient(op.atan2(side, x), {x}, function(g) return -g / side end)
end)
-- (e^x - e^-x) / 2, accurate near 0.
define("sinh(x: tensor)", "torch.sinh", function(x)
  -- e^|x| - 1 = half (half + 2) overflows no earlier than sinh
  local half = op.expm1(op.abs(x) * 0.5)
  local whole = half * (half + 2.0)
  local small = (whole + whole / (whole + 1.0)) * 0.5
  local large = (half + 1.0) * ((half + 1.0) * 0.5)
  return nn.custom_gradient(op.sign(x) * op.where(op.lt(op.abs(x), 20.0), small, large), {x},
                            function(g) return g * nn.cosh(x) end)
end)
define("cosh(x: tensor)", "torch.cosh", function(x)
  local half = op.exp(op.abs(x) * 0.5)
  return nn.custom_gradient(half * (half * 0.5) + 0.5 / half / half, {x},
                            function(g) return g * nn.sinh(x) end)
end)
define("tanh(x: tensor)", "torch.tanh, nn.Tanh", op.tanh)
define("asinh|arcsinh(x: tensor)", "torch.asinh", function(x)
  local a = op.abs(x)
  local far = op.log(a) + math.log(2) -- where a * a overflows
  local b = op.min(a, 1e9)
  local near = op.log1p(b + b * b / (op.sqrt(b * b + 1.0) + 1.0))
  return nn.custom_gradient(op.sign(x) * op.where(op.lt(a, 1e9), near, far), {x},
                            function(g) return g * op.rsqrt(x * x + 1.0) end)
end)
define("acosh|arccosh(x: tensor)", "torch.acosh", function(x)
  local over = op.min(x, 1e9) - 1.0
  local near = op.log1p(over + op.sqrt(over) * op.sqrt(over + 2.0)) -- NaN below 1
  return nn.custom_gradient(op.where(op.gt(x, 1e9), op.log(x) + math.log(2), near), {x},
                            function(g) return g * op.rsqrt((x - 1.0) * (x + 1.0)) end)
end)
define("atanh|arctanh(x: tensor)", "torch.atanh", function(x)
  return nn.custom_gradient(op.log1p(x * 2.0 / (1.0 - x)) * 0.5, {x},
                            function(g) return g / ((1.0 - x) * (x + 1.0)) end)
end)
-- Degrees to radians.
define("deg2rad(x: tensor)", "torch.deg2rad", function(x) return x * (math.pi / 180) end)
-- Radians to degrees.
define("rad2deg(x: tensor)", "torch.rad2deg", function(x) return x * (180 / math.pi) end)
-- sin(pi x) / (pi x), 1 at 0.
define("sinc(x: tensor)", "torch.sinc", function(x)
  local zero = op.eq(x, 0)
  local angle = op.where(zero, 1.0, x) * math.pi
  return op.where(zero, 1.0, op.sin(angle) / angle)
end)

-- ---- other functions --------------------------------------------------------------------------

define("erf(x: tensor)", "torch.erf", op.erf)
-- 1 - erf(x), accurate where that is small.
define("erfc(x: tensor)", "torch.erfc", op.erfc)
-- The step function: 0 below 0, 1 above, `at_zero` at 0.
define("heaviside(x: tensor, at_zero|values: value)", "torch.heaviside", function(x, at_zero)
  return op.where(op.eq(x, 0), at_zero, op.gt(x, 0):to(core.dtype(x)))
end)
-- |x| with the sign of y, as floats; -0.0 counts as negative.
define("copysign(x: value, y: value)", "torch.copysign", function(x, y)
  local dtype = core.dtype(op.add(x, y))
  if not dtype:find("f") then dtype = "f32" end
  local own = is_tensor(x) and core.dtype(x) or is_float(x) and "f32"
  local size = op.abs(own == dtype and x or op.to(x, {dtype = core.dtype_number(dtype)}))
  return op.where(nn.signbit(y), -size, size)
end)
-- Is the sign negative? True for -0.0.
define("signbit(x: value)", "torch.signbit", function(x)
  if not is_float(x) then return op.lt(x, 0) end
  return op.lt(x, 0) | (op.eq(x, 0) & op.lt(1.0 / x, 0))
end)
