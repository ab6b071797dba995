-- ref.lua: the functions available to `ref` and `grad` of an op row. On numbers they compute. On
-- traced values they record, so that a row's `ref` becomes a short program that the oracle (eval.c)
-- runs over whole arrays; trace() calls it.

local Value = {} -- metatable of a traced value { slot = index into the program's values }
local program    -- instructions { code, a, b, c } while tracing; slots count from 0

local function record(code, ...)
  local instruction = {code}
  for i, x in ipairs{...} do
    if type(x) == "number" then x = record("const", {x}) end
    instruction[i + 1] = getmetatable(x) == Value and x.slot or x[1]
  end
  program.count = program.count + 1
  program[#program + 1] = instruction
  return setmetatable({slot = program.count - 1}, Value)
end

local function traced(...)
  for i = 1, select("#", ...) do
    if getmetatable((select(i, ...))) == Value then return true end
  end
end

-- The function `code`: recorded if an argument is traced, an op if it is a tensor (on_tensors, set
-- by nn.lua), else computed by `compute`.
local computed = {}
local function define(code, compute)
  computed[code] = compute
  return function(...)
    if traced(...) then return record(code, ...) end
    for i = 1, select("#", ...) do
      if type((select(i, ...))) == "userdata" then return on_tensors(code, ...) end
    end
    return compute(...)
  end
end

Value.__add = define("add", function(a, b) return a + b end)
Value.__sub = define("sub", function(a, b) return a - b end)
Value.__mul = define("mul", function(a, b) return a * b end)
Value.__div = define("div", function(a, b) return a / b end)
Value.__pow = define("pow", function(a, b) return a ^ b end)
Value.__unm = define("neg", function(a) return -a end)
local function no_branch() error("a traced value has no truth: use where, lt, le, eq") end
Value.__lt, Value.__le, Value.__eq, Value.__index = no_branch, no_branch, no_branch, no_branch

local function bit(condition) return condition and 1 or 0 end
lt = define("lt", function(a, b) return bit(a < b) end)
le = define("le", function(a, b) return bit(a <= b) end)
eq = define("eq", function(a, b) return bit(a == b) end)
gt = function(a, b) return lt(b, a) end
ge = function(a, b) return le(b, a) end
where = define("where", function(c, a, b) if c ~= 0 then return a end return b end)

-- NaN propagates from either side.
local function pick(a, b, better) if a ~= a or (b == b and better) then return a end return b end
local lua_floor, lua_atan = math.floor, math.atan
-- For any number of arguments, as in Lua.
local function extreme(code, better)
  local of_two = define(code, function(a, b) return pick(a, b, better(a, b)) end)
  return function(first, ...)
    if first == nil then error(code .. ": expected numbers", 2) end
    for i = 1, select("#", ...) do first = of_two(first, (select(i, ...))) end
    return first
  end
end
math.max = extreme("max", function(a, b) return a > b end)
math.min = extreme("min", function(a, b) return a < b end)
math.abs = define("abs", math.abs)
math.exp = define("exp", math.exp)
math.log = define("log", math.log)
math.sqrt = define("sqrt", math.sqrt)
math.sin = define("sin", math.sin)
math.cos = define("cos", math.cos)
floor = define("floor", function(x) return x == x and x - x == 0 and lua_floor(x) + 0.0 or x end)
tanh = define("tanh", function(x)
  if x > 20 then return 1 elseif x < -20 then return -1 end
  local e = 2.718281828459045 ^ (2 * x)
  return (e - 1) / (e + 1)
end)
-- The remainder of a / b, exact, with the sign of b.
mod = define("mod", function(a, b)
  a, b = a + 0.0, b + 0.0
  local rest = math.fmod(a, b)
  return rest ~= 0 and (rest < 0) ~= (b < 0) and rest + b or rest
end)
-- Series about 0, continued fraction beyond 3 (Abramowitz and Stegun 7.1.6, 7.1.14).
erf = define("erf", function(x)
  if x ~= x then return x end
  local z = x < 0 and -x or x
  local y
  if z < 3 then
    local term, sum, n = z, z, 0
    repeat
      n = n + 1
      term = term * 2 * z * z / (2 * n + 1)
      sum = sum + term
    until term < 1e-17 * sum or n > 200
    y = sum * 1.1283791670955126 * 2.718281828459045 ^ (-z * z)
  else
    local fraction = z
    for k = 60, 1, -1 do fraction = z + k / 2 / fraction end
    y = 1 - 2.718281828459045 ^ (-z * z) / (fraction * 1.772453850905516)
  end
  return x < 0 and -y or y
end)
-- Approximations good enough for tracing; the oracle uses the C library's.
log1p = define("log1p", function(x)
  local u = 1 + x
  return u == 1 and x or u == math.huge and u or computed.log(u) * x / (u - 1)
end)
expm1 = define("expm1", function(x)
  if x > -1e-5 and x < 1e-5 then return x + x * x / 2 end
  return computed.exp(x) - 1
end)
erfc = define("erfc", function(x) return 1 - computed.erf(x) end)
atan = define("atan", lua_atan)
atan2 = define("atan2", lua_atan)
exp, log, sin, cos, abs, sqrt = math.exp, math.log, math.sin, math.cos, math.abs, math.sqrt
-- On a tensor it is the op, whose derivative is finite where exp(-x) overflows.
sigmoid = function(x)
  return type(x) == "userdata" and on_tensors("sigmoid", x) or 1 / (1 + math.exp(-x))
end

-- Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): four words of
-- 32 bits from a counter of four and a key of two.
function philox(c0, c1, c2, c3, k0, k1)
  local mask = 0xffffffff
  for round = 1, 10 do
    local p0, p1 = 0xd2511f53 * c0, 0xcd9e8d57 * c2
    c0, c1, c2, c3 = (p1 >> 32) ~ c1 ~ k0, p1 & mask, (p0 >> 32) ~ c3 ~ k1, p0 & mask
    k0, k1 = (k0 + 0x9e3779b9) & mask, (k1 + 0xbb67ae85) & mask
  end
  return c0, c1, c2, c3
end

-- The random words of one draw of a model at a position.
local function words(i, step, seed, draw)
  local mask = 0xffffffff
  local function word(x) return math.tointeger(x) & mask end
  return philox(word(i), 0, word(draw), 0, word(seed), word(step))
end
function philox_uniform(i, step, seed, draw) return (words(i, step, seed, draw) >> 8) / 16777216 end
function philox_normal(i, step, seed, draw)
  local a, b = words(i, step, seed, draw)
  local u, v = ((a >> 8) + 1) / 16777216, (b >> 8) / 16777216
  return math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
end

-- Runs the instructions on numbers, to compare with the function they were traced from.
local function replay(code, nin, inputs)
  local v = {}
  for i = 1, nin do v[i - 1] = inputs[i] end
  for i, ins in ipairs(code) do
    if ins[1] == "const" then v[nin + i - 1] = ins[2]
    else
      v[nin + i - 1] = computed[ins[1]](v[ins[2]], ins[3] and v[ins[3]], ins[4] and v[ins[4]])
    end
  end
  return v[#code + nin - 1]
end

local samples = {-2.5, -1, -0.3, 0, 0.4, 1, 3.25}

-- trace(f, nin) -> list of instructions, the last one the result; nil if f branches on its input or
-- the program's results differ from f's.
function trace(f, nin)
  program = {count = nin}
  local inputs = {}
  for i = 1, nin do inputs[i] = setmetatable({slot = i - 1}, Value) end
  local ok, result = pcall(f, table.unpack(inputs))
  local code = program
  program = nil
  if not ok then return nil end
  if getmetatable(result) ~= Value then return nil end
  code[#code + 1] = {"copy", result.slot}
  computed.copy = function(a) return a end
  for i = 1, #samples do
    local x = {}
    for j = 1, nin do x[j] = samples[(i * j + j) % #samples + 1] end
    local fine, want = pcall(f, table.unpack(x))
    if not fine then return nil end
    local got = replay(code, nin, x)
    if want ~= got and (want == want or got == got) then return nil end
  end
  return code
end
