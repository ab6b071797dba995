-- Values of every type: integers, bools, conversions, positions, random numbers. --set case=NAME
local nn = require "nn"
local cfg = nn.config{case = "integers"}
local cases = {}

-- Exact to 2^31, with Python's division.
function cases.integers()
  local a = nn.input("a", {6, 50}, {dtype = "i32"})
  local b = nn.input("b", {50}, {dtype = "i32", below = 9})
  nn.output("sum", a * 123456789 + b)
  nn.output("quotient", (a - 8) // (b - 4))
  nn.output("rest", (a - 8) % (b - 4))
  nn.output("least", nn.min(a, b) - nn.max(-a, b):abs())
  nn.output("relu", (a - 7):relu())
  nn.output("mixed", a * 0.5 + b)
  nn.output("root", nn.sqrt(b + 1))
end
-- Sums and products in the dtype that they have as written, wherever numbers and constants go.
function cases.rewritten()
  local u = nn.input("u", {2, 40}, {dtype = "u8", below = 256})
  local a = nn.input("a", {2, 40}, {dtype = "i32"})
  local x = nn.input("x", {2, 40})
  local one, bytes = nn.ones({40}, {dtype = "i32"}), nn.full({40}, 201, {dtype = "u8"})
  nn.output("sum_times", (u + one) * 100)
  nn.output("wide_times", (u + 200) * nn.full({40}, 3, {dtype = "i32"}))
  nn.output("times_times", u * 200 * 200 + one)
  nn.output("bytes_times", (u + 200) * 2.5)
  nn.output("half_times", (a * 20000 + 0.5) * 20000)
  nn.output("narrow", (a + bytes) * bytes + (a * bytes) * bytes)
  nn.output("less", a - bytes)
  nn.output("less_one", a - nn.full({}, 201, {dtype = "u8"}))
  nn.output("half_plus", u:to("f16") + nn.full({2, 40}, 0.1))
  nn.output("far", x * 100000 * 100000 + x * nn.full({40}, 99999, {dtype = "i32"}) * 99999)
  nn.output("late", (u + nn.full({2, 40}, 5, {dtype = "i32"})) * a)
end
-- Constants that are converted before the model runs.
function cases.constants()
  local a = nn.input("a", {3}, {dtype = "i32"})
  nn.output("cut", nn.full({3}, 1.5, {dtype = "i32"}) + a)
  nn.output("down", nn.full_like(a, -1.5) + a:new_full({3}, 2.5))
  nn.output("some", nn.tensor({1.5, -2.5, 3}, {dtype = "i32"}) * 2)
  nn.output("alone", nn.tensor({1.5}, {dtype = "i32"}) * 1)
  nn.output("truth", nn.full({3}, 2, {dtype = "bool"}):to("i32") + 1)
  nn.output("truths", (nn.full({3}, 1, {dtype = "bool"}) + nn.full({3}, 1, {dtype = "bool"}))
            :to("i32") + a)
  nn.output("byte", nn.full({3}, 300, {dtype = "u8"}) + nn.full({3}, -1, {dtype = "u8"}) + a)
  nn.output("far", nn.full({3}, 3e9, {dtype = "i32"}):to("u8") + a)
  nn.output("third", (nn.full({3}, 1 / 3, {dtype = "f16"}):to("f32") - 1 / 3) * 1e4)
  nn.output("beside", nn.concat({nn.input("h", {4}, {dtype = "f16"}),
                                 nn.tensor({100001, 2}, {dtype = "i32"})}, 1))
  nn.output("huge", nn.full({3}, 1e5, {dtype = "f16"}):to("f32") + a)
end
-- What has no dimensions only tells its kind, as in PyTorch, known before the run or not.
function cases.scalars()
  local u = nn.input("u", {40}, {dtype = "u8", below = 256})
  local k = nn.input("k", {1}, {dtype = "i32", below = 900}):reshape{}
  local c, far = nn.tensor(300, {dtype = "i32"}), nn.full({}, 1000, {dtype = "i32"})
  local byte = nn.full({}, 200, {dtype = "u8"})
  for i, s in ipairs{k, c} do
    local name = i == 1 and "k" or "c"
    nn.output("u8_sum_" .. name, u + s)
    nn.output("u8_scaled_" .. name, (u + s) * 100)
    nn.output("u8_most_" .. name, nn.max(u, s))
    nn.output("u8_rest_" .. name, u % (s + 1))
    nn.output("bool_less_" .. name, nn.lt(u, s))
    nn.output("u8_chosen_" .. name, nn.where(nn.lt(u, 9), u, s))
    nn.output("i32_alone_" .. name, s + byte)
    nn.output("f32_scaled_" .. name, u * 0.5 + s)
    nn.output("i32_both_" .. name, nn.index({40}) + (far + s) * byte)
  end
  nn.output("u8_number", u + 300)
  nn.output("i32_vector", u + nn.full({1}, 300, {dtype = "i32"}))
end
function cases.bools()
  local x = nn.input("x", {7, 33})
  local m = nn.input("m", {33}, {dtype = "bool"})
  local positive = nn.gt(x, 0)
  nn.output("and", positive & m)
  nn.output("or", positive | m)
  nn.output("xor", positive ~ m)
  nn.output("not", ~m)
  nn.output("ne", nn.ne(m, positive))
  nn.output("count", m + 1)
  nn.output("either", m + positive)
  nn.output("chosen", nn.where(m, x, -x))
  nn.output("scaled", x * m)
  nn.output("any", nn.where(x:ne(0), 1, 0))
end
function cases.conversions()
  local x = nn.input("x", {5, 40}) * 1000
  nn.output("large", (x * 3e5):to("i32") // 3 + 1)
  nn.output("i32", x:to("i32"))
  nn.output("u8", x:to("i32"):to("u8"))
  nn.output("half", x:to("f16") * 1.5)
  nn.output("brain", x:to("bf16") + 1)
  nn.output("flag", (x:to("i32") // 700):to("bool"))
  nn.output("back", x:to("i32"):to("f32") / 3)
  nn.output("long", x:to("i32"):to("i64") + 1)
  nn.output("rounded", (x:to("i32") * 7):to("f16"):to("i32"))
  nn.output("beyond", (x:to("i32") * 1000):to("f16"):to("f32"))
  nn.output("eight", (x:to("i32") * 7):to("bf16"):to("i32"))
end
-- Outputs that are converted to 16 bits are stored so, wherever they come from.
function cases.stored()
  local x = nn.input("x", {2, 8, 8, 8}, {dtype = "bf16"})
  local h = x:conv2d("c", {out = 16, kernel = 3, pad = 1}):relu() -- channels last in memory
  nn.output("wide", h)
  nn.output("f16", h:to("f16"))
  nn.output("bf16", h:to("bf16"))
  nn.output("bf16_again", h:to("bf16"))
  nn.output("bf16_given", x:to("bf16"))
  nn.entry("other", function() nn.output("f16_other", (h * 2):to("f16")) end)
end
-- Reductions of integers and bools: exact, in i32.
function cases.sums()
  local i = nn.input("i", {6, 50, 7}, {dtype = "i32", below = 40000})
  local u = nn.input("u", {6, 50, 7}, {dtype = "u8", below = 256})
  local m = nn.input("m", {6, 50, 7}, {dtype = "bool"})
  local l = nn.input("l", {6, 50, 7}, {dtype = "i64", below = 3000000})
  for at, axes in ipairs{{3}, {2}, {1, 3}, {2, 3}, {1, 2, 3}} do
    nn.output("sum_" .. at, i:sum(axes))
    nn.output("far_" .. at, (i * -50000):amin(axes) + (i * 20000 + 7):amax(axes))
    nn.output("bytes_" .. at, u:sum(axes) + u:amax(axes))
    nn.output("count_" .. at, m:sum(axes))
    nn.output("long_" .. at, l:amin(axes) - l:amax(axes))
    nn.output("product_" .. at, (i % 2 * 2 - 1):prod(axes))
  end
  nn.output("share", i / i:sum(3, true)) -- rows of both kinds
  nn.output("rank", i - i:amin(3, true) + m:sum(3, true) * i:amax(3, true))
end
-- Types at the border, in other orders of memory, through every move.
function cases.borders()
  local b = nn.input("bytes", {2, 3, 8, 8}, {dtype = "u8", below = 256})
  local l = nn.input("long", {4, 6}, {dtype = "i64"})
  local h = nn.input("half", {4, 6}, {dtype = "f16"})
  nn.output("image", b / 255)
  nn.output("wraps", b + b)
  nn.output("turned", b:permute{1, 3, 4, 2})
  nn.output("padded", nn.op.pad(l, {dims = {1, 0}, ends = {0, 2}}))
  nn.output("joined", nn.concat({l:to("i32"), nn.index({4, 2}, 2)}, 2))
  nn.output("cut", nn.slice(l, 2, 2, 5) * 2)
  nn.output("sum", h + l)
  nn.output("conv", (b / 255):conv2d("c", {out = 4, kernel = 3}))
end
-- Masks and codes without a tensor read.
function cases.index()
  local q, k = nn.index({1, 2, 9, 1}, 3), nn.index({1, 1, 1, 12}, 4)
  local s = nn.input("s", {2, 2, 9, 12})
  nn.output("causal", nn.where(nn.le(k, q + 3), s, -1e9):softmax())
  nn.output("window", nn.where(nn.lt(nn.abs(k - q), 3), s, 0))
  nn.output("distance", s - (q - k) * 0.25)
  nn.output("last", nn.slice(nn.index({4, 10}, 2), 2, 3, 9):reshape{7, 4})
  nn.output("one_hot", nn.eq(nn.index({6, 16}, 2), nn.input("ids", {6, 1}, {dtype = "i32"})) * 1.0)
  nn.output("rows", nn.index({3, 4}, 1) * 10 + nn.index({3, 4}, 2))
end
function cases.random()
  nn.output("uniform", nn.random({6, 50}, {seed = 7}))
  nn.output("again", nn.random({6, 50}, {seed = 7}))
  nn.output("normal", nn.random({5, 3, 11}, {kind = "normal", seed = 3, step = 12}))
  nn.output("mask", nn.random({40, 40}, {kind = "bernoulli", p = 0.25}))
  local x = nn.input("x", {8, 64})
  local keep = nn.random({8, 64}, {kind = "bernoulli", p = 0.9, seed = 1,
                                   step = nn.input("step", {1}, {dtype = "i32"})})
  nn.output("dropout", x * keep / 0.9)
  nn.output("dropped", nn.exp(x * keep):sum(2))
end
-- Seeds of 64 bits, each beside those that are alike in 32.
function cases.seeds()
  for i, seed in ipairs{0, 1, -1, 2^31 - 1 | 0, 2^31 | 0, 2^32 - 1 | 0, 2^32 | 0, 2^32 + 1 | 0,
                        2^33 | 0, 3 * 2^31 | 0, math.maxinteger, math.mininteger} do
    nn.output("uniform" .. i, nn.random({4, 8}, {seed = seed}))
  end
end
-- Squares that leave 16 bits are only summed.
function cases.variance()
  local y = nn.input("x0", {4, 8, 6, 6}):max_pool2d{kernel = 2} * 300
  local d = y - y:mean({1, 3, 4}, true)
  nn.output("y", d * nn.rsqrt((d * d):mean({1, 3, 4}, true) + 1e-5))
end
-- What leads only to sums may leave 16 bits several maps before, and so may what is made of sums.
function cases.statistics()
  local y = nn.input("x0", {16, 8, 8, 8}):max_pool2d{kernel = 2} * 400
  local v = (y * y):mean({1, 3, 4}, true)
  nn.output("between", (y / v):max_pool2d{kernel = 2} * 100)
  nn.output("root", (y / nn.sqrt(v)):conv2d("c", {out = 8, kernel = 3, pad = 1}))
  nn.output("cubes", (y * y * y):mean{2, 4} * 1e-6)
  nn.output("sums", (y * y + y * y * y):sum{1, 4} * 1e-6)
end
function cases.policy()
  local x = nn.input("x", {16, 32})
  local wide = nn.precision("fp32", function() return x:linear("wide", {out = 48}):relu() end)
  nn.output("y", wide:linear("narrow", {out = 8}))
end
function cases.scopes() -- a part of less precision, and a state that is stored in 16 bits
  local x = nn.input("x", {16, 32})
  local narrow, s = nn.precision("bf16", function()
    return x:linear("narrow", {out = 48}):tanh(), nn.state("s", {16, 32}, {dtype = "auto"})
  end)
  nn.output("y", narrow:linear("wide", {out = 8}))
  nn.output("z", narrow:argmax(2))
  nn.update(s, s + nn.sin(x))
end
cases[cfg.case]()
