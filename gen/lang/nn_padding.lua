-- nn_padding.lua: values of an evaluation over a short last batch, of the module `nn` (nn.lua),
-- without its padding: copies of its last example.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, tensor = tools.fail, tools.tensor

local function size(x)
  local n = 1
  for _, d in ipairs(shape(x)) do n = n * d end
  return n
end

-- ---- recomputed without the padding -------------------------------------------------------------

-- x, with `other` in place of padding examples.
local function valid_or(x, other, place, valid, batch)
  local dims, along = shape(x), {}
  for i = 1, #dims do along[i] = i == place.axis + 1 and dims[i] or 1 end
  local example = nn.index(along, place.axis + 1) // place.each % batch
  return op.where(op.lt(example, valid), x, other)
end

-- f sums x over examples: the sum of the valid ones, scaled up to a whole batch.
local function sum_of_valid(f, x, place, valid, batch)
  local floats = core.dtype(x):find("f") and x or x:to("f32")
  return f(valid_or(floats, 0.0, place, valid, batch)) / (valid:to("f32") * (1 / batch))
end

-- Identities for floats and integers. A copy of the last example is not neutral, for example after
-- a prefix sum, or for a position, which is larger.
local neutral = {reduce_max = {-math.huge, -2147483647}, reduce_min = {math.huge, 2147483647},
                 reduce_all = {1.0, 1}, reduce_any = {0.0, 0}}

-- A value recomputed without the padding: a sum over examples, or maps and reductions of such sums,
-- for example a mean, a mean plus a penalty, or a loss per example plus such a term. Second result:
-- the place of the examples in it (nn_examples.lua). nil: padding cannot be excluded.
local of_valid
local function of_reduction(x, node, valid, batch, known)
  local from, place = of_valid(node.inputs[1], valid, batch, known)
  if not from then return nil end
  if place ~= "none" and node.axes >> place.axis & 1 == 1 then
    if node.op == "reduce_sum" then
      local function sum(v) return op.reduce_sum(v, {axes = node.axes}) end
      return sum_of_valid(sum, from, place, valid, batch), "none"
    end
    local other = neutral[node.op]
    if not other then return nil end
    other = core.dtype(from):find("f") and other[1] or other[2]
    from, place = valid_or(from, other, place, valid, batch), "none"
  end
  return op[node.op](from, {axes = node.axes}), place
end

-- Rows of examples added by ids: the valid ones, scaled up to a whole batch.
local function of_scatter(x, node, valid, batch, known)
  local ids, place = of_valid(node.inputs[1], valid, batch, known)
  local rows, own = of_valid(node.inputs[2], valid, batch, known)
  if not ids or not rows then return nil end
  place = tools.place_of_both(place, own)
  if place ~= "none" and place ~= "mixed" and place.axis == #shape(ids) - 1 then
    local function sum(v) return op.scatter_sum(ids, v, {count = node.count}) end
    return sum_of_valid(sum, rows, place, valid, batch), "none"
  end
  return nil
end

local function of_map(x, node, valid, batch, known)
  local inputs, place = {}, "none"
  for i in ipairs(node.inputs) do
    local own
    inputs[i], own = of_valid(node.inputs[i], valid, batch, known)
    if not inputs[i] then return nil end
    if own ~= "none" then own = tools.place_behind(own, x, node, i, batch) end
    place = tools.place_of_both(place, own)
  end
  if place == "mixed" then return nil end
  if node.form == "reshape" then return nn.reshape(inputs[1], shape(x)), place end
  inputs[#inputs + 1] = node -- its attributes
  return op[node.op](table.unpack(inputs)), place
end

function of_valid(x, valid, batch, known)
  local place, node, id = tools.place_of(x, batch, known.places), core.node(x), core.id(x)
  if place ~= "mixed" then return x, place end
  local made = known.again[id]
  if not made then
    local f = node.class == "reduce" and of_reduction or node.class == "scatter" and of_scatter
        or (node.class == "map" or node.form == "reshape") and of_map
    made = f and table.pack(f(x, node, valid, batch, known)) or {}
    known.again[id] = made
  end
  return made[1], made[2]
end

-- A value of the batch as one number: the mean over the valid examples, or the value if it is one
-- number. Second result: does padding affect it?
function tools.over_batch(name, x, valid, batch)
  local dims = shape(tensor("train: " .. name, x))
  if not core.dtype(x):find("f") then x = x:to("f32") end
  local one = size(x) == 1
  if not one and (#dims ~= 1 or dims[1] ~= batch) then
    fail("train: %s is %s; expected one number, or one for each of the %d examples", name,
         tostring(x), batch)
  end
  local made = x
  if valid and batch > 1 then made = of_valid(x, valid, batch, {again = {}, places = {}}) end
  if one then return nn.reshape(made or x, {1}), not made end
  if not valid then return nn.reshape(nn.mean(x), {1}) end
  local counts = op.lt(nn.index({batch}, 1), valid)
  local sum = nn.sum(op.where(counts, made or x, 0.0))
  return nn.reshape(sum, {1}) / valid:to("f32"), not made
end
