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

-- How x is made of examples: "not" at all, "along" its first axis, or "mixed", in any other way.
-- `known`: of each tensor seen before.
local function made_of(x, batch, known)
  local id, node, dims = core.id(x), core.node(x), shape(x)
  if known[id] then return known[id] end
  local how = node.op == "input" and "along" or "not"
  for _, input in ipairs(node.inputs) do
    local of = made_of(input, batch, known)
    if of == "along" and node.class == "map" and #shape(input) ~= #dims then of = "mixed" end
    if of == "mixed" or how == "not" then how = of end
  end
  local moved = node.op == "permute" and node.dims[1] ~= 0
  local whole = node.class ~= "reduce" or node.axes & 1 == 0
  if how == "along" and (moved or not whole or dims[1] % batch ~= 0) then how = "mixed" end
  known[id] = how
  return how
end
local function carries(x, batch, known) return made_of(x, batch, known) == "along" end

-- A sum over examples, from those that count: as large as if they were a whole batch.
local function sum_of_valid(x, axes, valid, batch)
  local dims, first = shape(x), {}
  for i = 1, #dims do first[i] = i == 1 and dims[1] or 1 end
  local counts = op.lt(nn.index(first, 1) // (dims[1] // batch), valid)
  local floats = core.dtype(x):find("f") and x or x:to("f32")
  return op.reduce_sum(op.where(counts, floats, 0.0), {axes = axes}) /
      (valid:to("f32") * (1 / batch))
end

-- What padding, copies of the last example, does not change.
local idempotent = {reduce_max = true, reduce_min = true, reduce_all = true, reduce_any = true}

-- What is left of examples, made again without the padding: a sum over them, or made of some by
-- maps and reductions, as a mean is, or a mean and a penalty. nil: padding counts.
local function of_valid(x, valid, batch, known)
  local node = core.node(x)
  if made_of(x, batch, known) == "not" then return x end
  if node.class == "reduce" then
    local from = node.inputs[1]
    if not carries(from, batch, known) then
      from = of_valid(from, valid, batch, known)
      return from and op[node.op](from, {axes = node.axes})
    end
    if node.op == "reduce_sum" then return sum_of_valid(from, node.axes, valid, batch) end
    return idempotent[node.op] and x
  end
  if node.class ~= "map" and node.op ~= "reshape" then return nil end
  local inputs = {}
  for i, input in ipairs(node.inputs) do
    inputs[i] = not carries(input, batch, known) and of_valid(input, valid, batch, known)
    if not inputs[i] then return nil end
  end
  if node.op == "reshape" then return nn.reshape(inputs[1], shape(x)) end
  inputs[#inputs + 1] = node -- its attributes
  return op[node.op](table.unpack(inputs))
end

-- A value of the batch, a bool or an integer too, as one number: the mean over the examples that
-- count, or as it is. Also: whether padding counts in it.
function tools.over_batch(name, x, valid, batch)
  local dims = shape(tensor("train: " .. name, x))
  if not core.dtype(x):find("f") then x = x:to("f32") end
  if size(x) == 1 then
    local made = not valid and x or batch == 1 and x or of_valid(x, valid, batch, {})
    return nn.reshape(made or x, {1}), not made
  end
  if #dims ~= 1 or dims[1] ~= batch then
    fail("train: %s is %s; wants one number, or one for each of the %d examples", name, tostring(x),
         batch)
  end
  if not valid then return nn.reshape(nn.mean(x), {1}) end
  local counts = op.lt(nn.index({batch}, 1), valid)
  return nn.reshape(nn.sum(op.where(counts, x, 0.0)), {1}) / valid:to("f32")
end
