-- nn_padding.lua: what an evaluation makes of a whole batch, of the module `nn` (nn.lua), without
-- the padding of the last one: copies of its last example.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, tensor = tools.fail, tools.tensor

local function size(x)
  local n = 1
  for _, d in ipairs(shape(x)) do n = n * d end
  return n
end

-- ---- where the examples are ---------------------------------------------------------------------
-- Of each tensor: "not" (it is made of none), the axis that they lie along, from 0, "lost" (they
-- may lie in it in some other way), or "mixed": some element is made of several.

-- The axis of `to` that is axis `from` of the sizes `old`; of the first axis a multiple will do.
local function reshaped(from, old, to, batch)
  local before, at = 1, 1
  if from == 0 then return to[1] and to[1] % batch == 0 and 0 or "lost" end
  for i = 1, from do before = before * old[i] end
  for i = 1, #to do
    if at == before and to[i] == old[from + 1] then return i - 1 end
    at = at * to[i]
  end
  return "lost"
end

-- Of input `i` of a product, the axis of the result.
local function in_product(from, i, input, dims)
  local rank = #shape(input)
  if from == rank - (i == 1 and 1 or 2) then return "mixed" end -- summed over
  return from + #dims - rank
end

-- Behind ops of other kinds examples lie along the first axis, if they did.
local function behind(from, i, x, input, node, batch)
  local old, dims = shape(input), shape(x)
  if node.class == "map" then return from + #dims - #old end
  if node.class == "reduce" then return node.axes >> from & 1 == 0 and from or "mixed" end
  if node.op == "reshape" then return reshaped(from, old, dims, batch) end
  if node.op == "matmul" then return in_product(from, i, input, dims) end
  if node.op == "permute" then
    for k = 1, #dims do if node.dims[k] == from then return k - 1 end end
  end
  return from == 0 and dims[1] % batch == 0 and 0 or "lost"
end

local function both(a, b)
  if a == "not" or a == b or b == "mixed" then return b end
  return (b == "not" or a == "mixed") and a or "lost"
end

local function examples_of(x, batch, known)
  local id, node = core.id(x), core.node(x)
  if known[id] then return known[id] end
  local how = node.op == "input" and 0 or "not"
  for i, input in ipairs(node.inputs) do
    local of = examples_of(input, batch, known)
    if math.type(of) then of = behind(of, i, x, input, node, batch) end
    how = both(how, of)
  end
  known[id] = how
  return how
end

-- ---- made again, without the padding ------------------------------------------------------------

-- A sum over examples, from those that count: as large as if they were a whole batch.
local function sum_of_valid(x, examples, axes, valid, batch)
  local dims, along = shape(x), {}
  for i = 1, #dims do along[i] = i == examples + 1 and dims[i] or 1 end
  local each = dims[examples + 1] // batch
  local counts = op.lt(nn.index(along, examples + 1) // each, valid)
  local floats = core.dtype(x):find("f") and x or x:to("f32")
  return op.reduce_sum(op.where(counts, floats, 0.0), {axes = axes}) /
      (valid:to("f32") * (1 / batch))
end

-- What padding, copies of the last example, does not change.
local idempotent = {reduce_max = true, reduce_min = true, reduce_all = true, reduce_any = true}

-- What is left of examples, made again without the padding: a sum over them, or made of some by
-- maps and reductions, as a mean is, a mean and a penalty, or a loss of each example with such a
-- term. Also: the axis of the examples, the padding among them, if it has one. nil: padding counts.
local of_valid
local function of_reduction(x, node, valid, batch, known)
  local from, along = of_valid(node.inputs[1], valid, batch, known)
  if not from then return nil end
  if along and node.axes >> along & 1 == 1 then
    if node.op == "reduce_sum" then return sum_of_valid(from, along, node.axes, valid, batch) end
    if not idempotent[node.op] then return nil end
    along = nil
  end
  return op[node.op](from, {axes = node.axes}), along
end

local function of_map(x, node, valid, batch, known)
  local inputs, along = {}, nil
  for i, input in ipairs(node.inputs) do
    local own
    inputs[i], own = of_valid(input, valid, batch, known)
    own = own and behind(own, i, x, input, node, batch)
    if not inputs[i] or own == "lost" or own and along and own ~= along then return nil end
    along = along or own
  end
  if node.op == "reshape" then return nn.reshape(inputs[1], shape(x)), along end
  inputs[#inputs + 1] = node -- its attributes
  return op[node.op](table.unpack(inputs)), along
end

function of_valid(x, valid, batch, known)
  local how, node, id = examples_of(x, batch, known), core.node(x), core.id(x)
  if how == "not" or math.type(how) then return x, math.type(how) and how or nil end
  local made = known.again[id]
  if not made then
    local f = node.class == "reduce" and of_reduction
        or (node.class == "map" or node.op == "reshape") and of_map
    made = f and table.pack(f(x, node, valid, batch, known)) or {}
    known.again[id] = made
  end
  return made[1], made[2]
end

-- A value of the batch, a bool or an integer too, as one number: the mean over the examples that
-- count, or as it is. Also: whether padding counts in it; of a number for each example, where that
-- is certain.
function tools.over_batch(name, x, valid, batch)
  local dims = shape(tensor("train: " .. name, x))
  if not core.dtype(x):find("f") then x = x:to("f32") end
  local one = size(x) == 1
  if not one and (#dims ~= 1 or dims[1] ~= batch) then
    fail("train: %s is %s; wants one number, or one for each of the %d examples", name, tostring(x),
         batch)
  end
  local made, known = x, {again = {}}
  if valid and batch > 1 then made = of_valid(x, valid, batch, known) end
  if one then return nn.reshape(made or x, {1}), not made end
  if not valid then return nn.reshape(nn.mean(x), {1}) end
  local counts = op.lt(nn.index({batch}, 1), valid)
  local sum = nn.sum(op.where(counts, made or x, 0.0))
  return nn.reshape(sum, {1}) / valid:to("f32"),
      not made and examples_of(x, batch, known) == "mixed"
end
