-- Dimensions of size 1 between what fuses: each case with them (view=true) and without.
local nn = require "nn"
local cfg = nn.config{case = "map_row", view = true, rows = 24, columns = 40}
local R, C = cfg.rows, cfg.columns
local x = nn.input("x", {R, C})
local function u(t) return cfg.view and t:unsqueeze(2) or t end -- (R, 1, C)
local last = cfg.view and 3 or 2
local cases = {}
local function out(y) nn.output("y", y) end

function cases.map_row() out(u(x:relu()):softmax()) end
function cases.map_norm() out(u(x + nn.input("r", {R, C})):layer_norm("n")) end
function cases.map_variance() out(u(x:exp()):var(last)) end
function cases.map_scan() out(u(x:sigmoid()):cumsum(last)) end
function cases.map_sort() out((u(x * 2):sort(last))) end
function cases.map_argmax() out(u(x:abs()):argmax(last)) end
function cases.row_sum() out(u(x:softmax() * x):sum(last)) end
function cases.row_row() out(u(x:layer_norm("n")):softmax()) end
function cases.column_max() out(u(x:tanh()):amax(1)) end
function cases.deviations() local d = x - x:mean(2, true) out(u(d * d):mean(last)) end
function cases.siblings() nn.output("a", x:sum(2)) out(u(x):amax(last)) end
function cases.products() -- of one operand: one product
  nn.output("a", x:linear("p", {out = 8}))
  out(u(x):linear("q", {out = 8}))
end
function cases.scan_map() out(u(x:cumsum(2)):exp()) end
function cases.topk_map() out(u((x:topk(3, 2))):exp()) end
function cases.sort_map() out(u((x:sort(1))):exp()) end
function cases.scatter_map()
  local ids = nn.input("ids", {R}, {dtype = "i32", below = 10})
  out(u(nn.scatter_add(ids, x, 10)):exp())
end
function cases.gather_norm()
  local ids = nn.input("ids", {30}, {dtype = "i32", below = R})
  out(u(x:gather(ids, 1)):layer_norm("n"))
end
function cases.two_computed() -- operands with and without the dimension, each computed
  out(u(x:relu()) * u(x:softmax()) + u(x):exp())
end
cases[cfg.case]()
