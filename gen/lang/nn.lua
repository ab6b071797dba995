-- nn.lua: sources, results and operators, of the module `nn` of model files. Its functions are
-- declared by define.lua and defined in the neighbouring files: element-wise maps in nn_math.lua
-- and nn_activations.lua, data movement in nn_shapes.lua, nn_parts.lua, nn_joins.lua, nn_select.lua
-- and nn_scatter.lua, constants in nn_make.lua, nn_random.lua and nn_signal.lua, windows in
-- nn_windows.lua, nn_pool.lua, nn_resize.lua and nn_sample.lua, products in nn_products.lua,
-- reductions in nn_reduce.lua, nn_moments.lua and nn_distances.lua, sorting in nn_sort.lua, special
-- functions in nn_special.lua and nn_bessel.lua, layers in nn_layers.lua, nn_embeddings.lua,
-- nn_norms.lua, nn_recurrent.lua, nn_heads.lua and nn_transformer.lua, the same as functions of
-- tensors in nn_functional.lua, attention in nn_attention.lua, derivatives in nn_grad.lua, losses
-- in nn_loss.lua and nn_loss_classes.lua, optimizers in nn_optim.lua, training in nn_train.lua,
-- nn_examples.lua and nn_padding.lua.
-- Tensors are N C H W, axes count from 1 (negative from the end), sizes are in elements. A layer
-- with parameters takes the tensor, its name and a table of options; every function is also a
-- method: x:conv2d("conv1", {out = 64, kernel = 3}):relu(). Parameter names and defaults are
-- PyTorch's.
local core, tools = ...
local nn = {op = {}}
local op, shape = core.op, core.shape
local fail, said, meant, options = tools.fail, tools.said, tools.meant, tools.options
local REQUIRED, whole, join, tensor = tools.REQUIRED, tools.whole, tools.join, tools.tensor

core.tools = tools
tools.buffers = {}
tools.inputs = {} -- by name
tools.settings = {} -- of every nn.config, by name
tools.training = {active = false, scaled = false, seed = 0} -- nn_train.lua
function tools.define(signature, torch, f) return tools.declare(nn, signature, torch, f) end
function tools.define_here(signature, torch, f)
  return tools.declare(nn, signature, torch, f, true)
end
local define_here = tools.define_here

local function want_function(what, name, f)
  if type(name) ~= "string" or type(f) ~= "function" then
    fail("%s: expected a name and a function, as in nn.%s(\"a\", function() ... end), " ..
         "got %s and %s", what, what, said(name), said(f))
  end
end
-- scope(name, f, ...): runs f; layers that it creates are named name.*
function nn.scope(name, f, ...)
  want_function("scope", name, f)
  return tools.within(name, false, f, ...)
end

local calls, functions, known = 0, 0, {} -- of shared functions: known by name
-- shared(name, f): a function that runs f in the scope `name` of the place where it is created. All
-- its calls share the layers of the first, as D(real) and D(fake) do: local D = nn.shared("d",
-- function(x) ... end). Weights keep their values from before the run; nn.state and nn.buffer
-- return in a later call what the previous call updated them to, as running statistics of batch
-- norms require.
function nn.shared(name, f)
  want_function("shared", name, f)
  local full = join(name)
  if not known[full] then functions = functions + 1 end
  local same = known[full] or {own = functions, entries = {}}
  local entry, own = tools.entry or "", same.own
  known[full] = same
  if same.entries[entry] then fail("shared: there is a shared function '%s' already", full) end
  same.entries[entry] = true
  return function(...)
    calls = calls + 1
    local call, owner = core.shared(calls, own)
    local results = table.pack(tools.placed(full, f, ...))
    core.shared(call, owner)
    return table.unpack(results, 1, results.n)
  end
end

-- ---- sources and results ----------------------------------------------------------------------

-- An input tensor, given at each run, row-major. dtype: f32, f16, bf16, i32, i64 (computed in 32
-- bits), u8 or bool. below: integers are 0 to below - 1, which is checked, and obeyed where a run
-- generates inputs; 0: any.
define_here("input(name: string, shape: any, {dtype: string = f32, below: whole = 0})",
            "", function(name, dims, o)
  local x = core.input(name, dims, o.dtype, o.below)
  tools.inputs[name] = x
  return x
end)

-- The position along an axis of a tensor of this shape, from 0, as i32. Reads no memory.
define_here("index(shape: any, axis: whole = 1)", "", function(dims, axis)
  if type(dims) ~= "table" then fail("index: expected a shape, as in {4, 8}") end
  return core.index(dims, axis < 0 and #dims + axis or axis - 1)
end)

-- x modulo 2^32, as the i32 with the same bits.
local function wrapped(x)
  x = x & 0xffffffff
  return x < 1 << 31 and x or x - (1 << 32)
end

-- Seed and draw as a kernel takes them, 32 bits each. The bits of a seed above 32 change the draw
-- number by invertible steps (Murmur3's finalizer), so that no two seeds draw the same numbers.
local function in_words(seed, draw)
  local low = wrapped(seed)
  local x = seed - low >> 32
  x = (x ~ x >> 16) * 0x85ebca6b & 0xffffffff
  x = (x ~ x >> 13) * 0xc2b2ae35 & 0xffffffff
  return low, wrapped(draw ~ x ~ x >> 16)
end

local function step_number(v)
  if core.is_tensor(v) then
    if core.dtype(v):find("f") then
      fail("random: step: expected an integer tensor of one element, got %s %s", core.dtype(v),
           tostring(v))
    end
    return v
  end
  local n = whole("random: step", v)
  if n ~= wrapped(n) then fail("random: step = %d: expected a whole number of 32 bits", n) end
  return n
end

local draws = 0
-- Random numbers in [0, 1), of mean 0 and deviation 1, or true with probability p. Philox4x32-10:
-- the element's position is the counter; seed (64 bits) and step (a 32-bit integer or an integer
-- tensor of one element) are the key. Each call of a model draws different numbers.
define_here([[random(shape: sizes, {kind: uniform/normal/bernoulli = uniform, seed: whole = 0,
            step: value = 0, p: chance = 0.5})]],
            "", function(dims, o)
  local draw = o.kind == "normal" and op.normal or op.uniform
  local step = step_number(o.step)
  local position, stride = 0, 1
  for axis = #dims, 1, -1 do
    position = position + nn.index(dims, axis) * stride
    stride = stride * dims[axis]
  end
  if #dims == 0 then position = nn.index({1}, 1):reshape{} end
  draws = draws + 1
  local x = draw(position, step, in_words(o.seed, draws))
  return o.kind == "bernoulli" and op.lt(x, o.p) or x
end)

-- precision(name, f, ...): runs f; its values are stored and its products computed as --dtype NAME
-- would: fp32, tf32, fp16 or bf16.
function nn.precision(name, f, ...)
  local outer = core.precision(name)
  local result = table.pack(f(...))
  core.precision(outer)
  return table.unpack(result, 1, result.n)
end

-- Converts to f32, f16, bf16, i32, i64, u8 or bool; floats are truncated toward zero.
define_here("to|type(x: tensor, dtype: string)", "Tensor.to", function(x, dtype)
  return op.to(x, {dtype = core.dtype_number(dtype)})
end)
local function into(dtype) return function(x) return nn.to(x, dtype) end end
define_here("float(x: tensor)", "Tensor.float", into "f32")
define_here("half(x: tensor)", "Tensor.half", into "f16")
define_here("bfloat16(x: tensor)", "Tensor.bfloat16", into "bf16")
define_here("int(x: tensor)", "Tensor.int", into "i32")
define_here("long(x: tensor)", "Tensor.long", into "i64")
define_here("type_as(x: tensor, y: tensor)", "Tensor.type_as", function(x, y)
  return nn.to(x, core.dtype(y))
end)
-- The list of sizes, as x.shape; with an axis, its size as a number.
define_here("size(x: tensor, axis: axis = nil)", "Tensor.size", function(x, axis)
  return axis and shape(x)[axis] or shape(x)
end)
-- The number of dimensions.
define_here("ndim|dim|ndimension(x: tensor)", "Tensor.dim", function(x) return #shape(x) end)
-- The number of elements.
define_here("numel|nelement(x: tensor)", "torch.numel", function(x)
  local n = 1
  for _, d in ipairs(shape(x)) do n = n * d end
  return n
end)
define_here("bool(x: tensor)", "Tensor.bool", function(x) return op.ne(x, 0) end)

-- Initial values as the core takes them: a number, or {kind, numbers}.
local how_many = {normal = 2, uniform = 2, constant = 1}
local function first_values(what, init)
  if type(init) == "number" then return {"constant", init} end
  local kind = type(init) == "table" and init[1]
  local n = how_many[kind or ""]
  local fits = n and #init <= n + 1 and (n == 2 or #init == 2)
  for i = 2, n and #init or 0 do fits = fits and type(init[i]) == "number" end
  if not fits then
    local near = type(kind) == "string" and not n and
                 core.nearest(kind, tools.sorted_keys(how_many))
    fail("%s: init = %s: expected a number, {\"normal\", mean, deviation}, " ..
         "{\"uniform\", from, to} or {\"constant\", value}%s", what,
         kind and not n and said(kind) or said(init), near and meant(near) or "")
  end
  return init
end

-- A weight. init: {"normal", mean, deviation}, {"uniform", from, to}, {"constant", value} or a
-- number.
define_here("param(name: string, shape: any, init: any = nil)",
            "nn.Parameter", function(name, dims, init)
  init = first_values("param", init == nil and {"normal", 0, 1} or init)
  return core.param(join(name), dims, init[1], init[2], init[3])
end)

-- A weight that is not trained, for example running statistics; not in nn.parameters. A model may
-- update it.
define_here("buffer(name: string, shape: any, value: number = 0)", "", function(name, dims, value)
  local source, x = core.buffer(join(name), dims, "constant", value)
  tools.buffers[core.id(source)] = true
  return x
end)

-- A value that persists across runs, saved and restored with the weights. init: a number, or
-- {"normal" | "uniform", a, b}. Reading it returns its value before the run. dtype = "auto": stored
-- like other values, f16 or bf16 with --dtype fp16 or bf16, else f32. below: integers are 0 to
-- below - 1; a run that leaves others ends with an error that quotes this line of the model and
-- prints `beyond`, the explanation.
-- `beyond`: what that means.
define_here([[state(name: string, shape: any, init: any = 0,
            {dtype: string = f32, below: whole = 0, beyond: string = nil})]],
            "", function(name, dims, init, o)
  init = first_values("state", init)
  return core.state(join(name), dims, o.dtype, init[1], init[2], init[3], o.below, o.beyond)
end)

-- Sets the value of a state or parameter after this run of the entry. Reading it, before or after
-- this call, returns its value before the run; to use the new value read `value`. Integers are
-- converted for states of bools or bytes, as by x:to. (For calls of a shared function see
-- nn.shared.)
define_here("update(state: any, value: any)", "", function(state, value)
  local own = core.is_tensor(state) and core.dtype(state)
  local new = core.is_tensor(value) and core.dtype(value)
  local narrows = new and new ~= own and not tools.is_float(value)
  if narrows and (own == "bool" or own == "u8" and new ~= "bool") then value = nn.to(value, own) end
  core.update(state, value)
end)

-- entry(name, f, ...): runs f; its outputs and updates belong to the entry point `name`, which runs
-- by itself: train, eval, or any other name. Those outside of any entry belong to "infer". Entries
-- share parameters and states. In the entry train f runs in training mode (nn.in_training), with or
-- without nn.train.
function nn.entry(name, f, ...)
  want_function("entry", name, f)
  return tools.run_entry(name, f, ...)
end

-- A result of the model. Floats are stored in fp32, whatever --dtype says, unless the value ends in
-- a conversion: x:to("f16"), x:to("bf16").
define_here("output(name: string, x: any)", "", function(name, x) core.output(name, x) end)

-- whose: nil, "of the run" (nn.train's options, which a command line may set) or "of the verb"
-- (settings exchanged between the verb train and the model).
local function config(defaults, whose)
  local values = {}
  local names = {}
  for name in pairs(defaults) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local default = defaults[name]
    local given, how = core.setting(name, tostring(default), whose)
    if given == nil then values[name] = default
    elseif type(default) == "number" then
      local number = tonumber(given)
      if not number or number - number ~= 0 then
        fail("%s: expected a number", how)
      end
      values[name] = number
      if math.type(default) == "integer" and math.type(values[name]) ~= "integer" then
        fail("%s: expected a whole number", how)
      end
    elseif type(default) == "boolean" then
      if given ~= "true" and given ~= "false" then
        fail("%s: expected true or false", how)
      end
      values[name] = given == "true"
    else values[name] = given end
    tools.settings[name] = values[name]
  end
  return setmetatable(values, {__index = function(_, name) -- nil would be an option's default
    fail("there is no setting '%s' in nn.config; it has: %s", tostring(name),
         table.concat(names, ", "))
  end})
end

tools.config = config

-- config{name = default, ...}: settings that --set name=value changes.
function nn.config(defaults)
  if type(defaults) ~= "table" then
    fail("config: expected a table of settings, as in nn.config{batch = 8}, got %s", said(defaults))
  end
  return (config(defaults))
end

-- An identity `init`, a number or CUDA text, as both: sets ref_init, the oracle's, if it is nil.
local function read_init(what, part)
  local text = string.gsub(tostring(part.init), "%s", "")
  local sign = string.match(text, "^(%-?)nn_inf%(%)$") or string.match(text, "^(%-?)INFINITY$") or
      string.match(text, "^(%-?)inf$")
  local value = sign and (sign == "-" and -math.huge or math.huge)
      or tonumber(text) or tonumber(string.match(text, "^(.-)[fF]$") or "")
  if value == nil and part.ref_init == nil then
    fail("op_row: %s: init = '%s' is neither a number nor nn_inf(): expected also `ref_init`, " ..
         "its value for the oracle", what, text)
  end
  if sign then part.init = sign .. "nn_inf()" end
  if part.ref_init == nil then part.ref_init = value end
end

-- op_row{name = ..., cuda = ..., ref = ...}: defines an element-wise op of the model, as a row of
-- ops.lua; with class = "reduce" a reduction, either of two values in `cuda` and `ref` with the
-- identity `init`, or with accumulators in `acc`, called as nn.NAME(x, axes, keep). An `init` that
-- is not a number nor nn_inf() expects its value in `ref_init`. grad(g, y, x...) returns the
-- gradient of each input, which is checked against differences of `ref`; nil: zero. Both compute
-- floats: a map reads integers as floats, so that none overflow; a reduction expects floats.
function nn.op_row(row)
  if type(row) ~= "table" then
    fail("op_row: expected a table, as in op_row{name = ..., cuda = ..., ref = ...}")
  end
  local reduces = row.class == "reduce"
  local known = {name = REQUIRED, nin = 1, cuda = not (reduces and row.acc) and REQUIRED or false,
                 ref = false,
                 grad = false, flops = 1, flags = false, class = "map"}
  if reduces then
    for _, key in ipairs{"acc", "result", "ref_result", "init", "ref_init", "gives"} do
      known[key] = false
    end
    row.attrs = {"axes"}
    known.attrs = false
  end
  options("op_row", row, known)
  if reduces and not row.acc then
    if row.init == nil then
      fail("op_row: %s: a reduction of two values: expected `init`, its identity, " ..
           "for example init = 0", row.name)
    end
    read_init(row.name, row)
  end
  if reduces and type(row.acc) == "table" then
    for _, part in ipairs(row.acc) do
      if type(part) == "table" and part.init ~= nil then
        read_init(tostring(row.name) .. ": " .. tostring(part.name or part[1]), part)
      end
    end
  end
  local name, f = core.user_op(row)
  if rawget(nn, name) then fail("op_row: nn.%s exists already", name) end
  rawset(nn.op, name, f)
  if reduces then tools.reduction(name, f) else nn[name] = f end
  return nn[name]
end

-- rows(): the table of ops, as a list of {name, class, nin, type}.
function nn.rows() return core.rows() end

-- ---- operators --------------------------------------------------------------------------------

for name, f in pairs(op) do nn.op[name] = f end
setmetatable(nn.op, {__index = function(_, name)
  local near = core.nearest(tostring(name), tools.sorted_keys(op))
  fail("there is no op '%s'%s", tostring(name), near and meant(near) or "")
end})

local meta = core.meta
local function binary(f) return function(a, b) return f(a, b) end end
meta.__add, meta.__sub, meta.__mul, meta.__div = binary(op.add), binary(op.sub), binary(op.mul),
    binary(op.div)
meta.__idiv, meta.__mod = binary(op.floordiv), binary(op.mod) -- & | ~ << >> are in nn_math.lua
meta.__call = function(x)
  fail("%s is not a function: its sizes are x.shape, its elements x:at(i, j)", tostring(x))
end
meta.__pow = binary(function(a, b) return nn.pow(a, b) end)
meta.__unm = function(x) return op.neg(x) end
-- Operators that Lua evaluates to a boolean before nn sees them.
local function no_truth(sign, name)
  return function(a, b)
    fail("%s %s %s: Lua makes one truth of a comparison; nn.%s(a, b) compares elements, and " ..
         "nn.where chooses by them", said(a), sign, said(b), name)
  end
end
meta.__lt, meta.__le = no_truth("<", "lt"), no_truth("<=", "le")
meta.__eq = function(a, b)
  if core.id(a) == core.id(b) then return true end
  return no_truth("==", "eq")(a, b)
end
meta.__concat = function()
  fail("..: a tensor is not a string; nn.concat({a, b}, axis) joins tensors")
end
meta.__len = function(x) return shape(x)[1] or fail("#: %s has no dimension", tostring(x)) end
-- `x == 1` is false in Lua for every tensor x: using that false as a tensor reports this.
local function no_tensor(what)
  return function(a, b)
    local v = b
    if type(a) == "boolean" then v = a end
    fail("%s %s, which is not a tensor: Lua's ==, < and and compare no elements; nn.eq(a, b), " ..
         "nn.lt(a, b) do", what, tostring(v))
  end
end
local booleans = {__index = no_tensor("a field or method of")}
for _, name in ipairs{"add", "sub", "mul", "div", "idiv", "mod", "pow", "unm", "band", "bor",
                      "bxor", "bnot"} do
  booleans["__" .. name] = no_tensor("arithmetic with")
end
core.set_metatable_of_booleans(booleans)

-- Names that PyTorch users try, and their equivalents here.
local no_factorisation = "there are no matrix factorisations"
local at_run_time = "values are known only at run time"
local by_values = "its size would depend on values"
local one_gpu = "models are compiled for one GPU"
local no_such_integers = "integers are i32 and, of a byte, u8: x:to(\"u8\")"
local in_nn = "its equivalents are in nn itself"
local elsewhere = {
  byte = no_such_integers, char = no_such_integers, short = no_such_integers,
  linalg = in_nn, special = in_nn, fft = "nn.stft(x, n) has Fourier transforms of signals",
  init = "nn.param(name, shape, {\"normal\", 0, 1}) has its first values",
  optim = "nn.optimize(loss, {optimizer = \"sgd\", lr = 0.1}) is a step of one",
  no_grad = "nn.stop_gradient(x) is a constant to nn.grad",
  manual_seed = "random functions take a seed; --seed sets that of a run",
  requires_grad_ = "nn.grad names what to differentiate by",
  batch_norm = "the layers are x:batch_norm2d(\"name\") and 1d, 3d, the function " ..
               "nn.functional.batch_norm",
  instance_norm = "the layers are x:instance_norm2d(\"name\") and 1d, 3d, the function " ..
                  "nn.functional.instance_norm",
  ModuleList = "a Lua table, or nn.sequential", device = one_gpu, is_cuda = one_gpu,
  T = "x:t(), or x:permute of more dimensions", mT = "x:transpose() exchanges the last two",
  cuda = one_gpu, cpu = one_gpu, backward = "nn.grad(loss, {x, ...}) gives derivatives",
  item = at_run_time, numpy = at_run_time, tolist = at_run_time,
  double = "there are no doubles; f32 is the widest",
  cholesky = no_factorisation, svd = no_factorisation, inverse = no_factorisation,
  det = no_factorisation, qr = no_factorisation,
  unique = by_values, nonzero = by_values .. "; nn.where keeps the shape",
  masked_select = by_values .. "; nn.where keeps the shape",
}
local function no_function(name)
  local other = elsewhere[name] or math.type(name) and
                "elements are x:select(axis, i), x:slice(axis, first, last) or x:at(i, j)"
  if other then fail("there is no layer or op '%s': %s", tostring(name), other) end
  local here = tools.in_torch(name) or tools.in_torch(string.match(tostring(name), "^(.-)_?$"))
  if here and tools.is_layer[here] and rawget(nn, here) then
    fail("there is no layer or op '%s': PyTorch's is x:%s(\"name\", {...}) here, called with " ..
         "each tensor", name, here)
  end
  if here then
    fail("there is no layer or op '%s': PyTorch's is nn.%s%s here", name,
         rawget(nn, here) and "" or "functional.", here)
  end
  local near = core.nearest(tostring(name), tools.sorted_keys(nn))
  fail("there is no layer or op '%s'%s", tostring(name),
       near and meant(near) or "; nngen help lists them")
end
meta.__index = function(x, name)
  if name == "shape" then return shape(x) end
  if name == "dtype" then return core.dtype(x) end
  local f = rawget(nn, name)
  if f == nil then no_function(name) end
  return f
end

-- Reading a name that nn lacks is an error of the model; the message suggests the nearest name.
return setmetatable(nn, {__index = function(_, name) no_function(name) end})
