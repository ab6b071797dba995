-- nn_cancel.lua: softmax is invariant to a shift of its rows, of the module `nn` (nn.lua). If a
-- per-row value such as the row maximum is added to or subtracted from scores read only by a
-- softmax, the result does not depend on it: nn.grad skips that derivative, and that of the maximum
-- with it.
local core, nn = ...
local shape, tools = core.shape, core.tools

local kMostReaders = 64 -- limit of nodes per query

-- The change of a result when t, constant along a row, is added to its inputs: "sum": t is added,
-- "factor": multiplied by exp(t), nil: unchanged; false: anything else.
local changes = {}
function changes.add(a, b) return not (a and b) and (a or b) == "sum" and "sum" end
function changes.sub(a, b)
  if a == "sum" and b == "sum" then return nil end
  return a == "sum" and not b and "sum"
end
function changes.mul(a, b) return not (a and b) and (a or b) == "factor" and "factor" end
function changes.div(a, b)
  if a == "factor" and b == "factor" then return nil end
  return a == "factor" and not b and "factor"
end
function changes.exp(a) return a == "sum" and "factor" end
function changes.log(a) return a == "factor" and "sum" end
function changes.stop_gradient() return nil end
function changes.to(a) return a end
changes.copy, changes.reduce_max, changes.reduce_most = changes.to, changes.to, changes.to
function changes.reduce_sum(a) return a == "factor" and a end
function changes.reduce_lse(a) return a == "sum" and a end
changes.reduce_expsum = changes.exp -- max is treated as constant

-- The change of `where`: that of both branches, or of one if the other is a number that would not
-- change anyway.
local function change_of_choice(of, node, nodes)
  local a, b = of[2], of[3]
  if a and b then return a == b and a end
  if not (a or b) then return nil end
  local other = nodes[core.id(node.inputs[a and 3 or 2])]
  local number = other and other.value
  local kind = a or b
  if kind == "factor" then return number == 0 and kind end
  return math.abs(number or 0) == math.huge and kind
end

-- The dimensions of y along which x is constant, as a bit mask.
local function axes_along(x, y)
  local from, to, bits = shape(x), shape(y), 0
  for i = 1, #to do
    if (from[i - #to + #from] or 1) == 1 then bits = bits | 1 << (i - 1) end
  end
  return bits
end

-- The change of a node; change: those of its inputs, by id.
local function change_of(node, change, axes, nodes)
  local of, rank = {}, nil
  for i, x in ipairs(node.inputs) do
    of[i] = change[core.id(x)]
    if of[i] and rank and rank ~= #shape(x) then return false end
    rank = of[i] and #shape(x) or rank
  end
  if not core.dtype(node.tensor):find("f") then return nil end -- no derivative passes
  if node.op == "where" and not node.rule then return change_of_choice(of, node, nodes) end
  local rule = not node.rule and changes[node.op]
  if not rule or (node.axes or 0) & ~axes ~= 0 then return false end
  return rule(of[1], of[2])
end

-- By id, the ids of each node's readers.
local function readers_of(nodes)
  local readers = {}
  for id, node in pairs(nodes) do
    for _, x in ipairs(node.inputs) do
      local list = readers[core.id(x)] or {}
      readers[core.id(x)] = list
      list[#list + 1] = id
    end
  end
  return readers
end

-- cancels(nodes) -> f(y, x): is the last of the nodes unchanged when y, a sum or difference,
-- changes by its per-row operand x? nodes: by id, as nn.grad stores them.
function tools.cancels(nodes)
  local readers
  return function(y, x)
    readers = readers or readers_of(nodes)
    local axes, change, waiting, count = axes_along(x, y), {[core.id(y)] = "sum"}, {}, 0
    local function wait(id)
      if not readers[id] then return false end -- the loss
      for _, reader in ipairs(readers[id]) do waiting[reader] = true end
      return true
    end
    if not wait(core.id(y)) then return false end
    while next(waiting) do
      local first = math.huge -- its inputs have been visited
      for id in pairs(waiting) do first = math.min(first, id) end
      waiting[first], count = nil, count + 1
      local made = change_of(nodes[first], change, axes, nodes)
      if made == false or count > kMostReaders or (made and not wait(first)) then return false end
      change[first] = made
    end
    return true
  end
end
