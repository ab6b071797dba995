-- ops.lua: the facts of every primitive op, a row each.
--
--   name    as in nn.op.NAME
--   class   map       element-wise over its inputs (which broadcast as NumPy's)
--           reduce    combines the elements along `axes`, which become 1
--           scan      combines the elements up to and including each one along `axis`
--           select    the positions of the largest or smallest elements along `axis`, as i32
--           scatter   rows added by their ids into `count` positions
--           window    combines the elements under a sliding window (pooling)
--           contract  sums of products: matmul, conv
--           move      the same elements at other positions
--           source    input, param, const
--   type    map: the type it computes in and returns: float (the default; integers are converted),
--           arith (the dtype its inputs promote to, as PyTorch's: type.c), compare (the same, but
--           returns bool), where, logic (bools), convert (to its attribute dtype),
--           draw (integers to a random float), whole (integers to i32)
--   cuda    expression; $1 $2 .. are the inputs in that type (reduce, scan, window: $1 the
--           accumulated value, $2 the next)
--   narrow  cheaper variant for 16-bit results (relative error up to 2^-16, lib/prim_fast.cuh)
--   wraps   variant for integers whose result may exceed 32 bits: CUDA's overflow is undefined
--   init    reduce, scan, window: the identity as CUDA text; ref_init the same as a number
--   whole   reduce, scan with cuda: the identity for integers, then reduced exactly, to i32
--   acc     reduce, scan, instead of cuda and init: up to four accumulators, combined in any order:
--           for each its name, init, its value for one element (`element`: $1 the element, $i its
--           position) and for two partial results (`combine`: a.NAME, b.NAME); for the oracle
--           ref_init and ref(accumulators.., value, position). Rows of one acc accumulate together
--   result  of acc: the value, from a.NAME; ref_result(accumulators..) the same for the oracle
--   gives   of acc: the result's dtype, if it is not a float
--   ref     the op on Lua numbers: the oracle computes it. It may use + - * / ^, the functions of
--           `math`, erf, mod(a, b), where(cond, a, b) and the comparisons lt, le, eq (1 or 0)
--   grad    function(g, y, x...) -> the gradient of each input, as ops (g: of the output y)
--   maps    contract: the index of each dimension of both operands and of the result
--   last    contract: the dimension of each that is preferred innermost in memory
--   flops   floating-point operations per element, for reports
--   flags   facts that passes query: commutes, add, sub, mul, neg, copy (the identity), lipschitz
--           (does not amplify errors of the inputs), wide (stored in fp32 under every precision
--           policy: exp and the like easily overflow 16 bits), shrinks (maps large inputs to small
--           results), bounded (for every input), div, exp, max (reduce), online (reduce: its
--           accumulators are the largest element and the sum of exp(x - largest)), step (the result
--           is an integer, which no rounding changes)

-- sources
op{name = "input", class = "source", form = "input", nin = 0, attrs = {"below"}}
op{name = "param", class = "source", form = "param", nin = 0, attrs = {"init", "init_a", "init_b", "table"}}
op{name = "state", class = "source", form = "state", nin = 0, attrs = {"init", "init_a", "init_b"}}
op{name = "const", class = "source", form = "const", nin = 0, attrs = {"value", "tensor"}}
op{name = "index", class = "source", form = "index", nin = 0, attrs = {"axis", "fixed"}}

local function wrapped(x) return ((x + 0x80000000) & 0xffffffff) - 0x80000000 end -- to 32 bits

-- maps of two
op{name = "add", nin = 2, type = "arith", cuda = "$1 + $2", wraps = "nn_add($1, $2)",
   flags = {"commutes", "add", "lipschitz"},
   ref = function(a, b) return a + b end, grad = function(g) return g, g end}
op{name = "sub", nin = 2, type = "arith", cuda = "$1 - $2", wraps = "nn_sub($1, $2)",
   flags = {"sub", "lipschitz"},
   ref = function(a, b) return a - b end, grad = function(g) return g, -g end}
op{name = "mul", nin = 2, type = "arith", cuda = "$1 * $2", wraps = "nn_mul($1, $2)",
   flags = {"commutes", "mul"},
   ref = function(a, b) return a * b end, grad = function(g, y, a, b) return g * b, g * a end}
op{name = "div", nin = 2, cuda = "$1 / $2", flags = {"div"},
   ref = function(a, b) return a / b end, grad = function(g, y, a, b) return g / b, -g * y / b end}
op{name = "pow", nin = 2, cuda = "nn_pow($1, $2)", flops = 60, flags = {"wide", "power"}, ref = function(a, b) return a ^ b end,
   grad = function(g, y, a, b) -- 0 ^ 0 is 1; masked values are finite, too
     local one, zero = eq(b, 0), eq(a, 0) * ge(b, 0)
     return where(one, 0, g * b * a ^ where(one, 1, b - 1)),
            where(zero, 0, g * y * log(where(zero, 1, a)))
   end}
-- For integers, modulo 2^32; with a negative exponent the reciprocal truncated toward zero.
op{name = "int_pow", nin = 2, type = "whole", cuda = "nn_pow($1, $2)", flops = 40, ref = function(a, b)
  a, b = math.tointeger(a), math.tointeger(b)
  if b < 0 then return a == 1 and 1 or a == -1 and (b % 2 == 0 and 1 or -1) or 0 end
  local power = 1
  while b > 0 do
    if b % 2 == 1 then power = wrapped(power * a) end
    a, b = wrapped(a * a), b // 2
  end
  return power
end}
op{name = "atan2", nin = 2, cuda = "nn_atan2($1, $2)", flops = 16, ref = function(a, b) return atan2(a, b) end,
   grad = function(g, y, a, b) return g * b / (a * a + b * b), -g * a / (a * a + b * b) end}
op{name = "max", nin = 2, type = "arith", cuda = "nn_max($1, $2)", flags = {"commutes"},
   ref = function(a, b) return math.max(a, b) end,
   grad = function(g, y, a, b) return g * ge(a, b), g * lt(a, b) end}
op{name = "min", nin = 2, type = "arith", cuda = "nn_min($1, $2)", flags = {"commutes"},
   ref = function(a, b) return math.min(a, b) end,
   grad = function(g, y, a, b) return g * le(a, b), g * gt(a, b) end}
-- max and min are clamps; here equal elements share the gradient.
op{name = "maximum", nin = 2, type = "arith", cuda = "nn_max($1, $2)", flags = {"commutes"},
   ref = function(a, b) return math.max(a, b) end,
   grad = function(g, y, a, b)
     local both = eq(a, b) * 0.5
     return g * (gt(a, b) + both), g * (lt(a, b) + both)
   end}
op{name = "minimum", nin = 2, type = "arith", cuda = "nn_min($1, $2)", flags = {"commutes"},
   ref = function(a, b) return math.min(a, b) end,
   grad = function(g, y, a, b)
     local both = eq(a, b) * 0.5
     return g * (lt(a, b) + both), g * (gt(a, b) + both)
   end}

local function none() return nil end -- the gradient of a step, 0 in PyTorch
-- As Python's: rounds toward minus infinity; by the integer 0: 0.
op{name = "floordiv", nin = 2, type = "arith", cuda = "nn_floordiv($1, $2)", flops = 4,
   ref = function(a, b) -- infinite a: NaN; quotient underflows below 0: -1
     return where(eq(b, 0), a / b, floor(a / b) + 0 * (a / b) - lt(a * b, 0) * eq(a / b, 0))
   end,
   grad = function() return nil, nil end}
op{name = "mod", nin = 2, type = "arith", cuda = "nn_mod($1, $2)", flops = 4,
   ref = function(a, b) return mod(a, b) end, grad = function(g, y, a, b) return g, -g * floor(a / b) end}

-- comparisons and logic
op{name = "lt", nin = 2, type = "compare", cuda = "$1 < $2", ref = function(a, b) return lt(a, b) end}
op{name = "le", nin = 2, type = "compare", cuda = "$1 <= $2", ref = function(a, b) return le(a, b) end}
op{name = "gt", nin = 2, type = "compare", cuda = "$1 > $2", ref = function(a, b) return lt(b, a) end}
op{name = "ge", nin = 2, type = "compare", cuda = "$1 >= $2", ref = function(a, b) return le(b, a) end}
op{name = "eq", nin = 2, type = "compare", cuda = "$1 == $2", flags = {"commutes", "equal"},
   ref = function(a, b) return eq(a, b) end}
op{name = "ne", nin = 2, type = "compare", cuda = "$1 != $2", flags = {"commutes"},
   ref = function(a, b) return 1 - eq(a, b) end}
op{name = "logical_and", nin = 2, type = "logic", cuda = "$1 && $2", flags = {"commutes"},
   ref = function(a, b) return (1 - eq(a, 0)) * (1 - eq(b, 0)) end}
op{name = "logical_or", nin = 2, type = "logic", cuda = "$1 || $2", flags = {"commutes"},
   ref = function(a, b) return 1 - eq(a, 0) * eq(b, 0) end}
op{name = "logical_xor", nin = 2, type = "logic", cuda = "$1 != $2", flags = {"commutes"},
   ref = function(a, b) return 1 - eq(eq(a, 0), eq(b, 0)) end}
op{name = "logical_not", type = "logic", cuda = "!$1", ref = function(a) return eq(a, 0) end}
-- Bitwise, for integers.
local function bits(name, cuda, ref)
  op{name = name, nin = 2, type = "whole", cuda = cuda,
     ref = function(a, b) return ref(math.tointeger(a), math.tointeger(b)) end}
end
bits("bit_and", "$1 & $2", function(a, b) return a & b end)
bits("bit_or", "$1 | $2", function(a, b) return a | b end)
bits("bit_xor", "$1 ^ $2", function(a, b) return a ~ b end)
-- Shifts by fewer than 0 or more than 31 bits shift everything out, as in PyTorch 2.
local function inside(b) return b >= 0 and b < 32 end
bits("shift_left", "nn_shift_left($1, $2)",
     function(a, b) return inside(b) and wrapped(a << b) or 0 end)
bits("shift_right", "nn_shift_right($1, $2)",
     function(a, b) return a // (1 << (inside(b) and b or 31)) end)
op{name = "where", nin = 3, type = "where", cuda = "($1 ? $2 : $3)",
   ref = function(c, a, b) return where(c, a, b) end,
   grad = function(g, y, c, a, b) return nil, where(c, g, 0), where(c, 0, g) end}

-- maps of one
op{name = "copy", type = "arith", cuda = "$1", flops = 0, flags = {"copy", "lipschitz"},
   ref = function(x) return x end, grad = function(g) return g end}
op{name = "stop_gradient", type = "arith", cuda = "$1", flops = 0,
   flags = {"copy", "lipschitz", "stop"},
   ref = function(x) return x end}
op{name = "neg", type = "arith", cuda = "-$1", wraps = "nn_sub(0, $1)",
   flags = {"neg", "lipschitz"},
   ref = function(x) return -x end, grad = function(g) return -g end}
op{name = "relu", cuda = "nn_max($1, 0.f)", flags = {"lipschitz"},
   ref = function(x) return math.max(x, 0) end, grad = function(g, y) return g * gt(y, 0) end}
op{name = "abs", type = "arith", cuda = "nn_abs($1)", flags = {"lipschitz"},
   ref = function(x) return math.abs(x) end,
   grad = function(g, y, x) return g * (gt(x, 0) - lt(x, 0)) end}
op{name = "exp", cuda = "nn_exp($1)", flops = 4, flags = {"wide", "exp"}, ref = function(x) return math.exp(x) end,
   grad = function(g, y) return g * y end}
op{name = "log", cuda = "nn_log($1)", flops = 4, flags = {"wide", "shrinks", "log"}, ref = function(x) return math.log(x) end,
   grad = function(g, y, x) return g / x end}
op{name = "sqrt", cuda = "nn_sqrt($1)", flops = 4, flags = {"shrinks"}, ref = function(x) return math.sqrt(x) end,
   grad = function(g, y) return g / (2 * y) end}
op{name = "rsqrt", cuda = "nn_rsqrt($1)", flops = 4, flags = {"shrinks"}, ref = function(x) return 1 / math.sqrt(x) end,
   grad = function(g, y) return g * y * y * y * -0.5 end}
op{name = "sin", cuda = "nn_sin($1)", flops = 24, flags = {"lipschitz"},
   ref = function(x) return math.sin(x) end,
   grad = function(g, y, x) return g * cos(x) end}
op{name = "cos", cuda = "nn_cos($1)", flops = 24, flags = {"lipschitz"},
   ref = function(x) return math.cos(x) end,
   grad = function(g, y, x) return -g * sin(x) end}
op{name = "tanh", cuda = "nn_tanh($1)", narrow = "nn_tanh_fast($1)", flops = 8,
   flags = {"lipschitz", "bounded"},
   ref = function(x) return tanh(x) end,
   grad = function(g, y) return g * (1 - y * y) end}
op{name = "erf", cuda = "nn_erf($1)", narrow = "nn_erf_fast($1)", flops = 16,
   flags = {"bounded"}, ref = function(x) return erf(x) end,
   grad = function(g, y, x) return g * exp(-x * x) * 1.1283791670955126 end}
op{name = "erfc", cuda = "nn_erfc($1)", flops = 20, ref = function(x) return erfc(x) end,
   grad = function(g, y, x) return g * exp(-x * x) * -1.1283791670955126 end}
op{name = "log1p", cuda = "nn_log1p($1)", flops = 6, flags = {"wide", "shrinks"}, ref = function(x) return log1p(x) end,
   grad = function(g, y, x) return g / (x + 1) end}
op{name = "expm1", cuda = "nn_expm1($1)", flops = 6, flags = {"wide"}, ref = function(x) return expm1(x) end,
   grad = function(g, y, x) return g * exp(x) end}
op{name = "atan", cuda = "nn_atan($1)", flops = 12, flags = {"lipschitz", "bounded"},
   ref = function(x) return atan(x) end,
   grad = function(g, y, x) return g / (x * x + 1) end}
op{name = "sigmoid", cuda = "1.f / (1.f + nn_exp(-$1))", narrow = "nn_sigmoid_fast($1)",
   flops = 6, flags = {"lipschitz", "bounded"},
   ref = function(x) return 1 / (1 + math.exp(-x)) end, grad = function(g, y) return g * y * (1 - y) end}
op{name = "silu", cuda = "$1 / (1.f + nn_exp(-$1))", narrow = "$1 * nn_sigmoid_fast($1)", flops = 7,
   ref = function(x) return x / (1 + math.exp(-x)) end,
   grad = function(g, y, x) local s = sigmoid(x); return g * (s + y * (1 - s)) end}
op{name = "floor", cuda = "nn_floor($1)", flags = {"exact"}, ref = function(x) return floor(x) end, grad = none}
op{name = "ceil", cuda = "nn_ceil($1)", flags = {"exact"}, ref = function(x) return -floor(-x) end, grad = none}
op{name = "trunc", cuda = "nn_trunc($1)", flags = {"exact"}, ref = function(x) return where(lt(x, 0), -floor(-x), floor(x)) end, grad = none}
-- To the nearest integer, halves to even.
local function to_even(x) -- x >= 0
  local down = floor(x)
  local rest, odd = x - down, down - 2 * floor(down / 2)
  return down + where(eq(rest, 0.5), odd, lt(0.5, rest))
end
op{name = "round", cuda = "nn_round($1)", flags = {"exact"}, ref = function(x)
  return where(lt(x, 0), -to_even(-x), where(eq(x, 0), x, to_even(x))) -- the sign stays, of 0 too
end, grad = none}
op{name = "sign", type = "arith", cuda = "($1 > 0) - ($1 < 0)", flags = {"lipschitz", "exact", "bounded"},
   ref = function(x) return lt(0, x) - lt(x, 0) end, grad = none}

-- Conversion to another dtype: floats are truncated toward zero, as in PyTorch.
op{name = "to", type = "convert", cuda = "$1", attrs = {"dtype"}, flops = 0, ref = function(x) return x end,
   grad = function(g) return g end}

-- Random numbers (lib/random.cuh): $1 the position, $2 the step, $3 the seed, $4 the draw's number.
op{name = "uniform", nin = 4, type = "draw", cuda = "nn_uniform($1, $2, $3, $4)", flops = 40,
   ref = function(i, step, seed, draw) return philox_uniform(i, step, seed, draw) end}
op{name = "normal", nin = 4, type = "draw", cuda = "nn_normal($1, $2, $3, $4)", flops = 60,
   ref = function(i, step, seed, draw) return philox_normal(i, step, seed, draw) end}

-- reductions
op{name = "reduce_sum", class = "reduce", attrs = {"axes"}, cuda = "$1 + $2", wraps = "nn_add($1, $2)",
   init = "0.f", whole = "0", flags = {"add"}, ref_init = 0, ref = function(a, b) return a + b end}
op{name = "reduce_max", class = "reduce", attrs = {"axes"}, cuda = "nn_max($1, $2)",
   init = "-nn_inf()", whole = "-2147483647 - 1", flags = {"max", "exact"},
   ref_init = -1 / 0, ref = function(a, b) return math.max(a, b) end}
op{name = "reduce_min", class = "reduce", attrs = {"axes"}, cuda = "nn_min($1, $2)",
   init = "nn_inf()", whole = "2147483647", flags = {"exact"},
   ref_init = 1 / 0, ref = function(a, b) return math.min(a, b) end}
op{name = "reduce_prod", class = "reduce", attrs = {"axes"}, cuda = "$1 * $2", wraps = "nn_mul($1, $2)",
   init = "1.f", whole = "1", ref_init = 1, ref = function(a, b) return a * b end}

-- NaN is true, as in NumPy: 1 or 0.
local function truth(name, row, init, combine, better)
  op{name = name, class = "reduce", attrs = {"axes"}, result = "a.value != 0.f", gives = "bool", acc = {name = row,
     {"value", init = init, element = "($1 != 0.f ? 1.f : 0.f)", combine = combine,
      ref_init = init == "1.f" and 1 or 0, ref = function(a, x) return better(a, 1 - eq(x, 0)) end}}}
end
truth("reduce_all", "all", "1.f", "nn_min(a.value, b.value)", math.min)
truth("reduce_any", "any", "0.f", "nn_max(a.value, b.value)", math.max)

-- Mean and sum of squared deviations (Welford's, merged by Chan's rule). The mean is a sum of two
-- floats, the second the rounding error of the first (Knuth's two-sum): accurate for a mean that is
-- large relative to the deviation, and for a small one.
local share = "(b.count / (a.count + b.count > 1.f ? a.count + b.count : 1.f))"
local apart = "(b.mean - a.mean + (b.rest - a.rest))"
local move = "(" .. apart .. " * " .. share .. ")"
-- A run accumulates differences to its first element: relative error of m2 at most the run's length
-- times 2^-24.
local step = "($1 - both.near)"
local shift = "(b.near - both.near)"
local ahead = "(a.sum / (a.count > 1.f ? a.count : 1.f))"
local moments = {name = "moments",
  {"count", init = "0.f", element = "1.f", combine = "a.count + b.count",
   run = {"count", add = "a.count + 1.f", join = "a.count + b.count", whole = "a.count"},
   ref_init = 0, ref = function(count, mean, rest, m2, x) return count + 1 end},
  {"mean", init = "0.f", element = "$1",
   combine = "a.count > 0.f ? a.mean + " .. move .. " : b.mean",
   run = {"near", add = "a.count > 0.f ? a.near : $1", join = "a.count > 0.f ? a.near : b.near",
          whole = "a.near + " .. ahead},
   ref_init = 0, ref = function(count, mean, rest, m2, x) return mean + (x - mean) / (count + 1) end},
  {"rest", init = "0.f", element = "0.f",
   combine = "a.count > 0.f ? a.rest + nn_lost(a.mean, " .. move .. ", both.mean) : b.rest",
   run = {"sum", add = "a.sum + " .. step, join = "a.sum + b.sum + b.count * " .. shift,
          whole = "nn_lost(a.near, " .. ahead .. ", both.mean)"},
   ref_init = 0, ref = function(count, mean, rest, m2, x) return 0 * x end},
  {"m2", init = "0.f", element = "0.f",
   combine = "a.m2 + b.m2 + " .. apart .. " * " .. apart .. " * (a.count * " .. share .. ")",
   run = {"squares", add = "a.squares + " .. step .. " * " .. step,
          join = "a.squares + b.squares + " .. shift ..
                 " * (2.f * b.sum + b.count * " .. shift .. ")",
          whole = "nn_max(a.squares - a.sum * " .. ahead .. ", 0.f)"},
   ref_init = 0, ref = function(count, mean, rest, m2, x)
     return m2 + (x - mean) * (x - mean) * count / (count + 1) + 0 * x -- NaN for an infinity
   end}}
op{name = "reduce_mean", class = "reduce", attrs = {"axes"}, acc = moments, flops = 10,
   flags = {"one"}, result = "a.mean + a.rest",
   ref_result = function(count, mean, rest, m2) return mean end}
op{name = "reduce_var", class = "reduce", attrs = {"axes"}, acc = moments, flops = 10,
   result = "a.m2 / a.count", ref_result = function(count, mean, rest, m2) return m2 / count end}

-- The position of an extreme: the lowest one; NaN before all numbers, as in NumPy. 0 if no element
-- is beyond the initial value, an infinity.
local function place(name, init, before, better)
  local second = before .. "(b.best, b.at, a.best, a.at)"
  local behind = before .. "_first(b.best, a.best)"
  local function wins(best, x) return where(eq(best, best), where(eq(x, x), better(best, x), 1), 0) end
  op{name = "reduce_" .. name, class = "reduce", attrs = {"axes"}, result = "a.at", gives = "i32", flops = 4,
     flags = {"place"},
     ref_result = function(best, at) return at end, acc = {name = name,
       {"best", init = init, element = "$1", combine = second .. " ? b.best : a.best",
        append = behind .. " ? b.best : a.best",
        ref_init = init == "nn_inf()" and 1 / 0 or -1 / 0,
        ref = function(best, at, x, i) return where(wins(best, x), x, best) end},
       {"at", type = "int", init = "0", element = "$i",
        combine = second .. " ? b.at : a.at", append = behind .. " ? b.at : a.at",
        ref_init = 0, ref = function(best, at, x, i) return where(wins(best, x), i, at) end}}}
end
place("argmax", "-nn_inf()", "nn_above", function(best, x) return lt(best, x) end)
place("argmin", "nn_inf()", "nn_below", function(best, x) return lt(x, best) end)

-- The largest element and the sum of exp(x - largest), in one pass over a row of any length.
local function below(x) return "(" .. x .. ".most == nn_max(a.most, b.most) ? " .. x .. ".sum : " .. x ..
                               ".sum * nn_exp(" .. x .. ".most - nn_max(a.most, b.most)))" end
local function faded(m, x) return where(eq(m, math.max(m, x)), 1, math.exp(m - math.max(m, x))) end
local online = {name = "online",
  {"most", init = "-nn_inf()", element = "$1", combine = "nn_max(a.most, b.most)",
   ref_init = -1 / 0, ref = function(most, sum, x) return math.max(most, x) end},
  {"sum", init = "0.f", element = "1.f", combine = below("a") .. " + " .. below("b"),
   ref_init = 0, ref = function(most, sum, x) return sum * faded(most, x) + faded(x, most) end}}
op{name = "reduce_lse", class = "reduce", attrs = {"axes"}, acc = online, flops = 10,
   flags = {"online", "one"},
   result = "a.most + nn_log(a.sum)",
   ref_result = function(most, sum) return most + math.log(sum) end}
op{name = "reduce_most", class = "reduce", attrs = {"axes"}, acc = online, flops = 10,
   flags = {"online", "max", "one"},
   result = "a.most", ref_result = function(most, sum) return most end}
-- NaN if the largest element is infinite, as exp(inf - inf) is.
op{name = "reduce_expsum", class = "reduce", attrs = {"axes"}, acc = online, flops = 10, flags = {"online"},
   result = "a.sum + (a.most - a.most)", ref_result = function(most, sum) return sum + (most - most) end}

-- scans: each element becomes the accumulation of those up to it along one axis
op{name = "scan_sum", class = "scan", attrs = {"axis"}, cuda = "$1 + $2", wraps = "nn_add($1, $2)",
   init = "0.f", whole = "0", ref_init = 0, ref = function(a, b) return a + b end}
op{name = "scan_prod", class = "scan", attrs = {"axis"}, cuda = "$1 * $2", wraps = "nn_mul($1, $2)",
   init = "1.f", whole = "1", ref_init = 1, ref = function(a, b) return a * b end}
op{name = "scan_max", class = "scan", attrs = {"axis"}, cuda = "nn_max($1, $2)", init = "-nn_inf()", whole = "-2147483647 - 1",
   ref_init = -1 / 0, ref = function(a, b) return math.max(a, b) end}
op{name = "scan_min", class = "scan", attrs = {"axis"}, cuda = "nn_min($1, $2)", init = "nn_inf()", whole = "2147483647",
   ref_init = 1 / 0, ref = function(a, b) return math.min(a, b) end}
op{name = "scan_lse", class = "scan", attrs = {"axis"}, acc = online, flops = 10, result = "a.most + nn_log(a.sum)",
   ref_result = function(most, sum) return most + math.log(sum) end}

-- the positions of the `count` largest (or smallest) elements along one axis, in order; equal ones
-- in their order, NaN larger than all numbers
op{name = "topk", class = "select", attrs = {"axis", "count", "smallest"}, flops = 2}

-- the positions that sort each run of `count` elements along one axis; sort_merge: two neighbouring
-- runs become one, by their sorted positions, the second input
op{name = "sort_runs", class = "sort", attrs = {"axis", "count", "smallest"}, flops = 1}
op{name = "sort_merge", class = "sort", nin = 2, attrs = {"axis", "count", "smallest"}, flops = 1}

-- rows (n, d) or (n) added by their ids (n) into `count` positions; with a batch dimension, in each
op{name = "scatter_sum", class = "scatter", nin = 2, attrs = {"count"}, flops = 1}
-- the same of ids whose sorting positions, the third input, are known
op{name = "scatter_sorted", class = "scatter", nin = 3, attrs = {"count"}, flops = 1}

-- windows
op{name = "window_max", class = "window", attrs = {"kernel", "stride", "pad", "dilation"},
   cuda = "nn_max($1, $2)", init = "-nn_inf()", flags = {"exact"}, ref_init = -1 / 0,
   ref = function(a, b) return math.max(a, b) end}
op{name = "window_sum", class = "window", attrs = {"kernel", "stride", "pad", "dilation"},
   cuda = "$1 + $2", init = "0.f", ref_init = 0, ref = function(a, b) return a + b end}

-- contractions: the axes of the dimensions of both operands and of the result. `pad` and so on are
-- attributes, pad2 its second number; g:c is two axes in one dimension, c the inner one. Results
-- exist only where a division has no remainder.
op{name = "matmul", class = "contract", nin = 2,
   maps = {"..., row, inner", "..., inner, column", "..., row, column"}}
op{name = "conv2d", class = "contract", nin = 2, last = {2, 2, 2},
   attrs = {"stride", "pad", "dilation", "groups"},
   maps = {"image, g:c, p*stride1 + r*dilation1 - pad1, q*stride2 + s*dilation2 - pad2",
           "g:o, c, r, s", "image, g:o, p, q"}}
-- The gradient of the image, from that of the result; also a transposed convolution.
op{name = "conv2d_data", class = "contract", nin = 2, last = {2, 1, 2},
   attrs = {"stride", "pad", "dilation", "groups", "size"},
   maps = {"image, g:o, (h - r*dilation1 + pad1)/stride1, (w - s*dilation2 + pad2)/stride2",
           "g:o, c, r, s", "image, g:c, h, w"}}
-- The gradient of the filter, from that of the result and the image.
op{name = "conv2d_filter", class = "contract", nin = 2, last = {2, 2, 2},
   attrs = {"stride", "pad", "dilation", "groups", "size"},
   maps = {"image, g:o, p, q",
           "image, g:c, p*stride1 + r*dilation1 - pad1, q*stride2 + s*dilation2 - pad2",
           "g:o, c, r, s"}}

-- moves
op{name = "reshape", class = "move", form = "reshape", attrs = {"dims"}, flops = 0}
op{name = "permute", class = "move", form = "permute", attrs = {"dims"}, flops = 0}
op{name = "slice", class = "move", form = "slice", attrs = {"dims", "ends"}, flops = 0}
op{name = "concat", class = "move", form = "concat", nin = -1, attrs = {"axis"}, flops = 0}
op{name = "pad", class = "move", form = "pad", attrs = {"dims", "ends"}, flops = 0}
-- Element i comes from i - dims, modulo the size.
op{name = "roll", class = "move", form = "roll", attrs = {"dims"}, flops = 0}
-- $1 read at the positions $2, along one axis: whole rows, or one element of each row.
op{name = "gather", class = "move", form = "gather", nin = 2, attrs = {"axis"}, flops = 0}
op{name = "take_along", class = "move", form = "along", nin = 2, attrs = {"axis"}, flops = 0}
