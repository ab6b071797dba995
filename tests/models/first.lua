-- Rows that a product's kernel makes before it multiplies. --set case=NAME rows=N width=N columns=N
local nn = require "nn"
local cfg = nn.config{case = "layer", rows = 37, width = 192, columns = 96}
local rows, width, columns = cfg.rows, cfg.width, cfg.columns
local x = nn.input("x", {rows, width})
local function product(h, name) return h:linear(name, {out = columns}) end

local cases = {}
function cases.layer() nn.output("y", product(x:layer_norm("norm"), "fc")) end
function cases.rms() nn.output("y", product(x:rms_norm("norm"), "fc")) end
function cases.softmax() nn.output("y", product(x:softmax(-1), "fc")) end
function cases.several() -- products of the norm that do not become one: the first makes the rows
  local h = x:layer_norm("norm")
  local wide = nn.input("wide", {width, columns})
  nn.output("p", product(h, "p"))
  nn.output("q", h:matmul(wide))
end
function cases.leaves() -- the norm is an output too, and what is added to the product
  local h = x:layer_norm("norm")
  nn.output("norm", h)
  nn.output("y", nn.relu(product(h, "fc")) + h:narrow(2, 1, columns))
end
function cases.gathered() -- ids to rows, whose sum with positions is kept for what comes after
  local ids = nn.input("ids", {rows}, {dtype = "i32", below = 50})
  local h = ids:embedding("words", {count = 50, size = width}) + nn.param("positions", {rows, width})
  local y = product(h:layer_norm("norm"), "fc"):linear("back", {out = width})
  nn.output("y", h + y)
end
function cases.sums() -- the product's own blocks meet too: parts of k, sums of columns
  nn.output("y", product(x:layer_norm("norm"), "fc"):sum(1))
end
function cases.follows() -- norms of it all, one after the other
  local h = x
  for i = 1, 2 do h = product(h:layer_norm("norm" .. i), "up" .. i):softmax(-1) end
  nn.output("y", product(h, "last"))
end
function cases.right() -- the norm is a right operand: it stays a kernel
  nn.output("y", nn.input("left", {columns, rows}):matmul(x:layer_norm("norm")))
end
function cases.both() -- both operands
  local h = x:layer_norm("norm")
  nn.output("y", h:matmul(h:t()))
end
function cases.across() -- rows across memory
  nn.output("y", product(x:softmax(1), "fc"))
end
function cases.changes() -- a state that is read and changed
  local seen = nn.state("seen", {rows, width})
  nn.output("y", product((seen + x):layer_norm("norm"), "fc"))
  nn.update(seen, seen * 0.5 + x)
end
cases[cfg.case]()
