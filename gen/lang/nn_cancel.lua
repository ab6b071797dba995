-- nn_cancel.lua: what softmax cancels out, of the module `nn` (nn.lua). Where a value of rows is
-- added to what softmax alone reads, or taken from it, as the largest score of each row is, weights
-- do not depend on it: nn.grad finds no derivative there, and so none of a largest element.
local core, nn = ...
local shape, tools = core.shape, core.tools

local kMostReaders = 64 -- nodes of one question

-- How a result changes where its inputs do as t, the same along a row, is added: "sum" by t,
-- "factor" to exp(t) times as much, nil not at all; false: otherwise.
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
changes.reduce_expsum = changes.exp -- the largest element is taken for a constant

-- Of `where`: of both, or of one where the other is a number that does not change so either.
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

-- Along which dimensions of y, a bit each, x is the same.
local function axes_along(x, y)
  local from, to, bits = shape(x), shape(y), 0
  for i = 1, #to do
    if (from[i - #to + #from] or 1) == 1 then bits = bits | 1 << (i - 1) end
  end
  return bits
end

-- That of a node; change: by id, of what it reads.
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

-- By id, the ids of what reads each of the nodes.
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

-- cancels(nodes) -> f(y, x): does the last of the nodes not change with x, which is added to y or
-- taken from it in each row? nodes: by id, as nn.grad has them.
function tools.cancels(nodes)
  local readers
  return function(y, x)
    readers = readers or readers_of(nodes)
    local axes, change, waiting, count = axes_along(x, y), {[core.id(y)] = "sum"}, {}, 0
    local function wait(id)
      if not readers[id] then return false end -- it is the loss
      for _, reader in ipairs(readers[id]) do waiting[reader] = true end
      return true
    end
    if not wait(core.id(y)) then return false end
    while next(waiting) do
      local first = math.huge -- what it reads has been asked
      for id in pairs(waiting) do first = math.min(first, id) end
      waiting[first], count = nil, count + 1
      local made = change_of(nodes[first], change, axes, nodes)
      if made == false or count > kMostReaders or (made and not wait(first)) then return false end
      change[first] = made
    end
    return true
  end
end
