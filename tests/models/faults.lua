-- Small models that were wrong or refused once: each shows one mechanism. --set case=NAME
local nn = require "nn"
local cfg = nn.config{case = "captured"}

local cases = {
  -- An input with the name of a local of the kernel.
  captured = function()
    local h = nn.exp(nn.input("x0", {4, 7}))
    nn.output("y", nn.input("row_reduce_max", {4, 7}) * (h - h:amax(2, true)))
  end,
  -- Operands named like the dimensions before those of a product.
  leading = function()
    local w, b0, b1 = nn.input("w", {16, 24}), nn.input("b0", {24}), nn.input("b1", {24})
    nn.output("y", nn.input("x", {3, 36, 16}):matmul(w) + b0)
    nn.output("z", nn.input("v", {3, 2, 18, 16}):matmul(w) * b0 + b1)
  end,
  -- Inputs with the names of libcusim's macros.
  macros = function()
    nn.output("y", nn.input("CUSIM_H", {4, 6}) - nn.input("CUSIM_ABI", {6}))
  end,
  -- Inputs whose names are each other's with a number behind.
  numbered = function()
    local m2, m = nn.input("mask_2", {4, 6}), nn.input("mask", {4, 6})
    nn.output("y", nn.softmax(m2 + m) * nn.input("mask_2_2", {4, 6}))
  end,
  -- A layer with the name that a second kernel of another layer would get.
  symbol = function()
    local x = nn.input("x0", {4, 8})
    nn.output("y", x:softmax():linear("softmax_2", {out = 8}):softmax())
  end,
  -- A negative literal behind a minus.
  negative = function()
    local f = nn.op_row{name = "negmul", nin = 2, cuda = "-$1 * $2",
                        ref = function(a, b) return -a * b end}
    local x = nn.input("x0", {4})
    nn.output("y", f(-math.huge, x))
    nn.output("z", f(-2, x))
    nn.output("w", f(-1e-30, x))
  end,
  -- More products than a grid has blocks along z: one product of many rows, many small ones,
  -- groups.
  batches = function()
    local x = nn.input("x0", {70000, 4, 8})
    nn.output("y", x:linear("l", {out = 4}))
  end,
  -- Rows that leave in another shape, beside a copy which has that shape.
  reshaped = function()
    local x = nn.input("x0", {3, 5, 8})
    local rows = x:reshape(3, 40)
    nn.output("y", (rows - rows:amax(2, true)):reshape(3, 5, 8))
    nn.output("z", x)
  end,
  -- Halves of a product's columns that are no whole rows of shared memory, of a right operand that
  -- lies along them.
  halves = function()
    local x, w = nn.input("x", {8, 48}), nn.input("w", {48, 32})
    local a, b = x:matmul(w):chunk(2, 2)
    nn.output("y", nn.concat({nn.input("d", {8, 16}) * b, a + b}, 2))
  end,
  -- Scores beside others, with rows that are reduced of something else, longer and shorter.
  beside = function()
    local q, k = nn.input("q", {1, 2, 9, 16}), nn.input("k", {1, 2, 12, 16})
    local v, own = nn.input("v", {1, 2, 13, 24}), nn.input("own", {1, 2, 9, 1})
    local s = nn.concat({q:matmul(k:transpose()), own}, -1)
    local cut = (s / (q * q):sum(-1, true):sqrt()):softmax():slice(-1, 1, 12)
    nn.output("y", cut:matmul(v:slice(3, 1, 12)))
    local y = (s + v:slice(3, 1, 9):slice(4, 1, 7):sum(-1, true)):softmax():matmul(v)
    for i, g in ipairs(nn.grad((y * y):sum(), {q, k, v, own})) do nn.output("g" .. i, g) end
  end,
  products = function()
    nn.output("y", nn.input("a", {66000, 3, 2}):matmul(nn.input("b", {66000, 2, 3})))
  end,
}
cases[cfg.case]()
