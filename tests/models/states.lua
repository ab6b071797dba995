-- Values that live across runs, and entries over them. --set case=NAME
local nn = require "nn"
local cfg = nn.config{case = "counter"}
local cases = {}

function cases.counter() -- two entries over one state
  local n = nn.state("n", {1}, {dtype = "i32", init = 7})
  nn.output("before", n * 1)
  nn.update(n, n + 1)
  nn.entry("reset", function()
    nn.output("was", n + 0)
    nn.update(n, n * 0)
  end)
end
function cases.average()
  local x, mean = nn.input("x", {6, 40}), nn.state("mean", {40})
  nn.output("centred", x - mean)
  nn.update(mean, mean * 0.9 + x:mean(1) * 0.1)
end
function cases.swap() -- each is read after the other's new value is known
  local a, b = nn.state("a", {33}, {init = {"normal", 0, 1}}), nn.state("b", {33}, 2)
  nn.update(a, b + 1)
  nn.update(b, a * 2)
end
function cases.moved() -- read elsewhere than it is written
  local ring = nn.state("ring", {8, 5}, {init = {"uniform", 0, 1}})
  nn.output("oldest", nn.slice(ring, 1, 1, 1) * 1)
  nn.update(ring, nn.concat({nn.slice(ring, 1, 2, 8), nn.input("x", {1, 5})}, 1))
end
function cases.placed() -- by the two kernels that make its parts
  local ring, x = nn.state("ring", {5, 4}), nn.input("x", {5, 2})
  local mean = nn.state("mean", {5, 2})
  nn.output("y", mean + x * 2)
  nn.update(mean, mean * 0.5 + x)
  nn.update(ring, nn.concat({nn.slice(ring, 2, 3, 4), mean + x}, 2))
end
function cases.tails() -- read beside a product and stored, and again where it is turned
  local times = nn.state("times", {9, 9}, {"normal", 0, 1})
  local x = nn.input("x", {9, 9})
  local y = x:matmul(x) + times
  nn.update(times, y)
  nn.output("y", nn.tanh(y):transpose() * 0.5)
end
function cases.turned() -- read where a product is made, written where it is turned
  local s, x = nn.state("s", {40, 40}, {init = {"normal", 0, 1}}), nn.input("x", {40, 40})
  nn.update(s, nn.tanh((x:matmul(x) + s):transpose()))
end
function cases.flipped() -- written by one thread, and read by another, which computes what is moved
  local a, b = nn.state("a", {13, 33}, {init = {"normal", 0, 1}}), nn.state("b", {13, 33})
  nn.output("y", (a - b):flip(2))
  nn.update(a, b * 0.5 + nn.input("x", {13, 33}))
  nn.update(b, nn.tanh(a))
end
function cases.early() -- each waits for what has been moved before what the other reads
  local x, w = nn.input("x", {4, 8}), nn.param("w", {8, 8})
  local b, c = nn.state("b", {4, 8}), nn.state("c", {4, 8}, {init = 1})
  nn.output("was", b:softmax())
  local y = x:matmul(w)
  nn.update(b, c * 0.9)
  nn.output("z", x:softmax():matmul(w))
  nn.update(c, y:flip(1))
end
function cases.narrow() -- in 16 bits, though all that reads them is their update
  local x = nn.input("x", {4, 1, 8}, {dtype = "f16"})
  local a, b = nn.state("a", {4, 1, 8}, {dtype = "bf16"}), nn.state("b", {4, 6, 8}, {dtype = "f16"})
  nn.update(a, a * 0.5 + x)
  nn.update(b, nn.where(nn.index({6, 1}, 1):eq(2), x, b))
end
function cases.integers() -- of other dtypes than their states
  local k = nn.index({4})
  nn.update(nn.state("flags", {4}, {dtype = "bool"}), k * 3)
  nn.update(nn.state("bytes", {4}, {dtype = "u8"}), k * 300 - 5)
  nn.update(nn.state("marks", {4}, {dtype = "bool"}), nn.input("b", {4}, {dtype = "u8"}))
  local counts = nn.state("counts", {4}, {dtype = "i32"})
  local long = nn.state("long", {4}, {dtype = "i64"})
  nn.update(counts, nn.gt(k, 1))
  nn.update(long, long + 1)
  nn.update(nn.state("truths", {4}, {dtype = "u8"}), nn.gt(k, 1))
  nn.output("y", k)
end
function cases.two_indices() -- the diagonal of a state: both sides of the comparison are indices
  local v, s = nn.input("v", {6, 1, 8}), nn.state("s", {6, 6, 8})
  local row, column = nn.index({6, 1, 1}, 1), nn.index({6, 6, 1}, 2)
  nn.update(s, nn.where(row:eq(column), v, s))
end
function cases.largest() -- of all runs: the first one begins below everything
  local x = nn.input("x", {4, 8})
  for _, dtype in ipairs{"f32", "f16", "bf16"} do
    local most = nn.state("most_" .. dtype, {8}, {dtype = dtype, init = -math.huge})
    local new = nn.max(most, x:amax(1))
    nn.output("new_" .. dtype, new)
    nn.output("first_" .. dtype, most:eq(-math.huge))
    nn.update(most, new)
  end
  nn.output("scaled", x / nn.param("p", {8}, math.huge))
end
function cases.cache() -- keys and values of earlier steps, by position
  local B, H, T, D = 2, 3, 12, 8
  local at = nn.state("at", {1}, {dtype = "i32"})
  local keys, values = nn.state("keys", {B, H, T, D}), nn.state("values", {B, H, T, D})
  local x = nn.input("x", {B, 1, H * D})
  local function heads(name)
    return x:linear(name, {out = H * D}):reshape{B, 1, H, D}:permute{1, 3, 2, 4}
  end
  local here = nn.eq(nn.index({1, 1, T, 1}, 3), at)
  local k, v = nn.where(here, heads("k"), keys), nn.where(here, heads("v"), values)
  local s = heads("q"):matmul(k:transpose()) * D ^ -0.5
  local p = nn.where(nn.le(nn.index({1, 1, 1, T}, 4), at), s, -1e9):softmax()
  nn.output("y", p:matmul(v):permute{1, 3, 2, 4}:reshape{B, 1, H * D})
  nn.update(keys, k)
  nn.update(values, v)
  nn.update(at, at + 1)
end
-- States of which one row changes, or none: place 9 is beyond the last. Rows of axis 2, but for
-- `lanes`, and for `columns`, where the element is one of neighbours that a thread has.
local function rows(update)
  return function()
    local B, T, D = 3, 5, 16
    local kept = {init = {"normal", 0, 1}}
    local places = nn.tensor({{{2}}, {{9}}, {{0}}}, {dtype = "i32"})
    local at = places + nn.state("from", {1}, {dtype = "i32"})
    local a, b = nn.state("a", {B, T, D}, kept), nn.state("b", {B, T, D}, kept)
    update(a, b, nn.input("x", {B, 1, D}), nn.index({1, T, 1}, 2), at, nn.index({D}, 1))
  end
end
cases.row = rows(function(a, _, x, row, at)
  nn.update(a, nn.where(row:eq(at), x, a))
end)
cases.row_of_old = rows(function(a, _, x, row, at) -- the row is read as well
  nn.update(a, nn.where(at:eq(row), a * 0.5 + x, a))
end)
cases.row_used = rows(function(a, b, x, row, at) -- what was kept is read later
  local all = nn.where(row:eq(at), x, a)
  nn.update(a, all)
  nn.update(b, all * 2 + b)
  nn.output("y", all:sum(2))
end)
cases.two_rows = rows(function(a, b, x, row, at)
  nn.update(a, nn.where(row:eq(at), x, a))
  nn.update(b, nn.where(row:eq(at), x * 2, b))
end)
cases.other_rows = rows(function(a, b, x, row, at) -- of two places in one kernel
  nn.update(a, nn.where(row:eq(at), x, a))
  nn.update(b, nn.where(row:eq(at + 1), x * 2, b))
end)
cases.other_than_row = rows(function(a, _, x, row, at) -- all rows but one change
  nn.update(a, nn.where(row:eq(at), a, x))
end)
cases.rows_below = rows(function(a, _, x, row, at)
  nn.update(a, nn.where(row:le(at), x, a))
end)
cases.columns = rows(function(a, _, x, _, at, column)
  nn.update(a, nn.where(column:eq(at), x, a))
end)
cases.another_state = rows(function(a, b, x, row, at) -- what is kept is another state's
  nn.update(a, nn.where(row:eq(at), x, b))
end)
-- A parameter that is updated: it is not folded, and infer sees the new one.
function cases.descent()
  local x, y = nn.input("x", {16, 4}), nn.input("y", {16, 1})
  local w = nn.param("w", {4, 1}, {"normal", 0, 1})
  local function predict() return x:matmul(w) end
  nn.output("p", predict())
  nn.entry("train", function()
    local d = predict() - y
    nn.output("loss", (d * d):mean())
    nn.update(w, w - x:transpose():matmul(d) * (2 / 16 * 0.1))
  end)
end
function cases.shared() -- entries that declare the same parameter and state
  local function predict()
    return nn.input("x", {3, 4}):matmul(nn.param("w", {4, 2}, {"normal", 0, 1}))
  end
  nn.output("y", predict() + nn.state("seen", {3, 2}))
  nn.entry("look", function()
    local seen = nn.state("seen", {3, 2})
    nn.update(seen, seen + predict())
  end)
end
cases[cfg.case]()
