-- Rows added up by their ids: into few places and many, of one element and of many, as integers, in
-- batches, behind maps and before them.
local nn = require "nn"
local cfg = nn.config{case = "rows", n = 1000, d = 8, size = 300, batch = 3, skewed = false}
local n, d, size, batch = cfg.n, cfg.d, cfg.size, cfg.batch

-- Ids of which the lower places have most.
local function ids_of(dims)
  local ids = nn.input("ids", dims, {dtype = "i32", below = size})
  return cfg.skewed and ids * ids // size or ids
end

if cfg.case == "rows" then
  nn.output("y", nn.scatter_add(ids_of{n}, nn.input("x", {n, d}), size))
elseif cfg.case == "maps" then -- ids and rows are computed as they are read, and the sums as stored
  local ids = (nn.index({n}, 1) * 7 + 3) % size
  local sums = nn.scatter_add(ids, nn.input("x", {n, d}):exp() * 2, size)
  nn.output("y", (sums + nn.input("z", {size, d})):relu())
elseif cfg.case == "integers" then
  local x = nn.input("x", {n, d}, {dtype = "i32"}) * 1000003
  local ids = ids_of{n}
  nn.output("y", nn.scatter_add(ids, x, size))
  nn.output("count", nn.bincount(ids, size))
elseif cfg.case == "batches" then
  local x = nn.input("x", {batch, size, d})
  local y = x:take_along(ids_of{batch, n, d}, 2)
  local g = nn.grad((y * y * nn.input("w", {batch, n, d})):sum(), x)
  nn.output("g", g)
  nn.output("gg", nn.grad((g * g):sum(), x))
elseif cfg.case == "outside" then -- ids that are no places are left out, forward and backward
  local ids = nn.input("ids", {batch, n}, {dtype = "i32", below = size + 8}) - 4
  local rows, w = nn.input("x", {batch, n}), nn.input("w", {batch, size})
  local hits = nn.unsqueeze(ids, 2):eq(nn.index({1, size, 1}, 2))
  local y = nn.op.scatter_sum(ids, rows, {count = size})
  local compared = nn.where(hits, nn.unsqueeze(rows, 2), 0.0):sum(3)
  local function of(v) return nn.grad((v * v * w):sum(), rows) end
  nn.output("near", ((y - compared):abs():lt(1e-4)):all())
  nn.output("near_gradients", ((of(y) - of(compared)):abs():lt(1e-3)):all())
  nn.output("count", nn.bincount(ids:select(1, 1), size, rows:select(1, 1)) + 1)
elseif cfg.case == "sorted" then -- the positions that sort the ids are known; some are no places
  local ids, x = ids_of{n} * 3 % (size + 2) - 1, nn.input("x", {n, d})
  ids = nn.where(nn.index({n}, 1):eq(n - 1), -0x80000000, ids)
  local function sums(v) return nn.op.scatter_sorted(ids, v, ids:argsort(), {count = size}) end
  nn.output("y", sums(x))
  nn.output("mapped", (sums(x:exp() * 2) + nn.input("z", {size, d})):relu())
  nn.output("integers", sums(nn.input("i", {n, d}, {dtype = "i32", below = 3000}) * 1000003))
  nn.output("numbers", sums(x:select(2, 1)))
elseif cfg.case == "sorted_batches" then
  local ids, x = ids_of{batch, n}, nn.input("x", {batch, n, d})
  nn.output("y", nn.op.scatter_sorted(ids, x, ids:argsort(2), {count = size}))
elseif cfg.case == "sorted_one" then -- all rows belong to one place
  local ids = nn.where(nn.input("ids", {n}, {dtype = "i32", below = 2}):ge(0), size - 1, 0)
  nn.output("y", nn.op.scatter_sorted(ids, nn.input("x", {n, d}), ids:argsort(), {count = size}))
elseif cfg.case == "stored" then -- among many places by a sort, among few by comparing
  local ids, s = nn.input("ids", {2, n}, {dtype = "i32", below = 90}), nn.input("s", {2, n})
  local x = nn.input("x", {2, 200000})
  local many, few = x:scatter(2, ids, s), x:slice(2, 1, 100):scatter(2, ids, s)
  nn.output("near", ((many:slice(2, 1, 100):eq(few)):all() & (few:ne(x:slice(2, 1, 100))):any()))
  nn.output("rest", (many:slice(2, 101):eq(x:slice(2, 101))):all())
elseif cfg.case == "entries" then -- each sorts the ids of a state itself
  local ids = nn.state("ids", {n}, {dtype = "i32", init = 3})
  for _, name in ipairs{"first", "second"} do
    nn.entry(name, function()
      nn.output(name .. "_y", nn.scatter_add(ids, nn.input("x_" .. name, {n, d}), size))
    end)
  end
elseif cfg.case == "one" then -- ids of one place, whatever the order of blocks
  local ids = nn.full({n}, size - 1, {dtype = "i32"})
  nn.output("y", nn.scatter_add(ids, nn.input("x", {n, d}), size))
elseif cfg.case == "gradient" then -- of a table that scores gather, and of words
  local t = n
  local heads = {1, 2, t, 16}
  local q, k, v = nn.input("q", heads), nn.input("k", heads), nn.input("v", heads)
  local bias = nn.param("bias", {2 * (2 * t - 1)})
  local y = q:attention(k, v, {score = function(s, at)
    return s + bias:gather(at.head * (2 * t - 1) + at.key - at.query + t - 1)
  end})
  nn.output("g", nn.grad((y * y):sum(), bias))
  local words = ids_of{2, n}:embedding("words", {count = size, size = d})
  nn.output("gw", nn.grad((words * words):sum(), nn.parameters()[2]))
end
