-- define.lua: declares the functions of the module `nn` and checks their calls.
--
--   define("cumsum(x: tensor, axis: axis = -1)", "torch.cumsum", function(x, axis) ... end)
--
-- declares nn.cumsum and the method x:cumsum by a signature that signature.lua parses. Arguments
-- are given in order or by name in a table at the end, as in x:cumsum{axis = 2}; those in braces
-- are given only by name and reach the function as one table. A layer with parameters has one
-- argument of kind `name`; the function runs in that scope and does not get it. For a signature of
-- several ranks, f is called with the rank and returns the function. The second text is the name in
-- PyTorch. The comment above a declaration is its entry in models/README.md and in `nngen help`
-- (help.lua).
local core, signature, kinds = ...
local shape = core.shape
local fail, said, meant, tensor = kinds.fail, kinds.said, kinds.meant, kinds.tensor
local checks, is_tensor, takes_list = kinds.checks, kinds.is_tensor, kinds.takes_list

-- In a fixed order: of several mistakes, each run reports the same one.
local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

-- ---- scopes: the names of values and the calls they belong to ---------------------------------

local scope, depth = "", 0

local function join(name)
  if name == "" then return scope end
  return scope == "" and name or scope .. "." .. name
end

-- Runs f under `name`. All ops created inside a layer belong to one call.
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

-- The same under an absolute name, not appended to the current scope.
local function placed(name, f, ...)
  local outer = scope
  scope = ""
  local result = table.pack(within(name, false, f, ...))
  scope = outer
  core.place(scope, depth > 0)
  return table.unpack(result, 1, result.n)
end

local MISSING = {} -- the default of a required argument

local function literal(text)
  if text == "nil" then return nil end
  if text == "true" or text == "false" then return text == "true" end
  if text == "inf" or text == "-inf" then return text == "inf" and math.huge or -math.huge end
  return tonumber(text) or string.match(text, '^"(.*)"$') or text
end

-- A parsed signature, with a check for each argument and its default as a value.
local function prepared(text)
  local parsed = signature.parse((string.gsub(text, "%s+", " ")))
  for _, a in ipairs(parsed) do
    a.check = a.choice and kinds.choice(a.kind) or checks[a.kind] or error("no kind " .. a.kind)
    if a.default then a.value = literal(a.default) else a.value = MISSING end
  end
  return parsed
end

-- ---- calls ------------------------------------------------------------------------------------

-- PyTorch options with other names here: {the argument, what to say}.
local renamed = {
  unbiased = {"correction", "it is 'correction' here: 1 for unbiased = true, 0 for false"},
  start_dim = {"first", "it is 'first' here, an axis that counts from 1"},
  end_dim = {"last", "it is 'last' here, an axis that counts from 1"},
}
for name in string.gmatch("dim0 dim1 dim2 axis0 axis1", "%S+") do
  renamed[name] = {"a", "the two axes are 'a' and 'b' here, and count from 1"}
end

-- PyTorch options that most functions here lack: what to do instead.
local absent = {
  inplace = "omit it: a model has values, not memory, and kernels write in place where " ..
            "they can",
  out = "omit it, and use the result",
  training = "omit it: the entry train trains, infer and eval do not",
  dtype = "convert with x:to, as in x:to(\"f32\")",
  out_int32 = "omit it: positions are i32",
  sparse = "omit it: gradients are dense",
  assume_unique = "omit it: it would change nothing",
  generator = "omit it: random functions take a seed",
  device = "omit it: --device chooses where a model runs",
  requires_grad = "omit it: nn.grad names the tensors to differentiate by",
}

-- Options of PyTorch's layer constructors, which run before there is a tensor.
for name in string.gmatch("in_channels in_features in1_features in2_features num_features " ..
                          "num_channels input_size embed_dim d_model", "%S+") do
  absent[name] = "omit it: the tensor has that size"
end

local function unknown(name, parsed, key)
  local other = renamed[key]
  if other and parsed.known[other[1]] then
    fail("%s: unknown option '%s'; %s", name, key, other[2])
  end
  if absent[key] then fail("%s: unknown option '%s'; %s", name, key, absent[key]) end
  local own = parsed.known.axis and "axis" or parsed.known.axes and "axes"
  if (key == "dim" or key == "dims") and own then
    fail("%s: unknown option '%s'; it is '%s' here, which counts from 1: PyTorch's dim = 1 is " ..
         "%s = 2", name, key, own, own)
  end
  local names = {}
  for i, a in ipairs(parsed) do
    if a.kind ~= "name" and not (i == 1 and is_tensor[a.kind]) then names[#names + 1] = a.name end
  end
  table.sort(names)
  local near = core.nearest(tostring(key), names)
  if #names == 0 then
    fail("%s: unknown option '%s'; it takes %s", name, tostring(key), signature.shown(parsed, name))
  end
  fail("%s: unknown option '%s'%s", name, tostring(key),
       near and meant(near) or "; it has: " .. table.concat(names, ", "))
end

-- Is the last argument a table of named arguments? A list may hold them after its elements.
local function is_named(v, argument)
  if type(v) ~= "table" then return false end
  if argument and argument.kind == "table" then return false end
  for key in pairs(v) do if type(key) ~= "number" then return true end end
  return next(v) == nil and not (argument and takes_list[argument.kind])
end

-- Sizes, axes or tensors at the end may be given one by one, as in x:view(2, -1) and
-- nn.block_diag(a, b). They become a list.
local one_by_one = {
  sizes = {least = 2, fits = math.type}, axes = {least = 2, fits = math.type},
  tensors = {least = 1, fits = core.is_tensor},
}
local function joined(parsed, n, given)
  local at = 0
  while parsed[at + 1] and not parsed[at + 1].by_name do at = at + 1 end
  local kind = at > 0 and one_by_one[parsed[at].kind]
  if not kind or n < at then return n end
  local options = type(given[n]) == "table" and 1 or 0
  local list = {}
  for i = at, n - options do
    if not kind.fits(given[i]) then return n end
    list[#list + 1] = given[i]
  end
  if #list < kind.least then return n end
  given[at], given[at + 1] = list, options == 1 and given[n] or nil
  return at + options
end

-- The values of the arguments in declared order, from those of a call.
local function collect(name, parsed, ...)
  local given, values, named = {...}, {}, nil
  local n = joined(parsed, select("#", ...), given)
  local last = parsed[n] and not parsed[n].by_name and parsed[n] or nil
  if n > 0 and is_named(given[n], last) then
    named, n = given[n], n - 1
    if #named > 0 and last and takes_list[last.kind] then
      n = n + 1
      given[n] = table.move(named, 1, #named, 1, {})
    end
  end
  for i = 1, n do
    local a = parsed[i]
    if not a or a.by_name then
      if i == n and given[n] == nil then break end
      if a and i == n then
        fail("%s: expected a table of options, as in {%s = ...}, got %s", name, a.name,
             said(given[i]))
      end
      local several = core.is_tensor(given[i]) and core.is_tensor(given[i - 1])
      fail("%s: takes %s, not %d arguments%s", name, signature.shown(parsed, name), n, several and
           "; to pass only the first of several results, put the call in parentheses: (f(x))" or "")
    end
    values[i] = given[i]
  end
  for _, key in ipairs(sorted_keys(named or {})) do
    local at, value = parsed.known[key], named[key]
    if not at and type(key) == "number" then
      if #named == 0 or not (last and takes_list[last.kind]) then
        fail("%s: options are named, as in {%s = ...}", name, parsed[#parsed].name)
      end
    elseif not at or parsed[at].kind == "name" then
      unknown(name, parsed, key)
    elseif values[at] ~= nil then
      fail("%s: '%s' is given twice", name, key)
    else
      values[at] = value
    end
  end
  return values
end

local function checked(name, parsed, values)
  local first = values[1]
  for i, a in ipairs(parsed) do
    local v = values[i]
    if v == nil then v = a.value end
    if v == MISSING then
      if a.kind == "name" then
        fail("%s: expected a name after the tensor, as in x:%s(\"%s1\", ...)", name, name, name)
      end
      if i == 1 and is_tensor[a.kind] then tensor(name, nil) end
      fail("%s: option '%s' is missing", name, a.name)
    end
    if v ~= nil then
      local what = (i == 1 and is_tensor[a.kind]) and name or name .. ": " .. a.name
      v = a.check(what, v, first)
    end
    values[i] = v
  end
  return values
end

-- Adds a batch dimension of 1 to images without one; returns whether it did. Either all images of a
-- call have a batch or none.
local function one_batched(parsed, values)
  local one, first
  for i, a in ipairs(parsed) do
    local v = values[i]
    local rank = v and math.tointeger(tonumber(string.match(a.kind, "^image(%d)$")))
    if rank then
      local dims = shape(v)
      if one ~= nil and one ~= (#dims == rank + 1) then
        fail("%s: %s and %s: one has a batch", parsed.names[1], tostring(first), tostring(v))
      end
      one, first = #dims == rank + 1, first or v
      if one then values[i] = core.op.reshape(v, {dims = {1, table.unpack(dims)}}) end
    end
  end
  return one
end

-- Removes the batch dimension of 1 from results.
local function without_batch(...)
  local results = table.pack(...)
  for i = 1, results.n do
    if core.is_tensor(results[i]) then
      results[i] = core.op.reshape(results[i], {dims = {table.unpack(shape(results[i]), 2)}})
    end
  end
  return table.unpack(results, 1, results.n)
end

-- The arguments of f: the values in order, those in braces as a table.
local function passed(parsed, values, f)
  local one = one_batched(parsed, values)
  local list, n, o = {}, 0, parsed.options and {} or nil
  for i, a in ipairs(parsed) do
    if a.by_name then o[a.name] = values[i]
    elseif a.kind ~= "name" then n = n + 1; list[n] = values[i] end
  end
  if o then n = n + 1; list[n] = o end
  if one then return without_batch(f(table.unpack(list, 1, n))) end
  return f(table.unpack(list, 1, n))
end

-- Is an axis given for a tensor without dimensions?
local function wants_vector(parsed, values)
  if not core.is_tensor(values[1]) or #shape(values[1]) > 0 then return false end
  for i, a in ipairs(parsed) do
    if values[i] ~= nil and (a.kind == "axis" or a.kind == "axes" and #values[i] > 0) then
      return true
    end
  end
  return false
end
-- `to`: the sizes that tensors with the sizes `from` get.
local function of_sizes(from, to, list)
  for i = 1, list.n do
    if core.is_tensor(list[i]) and table.concat(shape(list[i]), ",") == from then
      list[i] = core.op.reshape(list[i], {dims = to})
    end
  end
  return list
end
-- Calls f with zero-dimensional tensors viewed as vectors of one element, and reshapes the results
-- back.
local function of_vectors(parsed, values, f)
  values.n = #parsed
  local results = table.pack(passed(parsed, of_sizes("", {1}, values), f))
  return table.unpack(of_sizes("1", {}, results), 1, results.n)
end

local is_layer = {} -- by name: does the function take a layer name?
local torch_names = {} -- per declaration: its names in PyTorch and here

local function all(...) return ... end

-- Signatures are parsed at their first call: a model calls few of the functions.
local function declare_one(into, text, f, here)
  local names, inside = string.match(text, "^([%w_|]+)(%b())$")
  local name = string.match(names, "^[%w_]+")
  local layer = string.find(inside, ": name", 1, true) and
                string.find(inside, ": name[,)]") ~= nil
  local parsed, at
  local function call(own, ...)
    if not parsed then
      parsed = prepared(text)
      for i, a in ipairs(parsed) do if a.kind == "name" then at = i end end
    end
    if at and type((select(at, ...))) ~= "string" then
      fail("%s: expected a name after the tensor, as in x:%s(\"%s1\", ...)", own, own, own)
    end
    local values = checked(own, parsed, collect(own, parsed, ...))
    if here then return passed(parsed, values, f) end
    local run = wants_vector(parsed, values) and of_vectors or passed
    return within(at and values[at] or depth == 0 and name or "", true, run, parsed, values, f)
  end
  for own in string.gmatch(names, "[^|]+") do
    -- Not a tail call: messages name the function by how it was called (model.c).
    into[own] = function(...) return all(call(own, ...)) end
    is_layer[own] = is_layer[own] or layer
  end
end

-- Adds the functions of a signature to a table. f: the function, or for several ranks a function
-- from the rank to it. here: ops it creates belong to the current scope, not to a call of their
-- own.
local function declare(into, text, torch, f, here)
  for _, variant in ipairs(signature.variants(text, torch)) do
    torch_names[#torch_names + 1] = {variant.torch, string.match(variant.text, "^[%w_]+")}
    declare_one(into, variant.text, variant.rank and f(variant.rank) or f, here)
  end
end

-- The equivalent here of a PyTorch name (ReLU: relu), or nil.
local function in_torch(name)
  for _, names in ipairs(torch_names) do
    for word in string.gmatch(names[1] .. ",", "%.([%w_]+)%s*,") do
      if word == name then return names[2] end
    end
  end
end

-- ---- options of functions that read a table themselves ------------------------------------------

local REQUIRED = MISSING

-- Checks `given` against `known` (name = default) and fills in defaults. If the default is a
-- number, lists and tensors are left to the function to check.
local function options(what, given, known)
  given = given or {}
  if type(given) ~= "table" then
    fail("%s: expected a table of options, as in {kernel = 3}, got %s", what, said(given))
  end
  for _, name in ipairs(sorted_keys(given)) do
    if known[name] == nil then
      local names = sorted_keys(known)
      local near = core.nearest(tostring(name), names)
      fail("%s: unknown option '%s'%s", what, tostring(name),
           near and meant(near) or "; it has: " .. table.concat(names, ", "))
    end
  end
  local all = {}
  for _, name in ipairs(sorted_keys(known)) do
    local default = known[name]
    all[name] = rawget(given, name)
    if all[name] == nil then
      if default == REQUIRED then fail("%s: option '%s' is missing", what, name) end
      all[name] = default
    elseif type(default) == "number" then
      local kind = type(all[name])
      if kind == "string" or kind == "boolean" or kind == "function" then
        fail("%s: %s = %s: expected a number", what, name, said(all[name]))
      end
    end
  end
  return all
end

-- Axes (from 1) as a bit mask, the form ops expect.
local function bits_of(list)
  local bits = 0
  for _, a in ipairs(list) do bits = bits | 1 << (a - 1) end
  return bits
end

local tools = {sorted_keys = sorted_keys, join = join, within = within, placed = placed,
               declare = declare, is_layer = is_layer, in_torch = in_torch, options = options,
               REQUIRED = REQUIRED, bits_of = bits_of}
for name, of in pairs(kinds) do tools[name] = of end
return tools
