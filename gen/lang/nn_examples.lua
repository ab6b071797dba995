-- nn_examples.lua: the positions of a batch's examples in a value, of the module `nn` (nn.lua):
-- propagated from the inputs by the class of each op.
-- A place is {axis, each}, the axis from 0: the element with coordinate c along it belongs to
-- example c // each % batch and depends on that example only. "none": depends on no example;
-- "mixed": elements depend on several, or the rule cannot be expressed as a place.
local core = ...
local shape, tools = core.shape, core.tools

-- Is the axis, from `begin` on for `count` elements, made of whole batches?
local function keeps(p, begin, count, batch)
  local period = p.each * batch
  return begin % period == 0 and count % period == 0
end

-- ---- moves: (place, node, input, dims of the result, input index) -> its place ------------------

local moves = {}

-- A step of the place spans a fixed number of elements, whatever the shape.
function moves.reshape(p, node, input, dims, _, batch)
  local old = shape(input)
  local step, behind = p.each * tools.product(old, p.axis + 2), 1
  for i = #dims, 1, -1 do
    local each = step // behind
    if step % behind == 0 and each > 0 and dims[i] % (each * batch) == 0 then
      return {axis = i - 1, each = each}
    end
    behind = behind * dims[i]
  end
  return "mixed"
end

function moves.permute(p, node, input, dims)
  for i = 1, #dims do
    if node.dims[i] == p.axis then return {axis = i - 1, each = p.each} end
  end
end

function moves.slice(p, node, input, dims, _, batch)
  local i = p.axis + 1
  return keeps(p, node.dims[i], dims[i], batch) and p or "mixed"
end

function moves.pad(p, node, input, dims, _, batch)
  local i = p.axis + 1
  return keeps(p, node.dims[i], node.ends[i], batch) and p or "mixed"
end

function moves.roll(p, node) return node.dims[p.axis + 1] == 0 and p or "mixed" end

-- All inputs must consist of whole batches along the axis, whether they depend on examples or not.
function moves.concat(p, node, input, dims, _, batch)
  if node.axis ~= p.axis then return p end
  for _, x in ipairs(node.inputs) do
    if not keeps(p, 0, shape(x)[p.axis + 1], batch) then return "mixed" end
  end
  return p
end

-- Rows, or elements of rows, selected by integers: along the axis they may be of any example.
function moves.gather(p, node, input, dims, i)
  if i == 2 then return {axis = p.axis + node.axis, each = p.each} end
  if p.axis == node.axis then return "mixed" end
  local more = #shape(node.inputs[2]) - 1
  return {axis = p.axis + (p.axis > node.axis and more or 0), each = p.each}
end

function moves.along(p, node, input, dims, i)
  return (i == 2 or p.axis ~= node.axis) and p or "mixed"
end

-- ---- op classes: as for moves -------------------------------------------------------------------

local classes = {}

function classes.map(p, node, input, dims)
  return {axis = p.axis + #dims - #shape(input), each = p.each}
end

function classes.reduce(p, node) return node.axes >> p.axis & 1 == 0 and p or "mixed" end

-- An element depends only on those before it, which exclude padding: that follows all other
-- examples.
function classes.scan(p, node, input, dims, _, batch)
  return (p.axis ~= node.axis or dims[p.axis + 1] == p.each * batch) and p or "mixed"
end

-- Rows added by ids keep the place if it is the batch, or among the elements of a row.
function classes.scatter(p, node, _, _, i)
  local of_batch = #shape(node.inputs[1]) == 2 and p.axis == 0
  local of_element = i == 2 and p.axis == #shape(node.inputs[1])
  return (of_batch or of_element) and p or "mixed"
end

function classes.select(p, node) return p.axis ~= node.axis and p or "mixed" end
classes.sort = classes.select

function classes.window(p, node, input)
  local i = p.axis - 1 -- one of the two window dimensions
  local one = i < 1 or node.kernel[i] == 1 and node.stride[i] == 1 and node.pad[i] == 0 and
      node.pad[i + 2] == 0
  return one and p or "mixed"
end

function classes.move(p, node, input, dims, i, batch)
  return moves[node.form](p, node, input, dims, i, batch)
end

-- The place of an op's result, given place p of its input i.
local function behind(p, x, node, i, batch)
  if node.class == "contract" then
    local axis, each = core.follow(x, i, p.axis, p.each, batch)
    return axis and {axis = axis, each = each} or "mixed"
  end
  return classes[node.class](p, node, node.inputs[i], shape(x), i, batch)
end
tools.place_behind = behind

-- The place of a result of two inputs.
local function both(a, b)
  if a == "none" or b == "mixed" then return b end
  if b == "none" or a == "mixed" then return a end
  return a.axis == b.axis and a.each == b.each and a or "mixed"
end
tools.place_of_both = both

-- The place of the examples in x. known: the places of other values, by id.
local function place_of(x, batch, known)
  local id, node = core.id(x), core.node(x)
  if known[id] then return known[id] end
  local p, dims = "none", shape(x)
  if node.form == "input" and dims[1] and dims[1] % batch == 0 then
    p = {axis = 0, each = dims[1] // batch}
  end
  for i, input in ipairs(node.inputs) do
    local of = place_of(input, batch, known)
    p = both(p, type(of) == "table" and behind(of, x, node, i, batch) or of)
  end
  known[id] = p
  return p
end
tools.place_of = place_of
