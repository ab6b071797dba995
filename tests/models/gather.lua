-- Reading and adding up by integers. --set case=NAME
local nn = require "nn"
local cfg = nn.config{case = "rows", form = "gather", from = 5}
local cases = {}

function cases.rows()
  local ids = nn.input("ids", {3, 5}, {dtype = "i32"})
  local table = nn.param("table", {11, 24}, {"normal", 0, 1})
  nn.output("rows", table:gather(ids))
  nn.output("shifted", nn.gather(table, (ids + 4) % 11) * 2)
  nn.output("columns",
            nn.gather(nn.input("x", {4, 9, 7}), nn.input("at", {6}, {dtype = "i64", below = 9}), 2))
  nn.output("inner", nn.gather(nn.input("z", {8, 13}),
                               nn.input("last", {2, 3}, {dtype = "u8", below = 13}), -1))
  nn.output("integers", nn.gather(nn.index({11, 3}, 1) * 100 + nn.index({11, 3}, 2), ids))
end
function cases.along()
  local x = nn.input("x", {6, 17})
  nn.output("one", x:take_along(nn.input("label", {6, 1}, {dtype = "i32"})))
  nn.output("many", x:take_along(nn.input("order", {6, 9}, {dtype = "i32"})))
  nn.output("down", x:take_along(nn.input("rows", {3, 17}, {dtype = "i32"}), 1))
  local logits = nn.input("logits", {8, 10})
  nn.output("loss", -logits:log_softmax():take_along(nn.input("y", {8, 1}, {dtype = "i32"})):mean())
end
function cases.embedding() -- tokens, positions and a norm, as a language model begins
  local tokens = nn.input("tokens", {2, 16}, {dtype = "i64", below = 100})
  local x = tokens:embedding("wte", {count = 100, size = 32})
    + nn.index({16}, 1):embedding("wpe", {count = 16, size = 32})
  x = x:layer_norm("ln"):linear("q", {out = 48})
  nn.output("y", x:relu())
end
function cases.scatter()
  local ids = nn.input("ids", {12}, {dtype = "i32", below = 7})
  nn.output("sums", nn.scatter_add(ids, nn.input("rows", {12, 3, 5}), 7))
  nn.output("hot", nn.one_hot(ids, 9))
end
function cases.outside() -- ids that the table has not
  local ids = nn.input("ids", {4}, {dtype = "i32", below = 100}) + cfg.from
  local x, rows = nn.input("x", {5, 8}), nn.input("rows", {4, 8})
  local wide = ids:reshape{4, 1}:expand{4, 8}
  local forms = {
    gather = function() return nn.gather(x, ids) end,
    take_along = function() return x:take_along(wide, 1) end,
    embedding = function() return ids:embedding("e", {count = 5, size = 4}) end,
    loss = function() return nn.input("z", {4, 5}):cross_entropy(ids) end,
    rows = function() return nn.scatter_add(ids, rows, 5) end,
    scatter = function() return x:scatter(1, wide, rows) end,
    scatter_add = function() return x:scatter_add(1, wide, rows) end,
    index_add = function() return x:index_add(1, ids, rows) end,
    index_fill = function() return x:index_fill(1, ids, 2.0) end,
    one_hot = function() return nn.one_hot(ids, 5) end,
    product = function() return nn.gather(x, (rows:matmul(rows:t()) * 0 + cfg.from):to("i32")) end,
  }
  nn.output("y", forms[cfg.form]())
end
function cases.counted() -- a state counts rows
  local row = nn.state("row", {1}, {dtype = "i32", below = 3})
  nn.update(row, row + 1)
  nn.output("y", nn.gather(nn.input("x", {3, 8}), row))
end
cases[cfg.case]()
