-- nn.lua: the module `nn` of model files: layers made of ops. `core` (front.c) makes the nodes; the
-- reductions are in nn_reduce.lua, layers that have parameters in nn_layers.lua, derivatives in nn_grad.lua.
--
-- Tensors are N C H W, axes count from 1 (negative from the end), sizes are elements. A layer with
-- parameters takes the tensor, its name, and a table of options; every function is a method too:
-- x:conv2d("conv1", {out = 64, kernel = 3}):relu(). Parameter names and defaults are PyTorch's.
local core = ...
local nn = {op = {}}
local op = core.op
local shape = core.shape

local function fail(format, ...) core.fail(string.format(format, ...)) end

-- ---- places: the names of values and the calls they belong to ---------------------------------

local scope, depth = "", 0

local function join(name)
  if name == "" then return scope end
  return scope == "" and name or scope .. "." .. name
end

-- Runs f under `name`. Inside a layer all ops belong to one call.
local function within(name, in_call, f, ...)
  local outer = scope
  scope = join(name)
  depth = depth + (in_call and 1 or 0)
  core.place(scope, depth > 0)
  local result = table.pack(f(...))
  scope = outer
  depth = depth - (in_call and 1 or 0)
  core.place(scope, depth > 0)
  return table.unpack(result, 1, result.n)
end

-- nn.scope(name, f): the layers that f makes are named name.*
function nn.scope(name, f, ...) return within(name, false, f, ...) end

-- Declares the layer nn.NAME. Its values are named after `named` (a layer's own name) or itself.
local function layer(name, f)
  nn[name] = function(...) return within(depth == 0 and name or "", true, f, ...) end
end

-- The same for a layer with parameters: nn.NAME(x, "its name", options).
local function parameter_layer(name, f)
  nn[name] = function(x, own, options)
    if type(own) ~= "string" then
      fail("%s: wants a name after the tensor, as in x:%s(\"%s1\", ...)", name, name, name)
    end
    return within(own, true, f, x, options)
  end
end

-- ---- options ----------------------------------------------------------------------------------

-- A value as a message shows it.
local function said(v)
  if type(v) == "string" then return "'" .. v .. "'" end
  return (type(v) == "table" or type(v) == "function") and "a " .. type(v) or tostring(v)
end

local function meant(near) return string.format("; did you mean '%s'?", near) end

local REQUIRED = {}

-- Checks `given` against `known` (name = default) and fills in the defaults.
local function options(what, given, known)
  given = given or {}
  if type(given) ~= "table" then
    fail("%s: options are a table, as in {kernel = 3}, not %s", what, said(given))
  end
  local names = {}
  for name in pairs(known) do names[#names + 1] = name end
  table.sort(names)
  for name in pairs(given) do
    if known[name] == nil then
      local near = core.nearest(tostring(name), names)
      fail("%s: unknown option '%s'%s", what, tostring(name),
           near and meant(near) or "; it has: " .. table.concat(names, ", "))
    end
  end
  local all = {}
  for name, default in pairs(known) do
    all[name] = given[name]
    if all[name] == nil then
      if default == REQUIRED then fail("%s: option '%s' is missing", what, name) end
      all[name] = default
    end
  end
  return all
end

local function tensor(what, x)
  if not core.is_tensor(x) then fail("%s: wants a tensor, not %s", what, said(x)) end
  return x
end

local function whole(what, v)
  local n = type(v) == "number" and math.tointeger(v)
  if not n then fail("%s = %s: wants a whole number", what, said(v)) end
  return n
end

-- A number of channels, features or groups.
local function count(what, v)
  local n = whole(what, v)
  if n < 1 then fail("%s = %d: wants at least 1", what, n) end
  return n
end

local function pair(what, v)
  if type(v) == "number" then v = {v, v} end
  if type(v) == "table" and #v == 2 then return {whole(what, v[1]), whole(what, v[2])} end
  fail("%s = %s: wants a number or {height, width}", what, said(v))
end

-- {height, width}, or {top, left, bottom, right}, as the four sides.
local function sides(what, v)
  if type(v) ~= "table" or #v ~= 4 then
    v = pair(what, v)
    return {v[1], v[2], v[1], v[2]}
  end
  return {whole(what, v[1]), whole(what, v[2]), whole(what, v[3]), whole(what, v[4])}
end

local function axis_of(what, x, axis)
  local rank = #shape(x)
  if math.type(axis) ~= "integer" or axis == 0 or axis > rank or axis < -rank then
    fail("%s: %s has no axis %s", what, tostring(x), tostring(axis))
  end
  return axis > 0 and axis - 1 or rank + axis -- from 0
end

local function axes_bits(what, x, axes)
  if axes == nil then return (1 << #shape(x)) - 1 end
  if type(axes) == "number" then axes = {axes} end
  local bits = 0
  for _, axis in ipairs(axes) do bits = bits | 1 << axis_of(what, x, axis) end
  return bits
end

-- ---- sources and results ----------------------------------------------------------------------

-- nn.input(name, shape, {dtype = "f32", below = 0}): a tensor given at each run, row-major at the
-- border. dtype: f32, f16, bf16, i32, i64 (computed in 32 bits), u8 or bool. below: integers are 0 to
-- below - 1, which is checked, and kept to where a run makes them up; 0: any.
function nn.input(name, dims, given)
  local o = options("input", given, {dtype = "f32", below = 0})
  return core.input(name, dims, o.dtype, whole("input: below", o.below))
end

-- nn.index(shape, axis): the position along an axis, from 0, as i32. Nothing is read for it.
function nn.index(dims, axis)
  local rank = type(dims) == "table" and #dims or fail("index: wants a shape, as in {4, 8}")
  axis = whole("index: axis", axis or 1)
  return core.index(dims, axis < 0 and rank + axis or axis - 1)
end

-- nn.random(shape, {kind = "uniform" | "normal" | "bernoulli", seed = 0, step = 0, p = 0.5}): numbers
-- in [0, 1), of mean 0 and deviation 1, or true with probability p. Philox4x32-10: the element's
-- position is the counter; seed and step (a whole number or an integer tensor of one element) are the
-- key. Each call draws others than every other call of the model.
local draws = 0
function nn.random(dims, given)
  local o = options("random", given, {kind = "uniform", seed = 0, step = 0, p = 0.5})
  local draw = ({uniform = op.uniform, normal = op.normal, bernoulli = op.uniform})[o.kind]
  if not draw then fail("random: kind is \"uniform\", \"normal\" or \"bernoulli\"") end
  local seed = whole("random: seed", o.seed)
  local step = core.is_tensor(o.step) and o.step or whole("random: step", o.step)
  local position, stride = 0, 1
  for axis = #dims, 1, -1 do
    position = position + nn.index(dims, axis) * stride
    stride = stride * dims[axis]
  end
  if #dims == 0 then position = nn.index({1}, 1):reshape{} end
  draws = draws + 1
  local x = draw(position, step, seed, draws)
  return o.kind == "bernoulli" and op.lt(x, o.p) or x
end

-- nn.precision(name, f): the values and products that f makes are stored and multiplied as --dtype
-- NAME would: fp32, tf32, fp16 or bf16.
function nn.precision(name, f, ...)
  local outer = core.precision(name)
  local result = table.pack(f(...))
  core.precision(outer)
  return table.unpack(result, 1, result.n)
end

-- to(x, dtype): x as f32, f16, bf16, i32, i64, u8 or bool; floats are cut toward zero.
function nn.to(x, dtype) return op.to(tensor("to", x), {dtype = core.dtype_number(dtype)}) end

-- nn.param(name, shape, {init = "normal" | "uniform" | "constant", a, b}): a weight.
function nn.param(name, dims, init)
  init = init or {"normal", 0, 1}
  return core.param(join(name), dims, init[1], init[2], init[3])
end

-- nn.state(name, shape, {dtype = "f32", init = 0}): a value that lives across runs, saved and
-- restored with the weights. init: a number, or {"normal" | "uniform", a, b}. Reading it gives what it
-- held before the run.
function nn.state(name, dims, given)
  local o = options("state", given, {dtype = "f32", init = 0})
  local init = type(o.init) == "table" and o.init or {"constant", o.init}
  return core.state(join(name), dims, o.dtype, init[1], init[2], init[3])
end

-- nn.update(state, value): what a state, or a parameter, holds after this run of the entry.
function nn.update(state, value) core.update(state, value) end

-- nn.entry(name, f): outputs and updates that f makes belong to the entry `name`, which is run by
-- itself: train, eval, or any other name. Those outside of any belong to "infer". Entries share
-- parameters and states.
function nn.entry(name, f, ...)
  local outer = core.entry(name)
  local result = table.pack(f(...))
  core.entry(outer)
  return table.unpack(result, 1, result.n)
end

-- nn.output(name, x): a result of the model.
function nn.output(name, x) core.output(name, x) end

-- nn.config{name = default, ...}: settings that --set name=value changes.
function nn.config(defaults)
  local values = {}
  local names = {}
  for name in pairs(defaults) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local default = defaults[name]
    local given = core.setting(name, tostring(default))
    if given == nil then values[name] = default
    elseif type(default) == "number" then
      values[name] = tonumber(given) or fail("--set %s=%s: wants a number", name, given)
      if math.type(default) == "integer" and math.type(values[name]) ~= "integer" then
        fail("--set %s=%s: wants a whole number", name, given)
      end
    elseif type(default) == "boolean" then
      if given ~= "true" and given ~= "false" then
        fail("--set %s=%s: wants true or false", name, given)
      end
      values[name] = given == "true"
    else values[name] = given end
  end
  return values
end

-- nn.op_row{name = ..., cuda = ..., ref = ...}: a map of the model's own, as a row of ops.lua; with
-- class = "reduce" a reduction, of two values in `cuda` and `ref`, or of accumulators in `acc`, called
-- as nn.NAME(x, axes, keep).
function nn.op_row(row)
  if type(row) ~= "table" then
    fail("op_row: wants a table, as in op_row{name = ..., cuda = ..., ref = ...}")
  end
  local reduces = row.class == "reduce"
  local known = {name = REQUIRED, nin = 1, cuda = not (reduces and row.acc) and REQUIRED or false, ref = false,
                 grad = false, flops = 1, flags = false, class = "map"}
  if reduces then
    for _, key in ipairs{"acc", "result", "ref_result", "init", "ref_init", "gives"} do known[key] = false end
    row.attrs = {"axes"}
    known.attrs = false
  end
  options("op_row", row, known)
  local name, f = core.user_op(row)
  if rawget(nn, name) then fail("op_row: nn.%s exists already", name) end
  rawset(nn.op, name, f)
  if reduces then core.tools.reduction(name, f) else nn[name] = f end
  return nn[name]
end

-- nn.rows(): the table of ops, as a list of {name, class, nin, type}.
function nn.rows() return core.rows() end

-- ---- pointwise --------------------------------------------------------------------------------

for name, f in pairs(op) do nn.op[name] = f end
setmetatable(nn.op, {__index = function(_, name)
  local names = {}
  for known in pairs(op) do names[#names + 1] = known end
  table.sort(names)
  local near = core.nearest(tostring(name), names)
  fail("there is no op '%s'%s", tostring(name), near and meant(near) or "")
end})
for _, name in ipairs{"neg", "relu", "abs", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh",
                      "erf", "sigmoid", "silu", "floor", "ceil", "max", "min", "pow", "lt", "le",
                      "gt", "ge", "eq", "ne", "where", "logical_and", "logical_or", "logical_xor",
                      "logical_not", "floordiv", "mod"} do
  nn[name] = op[name]
end

local function binary(f) return function(a, b) return f(a, b) end end
core.meta.__add, core.meta.__sub = binary(op.add), binary(op.sub)
core.meta.__mul, core.meta.__div = binary(op.mul), binary(op.div)
core.meta.__idiv, core.meta.__mod = binary(op.floordiv), binary(op.mod)
core.meta.__band, core.meta.__bor = binary(op.logical_and), binary(op.logical_or)
core.meta.__bxor, core.meta.__bnot = binary(op.logical_xor), function(x) return op.logical_not(x) end
core.meta.__pow, core.meta.__unm = binary(op.pow), function(x) return op.neg(x) end
core.meta.__index = function(x, name)
  if name == "shape" then return shape(x) end
  if name == "dtype" then return core.dtype(x) end
  local f = rawget(nn, name)
  if f == nil then
    local names = {}
    for known in pairs(nn) do names[#names + 1] = known end
    table.sort(names)
    local near = core.nearest(tostring(name), names)
    fail("there is no layer or op '%s'%s", tostring(name), near and meant(near) or "")
  end
  return f
end

-- gelu(x, "tanh"): the exact function by default, or its tanh approximation.
layer("gelu", function(x, approximate)
  if approximate == nil or approximate == "none" then
    return x * 0.5 * (1 + op.erf(x * 0.7071067811865476))
  end
  if approximate ~= "tanh" then fail("gelu: approximate is \"none\" or \"tanh\"") end
  return x * 0.5 * (1 + op.tanh((x + x * x * x * 0.044715) * 0.7978845608028654))
end)
-- Of integers these are integers.
local function of_integers(name, f)
  local of_floats = nn[name]
  nn[name] = function(x)
    local dtype = core.is_tensor(x) and core.dtype(x) or "f32"
    if dtype:find("f") then return of_floats(x) end
    return f(x)
  end
end
of_integers("relu", function(x) return op.max(x, 0) end)
of_integers("floor", function(x) return x end)
of_integers("ceil", function(x) return x end)
layer("leaky_relu", function(x, slope) return op.where(op.gt(x, 0), x, x * (slope or 0.01)) end)
layer("hardtanh", function(x, low, high) return op.min(op.max(x, low or -1), high or 1) end)
layer("relu6", function(x) return op.min(op.relu(x), 6) end)
layer("clamp", function(x, low, high)
  if low then x = op.max(x, low) end
  if high then x = op.min(x, high) end
  return x
end)

-- ---- shapes -----------------------------------------------------------------------------------

-- reshape(x, {d1, d2, ...}): one size may be -1, and follows from the others.
function nn.reshape(x, dims)
  local elements, known, hole = 1, 1, nil
  for _, d in ipairs(shape(tensor("reshape", x))) do elements = elements * d end
  if type(dims) ~= "table" then
    fail("reshape: wants sizes, as in reshape{2, -1}, not %s", said(dims))
  end
  local new, given = {}, {}
  for i, d in ipairs(dims) do
    new[i], given[i] = whole("reshape: dimension " .. i, d), tostring(d)
    if new[i] ~= -1 then known = known * new[i]
    elseif not hole then hole = i
    else fail("reshape: dimensions %d and %d are both -1; one follows from the others", hole, i) end
  end
  if not hole then return op.reshape(x, {dims = new}) end
  if known < 1 or elements % known ~= 0 then
    fail("reshape: no size fits -1 in (%s): %s has %d elements, no multiple of %d",
         table.concat(given, ", "), tostring(x), elements, known)
  end
  new[hole] = elements // known
  return op.reshape(x, {dims = new})
end

-- flatten(x, first): dimensions from `first` (default 2) on become one.
function nn.flatten(x, first)
  local dims, new = shape(tensor("flatten", x)), {}
  first = axis_of("flatten", x, first or 2) + 1
  for i = 1, first - 1 do new[i] = dims[i] end
  new[first] = 1
  for i = first, #dims do new[first] = new[first] * dims[i] end
  return op.reshape(x, {dims = new})
end

-- permute(x, {a, b, ...}): dimension i of the result is dimension a_i of x.
function nn.permute(x, axes)
  local dims = {}
  for i, axis in ipairs(axes) do dims[i] = axis_of("permute", x, axis) end
  if #dims ~= #shape(x) then
    fail("permute: %s needs %d axes, got %d", tostring(x), #shape(x), #dims)
  end
  return op.permute(x, {dims = dims})
end

-- transpose(x, a, b): exchanges two dimensions (default: the last two).
function nn.transpose(x, a, b)
  local dims = {}
  for i = 1, #shape(tensor("transpose", x)) do dims[i] = i - 1 end
  a, b = axis_of("transpose", x, a or -2), axis_of("transpose", x, b or -1)
  dims[a + 1], dims[b + 1] = b, a
  return op.permute(x, {dims = dims})
end

-- concat({a, b, ...}, axis): joined along `axis` (default 2, the channels).
function nn.concat(list, axis)
  if type(list) ~= "table" or #list == 0 then fail("concat: wants a list of tensors") end
  local args = {}
  for i, x in ipairs(list) do args[i] = tensor("concat", x) end
  args[#args + 1] = {axis = axis_of("concat", list[1], axis or 2)}
  return op.concat(table.unpack(args))
end

-- slice(x, axis, first, last): elements first to last (from 1, inclusive) of one dimension.
function nn.slice(x, axis, first, last)
  local begin, ends = {}, {}
  for i, d in ipairs(shape(tensor("slice", x))) do begin[i], ends[i] = 0, d end
  local at = axis_of("slice", x, axis) + 1
  begin[at], ends[at] = first - 1, last or ends[at]
  return op.slice(x, {dims = begin, ends = ends})
end

-- gather(x, ids, axis): rows of x by integers: axis (default 1) becomes the dimensions of ids.
function nn.gather(x, ids, axis)
  tensor("gather", ids)
  return op.gather(tensor("gather", x), ids, {axis = axis_of("gather", x, axis or 1)})
end

-- take_along(x, ids, axis): of each row along axis (default the last) the elements that ids names.
function nn.take_along(x, ids, axis)
  tensor("take_along", ids)
  return op.take_along(tensor("take_along", x), ids, {axis = axis_of("take_along", x, axis or -1)})
end

-- one_hot(ids, size): 1.0 at each id along a new last dimension, else 0.0.
function nn.one_hot(ids, size)
  local dims, wide = shape(tensor("one_hot", ids)), {}
  for i, d in ipairs(dims) do dims[i], wide[i] = d, 1 end
  dims[#dims + 1], wide[#wide + 1] = 1, count("one_hot: size", size)
  return op.eq(op.reshape(ids, {dims = dims}), nn.index(wide, #wide)):to("f32")
end

-- scatter_add(ids, rows, size): (N, ...) rows added up by their ids (N) into (size, ...): the gradient
-- of gather. The same bits in every run: a product with one_hot(ids), of 2 * size * N operations for
-- each element of a row.
function nn.scatter_add(ids, rows, size)
  local dims = shape(tensor("scatter_add", rows))
  if #shape(tensor("scatter_add", ids)) ~= 1 or shape(ids)[1] ~= dims[1] then
    fail("scatter_add: wants an id for each row, not %s and %s", tostring(ids), tostring(rows))
  end
  local n, size = dims[1], count("scatter_add: size", size)
  return nn.precision("fp32", function()
    local chosen = op.eq(nn.index({size, 1}, 1), op.reshape(ids, {dims = {1, n}})):to("f32")
    local sums = op.matmul(chosen, nn.reshape(rows, {n, -1}))
    dims[1] = size
    return op.reshape(sums, {dims = dims})
  end)
end

-- ---- pooling ----------------------------------------------------------------------------------

-- With ceil_mode the last window may hang over: more padding at the bottom and right.
local function ceil_pad(x, o)
  local dims = shape(x)
  for i = 1, 2 do
    local span = (o.kernel[i] - 1) * o.dilation[i] + 1
    local padded = dims[2 + i] + o.pad[i] + o.pad[i + 2]
    local over = (padded - span) % o.stride[i]
    local last = (padded - span + o.stride[i] - 1) // o.stride[i] * o.stride[i]
    if over > 0 and last < dims[2 + i] + o.pad[i] then
      o.pad[i + 2] = o.pad[i + 2] + o.stride[i] - over
    end
  end
end

local function window_options(what, x, given, known)
  known.kernel, known.stride, known.pad, known.ceil_mode = REQUIRED, false, 0, false
  local o = options(what, given, known)
  tensor(what, x)
  o.kernel = pair(what .. ": kernel", o.kernel)
  o.stride = pair(what .. ": stride", o.stride or o.kernel)
  local pad = sides(what .. ": pad", o.pad)
  o.pad = {pad[1], pad[2], pad[3], pad[4]}
  o.dilation = pair(what .. ": dilation", o.dilation or 1)
  for i = 1, 4 do
    if o.pad[i] * 2 > o.kernel[(i - 1) % 2 + 1] then
      fail("%s: pad is more than half of the kernel", what)
    end
  end
  if o.ceil_mode then ceil_pad(x, o) end
  return o
end

local function window(o)
  return {kernel = o.kernel, stride = o.stride, pad = o.pad, dilation = o.dilation}
end

-- max_pool2d(x, {kernel, stride = kernel, pad = 0, dilation = 1, ceil_mode = false})
layer("max_pool2d", function(x, given)
  return op.window_max(x, window(window_options("max_pool2d", x, given, {dilation = 1})))
end)

-- avg_pool2d(x, {kernel, stride = kernel, pad = 0, ceil_mode = false, count_include_pad = true})
layer("avg_pool2d", function(x, given)
  local o = window_options("avg_pool2d", x, given, {count_include_pad = true})
  local plain = sides("avg_pool2d: pad", given.pad or 0)
  local sum = op.window_sum(x, window(o))
  local hangs = o.pad[3] ~= plain[3] or o.pad[4] ~= plain[4]
  local padded = plain[1] + plain[2] + plain[3] + plain[4] > 0
  if not hangs and (o.count_include_pad or not padded) then
    return sum * (1 / (o.kernel[1] * o.kernel[2]))
  end
  -- How many elements each window has: the same sum over ones.
  local dims = shape(x)
  if o.count_include_pad then
    dims[3], dims[4] = dims[3] + plain[1] + plain[3], dims[4] + plain[2] + plain[4]
    o.pad = {0, 0, o.pad[3] - plain[3], o.pad[4] - plain[4]}
  end
  return sum / op.window_sum(core.full({1, 1, dims[3], dims[4]}, 1), window(o))
end)

-- global_avg_pool(x): (N, C, H, W) -> (N, C, 1, 1)
layer("global_avg_pool", function(x)
  local dims = shape(tensor("global_avg_pool", x))
  if #dims ~= 4 then fail("global_avg_pool: wants (N, C, H, W), not %s", tostring(x)) end
  return op.reduce_sum(x, {axes = 12}) * (1 / (dims[3] * dims[4]))
end)

-- adaptive_avg_pool2d(x, size): (N, C, H, W) -> (N, C, size, size), as PyTorch cuts the windows.
layer("adaptive_avg_pool2d", function(x, size)
  local dims, out = shape(tensor("adaptive_avg_pool2d", x)), pair("adaptive_avg_pool2d", size)
  if #dims ~= 4 then fail("adaptive_avg_pool2d: wants (N, C, H, W), not %s", tostring(x)) end
  for i = 1, 2 do
    if out[i] > dims[2 + i] then
      fail("adaptive_avg_pool2d: %d outputs of %d elements", out[i], dims[2 + i])
    end
  end
  if out[1] == 1 and out[2] == 1 then return nn.global_avg_pool(x) end
  if dims[3] % out[1] == 0 and dims[4] % out[2] == 0 then
    return nn.avg_pool2d(x, {kernel = {dims[3] // out[1], dims[4] // out[2]}})
  end
  local rows = {} -- windows of several sizes: a slice and a mean each
  for i = 1, out[1] do
    local cells = {}
    for j = 1, out[2] do
      local top, bottom = (i - 1) * dims[3] // out[1], -(-i * dims[3] // out[1])
      local left, right = (j - 1) * dims[4] // out[2], -(-j * dims[4] // out[2])
      local cell = nn.slice(nn.slice(x, 3, top + 1, bottom), 4, left + 1, right)
      cells[j] = op.reduce_sum(cell, {axes = 12}) * (1 / ((bottom - top) * (right - left)))
    end
    rows[i] = nn.concat(cells, 4)
  end
  return nn.concat(rows, 3)
end)

-- ---- products ---------------------------------------------------------------------------------

-- matmul(a, b): the last two dimensions are matrices, the others broadcast.
layer("matmul", function(a, b) return op.matmul(a, b) end)

-- What nn_reduce.lua and nn_layers.lua are made of.
core.tools = {fail = fail, layer = layer, parameter_layer = parameter_layer, options = options, axes_bits = axes_bits, axis_of = axis_of,
              REQUIRED = REQUIRED, tensor = tensor, count = count, pair = pair, sides = sides}

-- A name that nn does not have is a mistake of the model, told with the nearest one.
return setmetatable(nn, {__index = function(_, name) return core.meta.__index(nil, name) end})
