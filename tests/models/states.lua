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
  local a, b = nn.state("a", {33}, {init = {"normal", 0, 1}}), nn.state("b", {33}, {init = 2})
  nn.update(a, b + 1)
  nn.update(b, a * 2)
end
function cases.moved() -- read elsewhere than it is written
  local ring = nn.state("ring", {8, 5}, {init = {"uniform", 0, 1}})
  nn.output("oldest", nn.slice(ring, 1, 1, 1) * 1)
  nn.update(ring, nn.concat({nn.slice(ring, 1, 2, 8), nn.input("x", {1, 5})}, 1))
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
