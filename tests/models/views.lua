-- Reshapes between what fuses: each case with them (view=true) and without. Most only add a
-- dimension of size 1; those of the last cases split or join dimensions.
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
-- the same elements in rows of 8
local function g(t) return cfg.view and t:reshape{R, C // 8, 8} or t end
local function shares(t) return t / t:sum(-1, true) end
function cases.groups_softmax() out(g(x:relu()):softmax()) end
function cases.groups_norm() out(g(x + nn.input("r", {R, C})):layer_norm("n")) end
function cases.groups_shares() out(shares(g(x:exp()))) end
function cases.groups_of_input() out(g(x):softmax()) end
function cases.rows_joined() out(shares(cfg.view and x:exp():reshape{R // 2, 2 * C} or x:exp())) end
function cases.groups_of_product() out(g(x:linear("p", {out = C})):softmax()) end
function cases.groups_rms()
  local h = g(x:linear("p", {out = C}))
  out(h * ((h * h):mean(-1, true) + 1e-5):rsqrt())
end
function cases.groups_mean() out(g(x:exp()):mean(2)) end
function cases.ragged_groups() -- no vector of lanes stays together
  local v = nn.input("v", {R, 35}):relu()
  out((cfg.view and v:reshape{R, 5, 7} or v):softmax())
end
function cases.turned_groups() -- not the same memory
  local v = x:exp()
  out(shares(cfg.view and v:t():reshape{C // 8, 8, R} or v))
end
function cases.biased_groups() -- an operand in the shape before
  out(g(x * nn.input("r", {C}) + nn.input("s", {R, 1})):softmax())
end
function cases.halves() -- GLU: halves of columns
  local h = x:linear("p", {out = 64})
  if not cfg.view then return out(h:narrow(2, 1, 32) * h:narrow(2, 33, 32):sigmoid()) end
  h = h:reshape{R, 2, 32}
  out(h:narrow(2, 1, 1) * h:narrow(2, 2, 1):sigmoid())
end
function cases.halves_squeezed()
  local h = x:linear("p", {out = 64})
  if not cfg.view then return out(h:narrow(2, 1, 32):tanh() * h:narrow(2, 33, 32)) end
  h = h:reshape{R, 2, 32}
  out(h:narrow(2, 1, 1):squeeze(2):tanh() * h:narrow(2, 2, 1):squeeze(2))
end
function cases.thirds()
  local h = x:linear("p", {out = 96})
  local function third(i)
    return cfg.view and h:reshape{R, 3, 32}:narrow(2, i, 1) or h:narrow(2, 32 * i - 31, 32)
  end
  out(third(1) * third(2):sigmoid() + third(3))
end
cases[cfg.case]()
