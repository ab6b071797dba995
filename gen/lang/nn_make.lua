-- nn_make.lua: tensors without inputs, of the module `nn` (nn.lua): constants and index arithmetic.
-- Except for nn.tensor's tables they read no memory at run time.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define_here, said, whole = tools.fail, tools.define_here, tools.said, tools.whole

local function of_dtype(x, dtype)
  return dtype and core.dtype(x) ~= dtype and nn.to(x, dtype) or x
end

-- A tensor filled with a number, true or false; dtype f32, i32 or bool accordingly.
define_here("full(dims|size: sizes, value|fill_value: scalar, {dtype: string = nil})",
            "torch.full", function(dims, value, o)
  if type(value) == "boolean" then
    return of_dtype(core.full(dims, value and 1 or 0), o.dtype or "bool")
  end
  local whole_number = math.type(value) == "integer"
  if whole_number and (value > 0x7fffffff or value < -0x80000000) then
    fail("full: %d is beyond i32; with a point, %.1f, it is a float", value, value)
  end
  local dtype = o.dtype or (whole_number and "i32" or "f32")
  return of_dtype(core.full(dims, value), dtype)
end)
define_here("zeros(dims|size: sizes, {dtype: string = f32})", "torch.zeros", function(dims, o)
  return nn.full(dims, 0, o)
end)
define_here("ones(dims|size: sizes, {dtype: string = f32})", "torch.ones", function(dims, o)
  return nn.full(dims, 1, o)
end)
-- Filled tensors of the shape and, by default, the dtype of x.
define_here("full_like(x: tensor, value|fill_value: scalar, {dtype: string = nil})",
            "torch.full_like", function(x, value, o)
  return nn.full(shape(x), value, {dtype = o.dtype or core.dtype(x)})
end)
define_here("zeros_like(x: tensor, {dtype: string = nil})", "torch.zeros_like", function(x, o)
  return nn.full_like(x, 0, o)
end)
define_here("ones_like(x: tensor, {dtype: string = nil})", "torch.ones_like", function(x, o)
  return nn.full_like(x, 1, o)
end)
-- Filled tensors of these sizes and, by default, the dtype of x.
define_here([[new_full(x: tensor, dims|size: sizes, value|fill_value: scalar,
            {dtype: string = nil})]], "Tensor.new_full", function(x, dims, value, o)
  return nn.full(dims, value, {dtype = o.dtype or core.dtype(x)})
end)
define_here("new_zeros(x: tensor, dims|size: sizes, {dtype: string = nil})",
            "Tensor.new_zeros", function(x, dims, o)
  return nn.new_full(x, dims, 0, o)
end)
define_here("new_ones(x: tensor, dims|size: sizes, {dtype: string = nil})",
            "Tensor.new_ones", function(x, dims, o)
  return nn.new_full(x, dims, 1, o)
end)
-- nn.tensor, by default with the dtype of x.
define_here("new_tensor(x: tensor, numbers: any, {dtype: string = nil})",
            "Tensor.new_tensor", function(x, numbers, o)
  return nn.tensor(numbers, {dtype = o.dtype or core.dtype(x)})
end)

-- first, first + step, ... before `last`; with one argument 0, 1, ... before it. Integers if all
-- three are.
define_here([[arange(first|start: number, last|end_: number = nil, step: number = 1,
            {dtype: string = nil})]], "torch.arange", function(first, last, step, o)
  if not last then first, last = 0, first end
  if step == 0 then fail("arange: step = 0") end
  local n = math.ceil((last - first) / step)
  if n < 0 then
    fail("arange: from %s to %s by steps of %s there is nothing", tostring(first), tostring(last),
         tostring(step))
  end
  local x = nn.index({math.tointeger(n)})
  if step ~= 1 then x = x * step end
  if first ~= 0 then x = x + first end
  local whole_numbers = math.type(first) == "integer" and math.type(last) == "integer"
      and math.type(step) == "integer"
  return of_dtype(x, o.dtype or not whole_numbers and "f32" or nil)
end)
-- first, first + step, ... up to and including `last`; floats.
define_here("range(first|start: number, last|end_: number = nil, step: number = 1)",
            "torch.range", function(first, last, step)
  if not last then first, last = 0, first end
  if step == 0 then fail("range: step = 0") end
  local n = (last - first) // step + 1
  if n < 1 then
    fail("range: from %s to %s by steps of %s there is nothing", tostring(first), tostring(last),
         tostring(step))
  end
  return nn.index({math.tointeger(n)}):to("f32") * (step + 0.0) + (first + 0.0)
end)
-- `steps` equidistant numbers from first to last, both included.
define_here("linspace(first|start: number, last|end_: number, steps: amount)",
            "torch.linspace", function(first, last, steps)
  if steps == 1 then return nn.full({1}, first + 0.0) end
  local place = nn.index({steps}):to("f32")
  local gap = (last - first) / (steps - 1) -- computed from both ends, so that both are exact
  return op.where(op.lt(place, steps / 2), place * gap + (first + 0.0),
                  (place - (steps - 1.0)) * gap + (last + 0.0))
end)
-- base to the power of the elements of linspace.
define_here("logspace(first|start: number, last|end_: number, steps: amount, base: number = 10)",
            "torch.logspace", function(first, last, steps, base)
  return op.pow(base + 0.0, nn.linspace(first, last, steps))
end)
-- Identity matrix: 1 on the diagonal, 0 elsewhere.
define_here("eye(rows|n: amount, columns|m: amount = nil, {dtype: string = f32})",
            "torch.eye", function(rows, columns, o)
  local dims = {rows, columns or rows}
  return nn.to(op.eq(nn.index(dims, 1), nn.index(dims, 2)), o.dtype)
end)
-- 1 on and below a diagonal, 0 above it.
define_here([[tri(rows|n: amount, columns|m: amount = nil, diagonal: whole = 0,
            {dtype: string = f32})]], "numpy.tri", function(rows, columns, diagonal, o)
  local dims = {rows, columns or rows}
  return nn.to(op.le(nn.index(dims, 2) - nn.index(dims, 1), diagonal), o.dtype)
end)
-- The positions of a rows x columns matrix selected by column - row: {rows, columns}.
local function places(rows, columns, counts)
  local list = {{}, {}}
  for i = 0, rows - 1 do
    for j = 0, columns - 1 do
      if counts(j - i) then list[1][#list[1] + 1], list[2][#list[2] + 1] = i, j end
    end
  end
  return nn.tensor(list, {dtype = "i32"})
end
-- The positions on and below a diagonal of a matrix, row by row, as i32 (2, N): rows, then columns.
define_here("tril_indices(rows|row: amount, columns|col: amount = nil, offset: whole = 0)",
            "torch.tril_indices", function(rows, columns, offset)
  return places(rows, columns or rows, function(v) return v <= offset end)
end)
-- The positions on and above a diagonal, as tril_indices.
define_here("triu_indices(rows|row: amount, columns|col: amount = nil, offset: whole = 0)",
            "torch.triu_indices", function(rows, columns, offset)
  return places(rows, columns or rows, function(v) return v >= offset end)
end)

-- ---- numbers in the model file ------------------------------------------------------------------

-- The sizes of nested tables, and their numbers in row-major order.
local function read(v, axis, dims, list)
  if type(v) ~= "table" then
    if #dims ~= axis - 1 then fail("tensor: a list mixes numbers and tables") end
    if type(v) == "boolean" then v = v and 1 or 0 end
    if type(v) ~= "number" then
      fail("tensor: %s: expected numbers, in tables within tables", said(v))
    end
    list[#list + 1] = v
    return
  end
  local n = #v
  if dims[axis] and dims[axis] ~= n then
    fail("tensor: tables of %d and of %d elements along axis %d", dims[axis], n, axis)
  end
  if not dims[axis] then
    if #list > 0 then fail("tensor: a list mixes numbers and tables") end
    dims[axis] = n
  end
  for i = 1, n do read(v[i], axis + 1, dims, list) end
end

-- A constant stored in the plan, not in weights files: a source tensor_1 and so on, shared by equal
-- ones.
local tables, ntables = {}, 0
local function stored(dims, list)
  local key = table.concat(dims, " ") .. ":" .. table.concat(list, " ")
  if not tables[key] then
    ntables = ntables + 1
    tables[key] = tools.placed("", core.table, "tensor_" .. ntables, dims, list)
    tools.buffers[core.id(tables[key])] = true
  end
  return tables[key]
end

local kMostNumbers = 1 << 20
local kMostWhole = 1 << 24 -- every integer up to it is exact in f32

-- A tensor of the numbers of nested tables, {{1, 2}, {3, 4}}: floats, or integers if all are. Up to
-- 64 become part of the kernels that use them; more, up to 2^20 (integers up to 2^24), are stored
-- with the parameters. Or the array of a NumPy file next to the model, "places.npy".
define_here("tensor(numbers: any, {dtype: string = nil})", "torch.tensor", function(numbers, o)
  local dims, list = {}, {}
  if type(numbers) == "string" then dims, list = core.numbers(numbers)
  else read(numbers, 1, dims, list) end
  local float = false
  for _, v in ipairs(list) do float = float or math.type(v) == "float" end
  if #list > kMostNumbers then
    fail("tensor: %d numbers: expected at most %d; larger ones are parameters, " ..
         "nn.param(\"name\", shape), from --weights", #list, kMostNumbers)
  end
  if #list > 64 then
    for i, v in ipairs(list) do
      if not float and (v > kMostWhole or v < -kMostWhole) then
        fail("tensor: number %d is %d: of more than 64 integers each is at most 2^24", i, v)
      end
    end
    local x = stored(dims, list)
    return of_dtype(float and x or nn.to(x, "i32"), o.dtype)
  end
  if #list == 0 then return nn.full(dims, 0, {dtype = o.dtype or "f32"}) end
  for i, v in ipairs(list) do list[i] = float and v + 0.0 or v end
  -- Binary search by halves, down to single numbers: one comparison per bit of the position.
  local place = nn.index({#list})
  local function pick(first, last)
    if first == last then return list[first] end
    local middle = (first + last) // 2
    local a, b = pick(first, middle), pick(middle + 1, last)
    if not core.is_tensor(a) and a == b then return a end
    return op.where(op.lt(place, middle), a, b)
  end
  local x = pick(1, #list)
  if not core.is_tensor(x) then x = nn.full({#list}, x) end
  return of_dtype(op.reshape(x, {dims = dims}), o.dtype)
end)
