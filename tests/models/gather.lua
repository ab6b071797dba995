-- Reading and adding up by integers. --set case=NAME
local nn = require "nn"
local cfg = nn.config{case = "rows"}
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
  nn.output("y", nn.gather(nn.input("x", {5, 8}),
                           nn.input("ids", {4}, {dtype = "i32", below = 100}) + 5))
end
cases[cfg.case]()
