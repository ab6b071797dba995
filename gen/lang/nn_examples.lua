-- nn_examples.lua: where the examples of a batch are in a value, of the module `nn` (nn.lua):
-- followed from the inputs on by the class of each op.
--
-- A place is {axis, each}, the axis from 0: what has the coordinate c along it is of the example
-- c // each % batch, and made of that example alone. "none": made of no example; "mixed": elements
-- are made of several, or of one by a rule that is no place.
local core = ...
local shape, tools = core.shape, core.tools

-- Whole batches along the axis, from `begin` elements in on, are `count` long.
local function keeps(p, begin, count, batch)
  local period = p.each * batch
  return begin % period == 0 and count % period == 0
end

-- ---- moves: (place, node, input, dims of the result, which input) -> its place -----------------

local moves = {}

-- A number of elements lies behind each step of the place, in any shape.
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

-- Behind inputs of whole batches, each of them made of examples or not.
function moves.concat(p, node, input, dims, _, batch)
  if node.axis ~= p.axis then return p end
  for _, x in ipairs(node.inputs) do
    if not keeps(p, 0, shape(x)[p.axis + 1], batch) then return "mixed" end
  end
  return p
end

-- Rows, or elements of rows, at integers: where these come from another example than the row.
function moves.gather(p, node, input, dims, i)
  if i == 2 then return {axis = p.axis + node.axis, each = p.each} end
  if p.axis == node.axis then return "mixed" end
  local more = #shape(node.inputs[2]) - 1
  return {axis = p.axis + (p.axis > node.axis and more or 0), each = p.each}
end

function moves.along(p, node, input, dims, i)
  return (i == 2 or p.axis ~= node.axis) and p or "mixed"
end

-- ---- classes: the same (CLASS) ------------------------------------------------------------------

local classes = {}

function classes.map(p, node, input, dims)
  return {axis = p.axis + #dims - #shape(input), each = p.each}
end

function classes.reduce(p, node) return node.axes >> p.axis & 1 == 0 and p or "mixed" end

-- Of what lies before an element alone, which is no padding: that is behind all other examples.
function classes.scan(p, node, input, dims, _, batch)
  return (p.axis ~= node.axis or dims[p.axis + 1] == p.each * batch) and p or "mixed"
end

-- Of rows that are added up by ids: of a batch, and of their elements, as they are.
function classes.scatter(p, node, _, _, i)
  local of_batch = #shape(node.inputs[1]) == 2 and p.axis == 0
  local of_element = i == 2 and p.axis == #shape(node.inputs[1])
  return (of_batch or of_element) and p or "mixed"
end

function classes.select(p, node) return p.axis ~= node.axis and p or "mixed" end

function classes.window(p, node, input)
  local i = p.axis - 1 -- of the two that windows go along
  local one = i < 1 or node.kernel[i] == 1 and node.stride[i] == 1 and node.pad[i] == 0 and
      node.pad[i + 2] == 0
  return one and p or "mixed"
end

function classes.move(p, node, input, dims, i, batch)
  return moves[node.form](p, node, input, dims, i, batch)
end

-- What an op makes of a place in its input i.
local function behind(p, x, node, i, batch)
  if node.class == "contract" then
    local axis, each = core.follow(x, i, p.axis, p.each, batch)
    return axis and {axis = axis, each = each} or "mixed"
  end
  return classes[node.class](p, node, node.inputs[i], shape(x), i, batch)
end
tools.place_behind = behind

-- The place of what is made of both.
local function both(a, b)
  if a == "none" or b == "mixed" then return b end
  if b == "none" or a == "mixed" then return a end
  return a.axis == b.axis and a.each == b.each and a or "mixed"
end
tools.place_of_both = both

-- Where the examples are in x. known: the places of other values, by their ids.
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
