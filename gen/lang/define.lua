-- define.lua: how the functions of the module `nn` are declared, and what is checked of a call.
--
--   define("cumsum(x: tensor, axis: axis = -1)", "torch.cumsum", function(x, axis) ... end)
--
-- declares nn.cumsum, which is x:cumsum too, by the signature that signature.lua reads. Arguments
-- are given in its order, or by name in a table at the end: x:cumsum{axis = 2}; those in its braces
-- are given by name alone, and reach the function as one table. Of a layer with parameters one
-- argument is of the kind `name`; the function runs in that place, and is not given it. A signature
-- of several ranks is given what makes the function of a rank. The second text names what it is in
-- PyTorch. The comment above a declaration is its entry in models/README.md and in `nngen help`
-- (help.lua).
local core, signature = ...
local shape = core.shape

local function fail(format, ...) core.fail(string.format(format, ...)) end

-- A value as a message shows it.
local function said(v)
  if core.is_tensor(v) then return tostring(v) end
  if type(v) == "string" then return "'" .. v .. "'" end
  if type(v) ~= "table" then return type(v) == "function" and "a function" or tostring(v) end
  for key, element in pairs(v) do
    if type(key) ~= "number" or type(element) ~= "number" then return "a table" end
  end
  return (#v > 0 and #v < 9) and "{" .. table.concat(v, ", ") .. "}" or "a table"
end

local function meant(near) return string.format("; did you mean '%s'?", near) end

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

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

-- The same under a name of its own, which is not joined to the place at hand.
local function placed(name, f, ...)
  local outer = scope
  scope = ""
  local result = table.pack(within(name, false, f, ...))
  scope = outer
  core.place(scope, depth > 0)
  return table.unpack(result, 1, result.n)
end

-- ---- kinds of arguments -----------------------------------------------------------------------
-- what: "cumsum: axis", for messages; x: the first argument, of a tensor its axes are.

local function tensor(what, v)
  if core.is_tensor(v) then return v end
  if type(v) == "boolean" then
    fail("%s: wants a tensor, not %s; Lua's == compares no elements, nn.eq(a, b) does", what,
         tostring(v))
  end
  fail("%s: wants a tensor, not %s", what, said(v))
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

local function amount(what, v)
  local n = whole(what, v)
  if n < 0 then fail("%s = %d: wants at least 0", what, n) end
  return n
end

-- ---- of each dimension: what is given as a number, or as a list ---------------------------------

local layouts = {"(N, C, L)", "(N, C, H, W)", "(N, C, D, H, W)"}
local alone = {"(C, L)", "(C, H, W)", "(C, D, H, W)"} -- without a batch
local lists = {{"{length}", "{before, behind}"}, {"{height, width}", "{top, left, bottom, right}"},
               {"{depth, height, width}", "{front, top, left, back, bottom, right}"}}

local function image(rank)
  return function(what, v)
    local has = #shape(tensor(what, v))
    if has ~= rank + 2 and has ~= rank + 1 then
      fail("%s: wants %s or %s, not %s", what, layouts[rank], alone[rank], tostring(v))
    end
    return v
  end
end

-- Images without a batch become batches of one; are they? All of a call are, or none.
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

-- Results for a batch of one, without that.
local function without_batch(...)
  local results = table.pack(...)
  for i = 1, results.n do
    if core.is_tensor(results[i]) then
      results[i] = core.op.reshape(results[i], {dims = {table.unpack(shape(results[i]), 2)}})
    end
  end
  return table.unpack(results, 1, results.n)
end

-- Whole numbers of at least `least`: one for each dimension, or with `sided` one for each side:
-- those before the dimensions, then those behind.
local function numbers(rank, least, sided)
  local many = sided and 2 * rank or rank
  return function(what, v)
    local list = {}
    if type(v) ~= "number" and (type(v) ~= "table" or #v ~= rank and #v ~= many) then
      fail("%s = %s: wants a number, %s%s", what, said(v), lists[rank][1],
           sided and " or " .. lists[rank][2] or "")
    end
    for i = 1, many do
      list[i] = whole(what, type(v) == "number" and v or v[(i - 1) % #v + 1])
      if list[i] < least then fail("%s = %s: wants at least %d", what, said(v), least) end
    end
    return list
  end
end
local function each(rank) return numbers(rank, 1) end
local function border(rank) return numbers(rank, 0) end
local function sides(rank) return numbers(rank, 0, true) end
local function padding(rank)
  local by_number = sides(rank)
  return function(what, v)
    if v == "same" then return v end
    if type(v) == "string" and v ~= "valid" then
      fail("%s = %s: wants \"same\", \"valid\" or numbers", what, said(v))
    end
    return by_number(what, v == "valid" and 0 or v)
  end
end

-- ---- other kinds --------------------------------------------------------------------------------

-- From 1.
local function axis(what, v, x)
  local rank = core.is_tensor(x) and #shape(x)
      or fail("%s: there is no tensor whose axis that is", what)
  if math.type(v) == "float" then v = math.tointeger(v) or v end
  if math.type(v) ~= "integer" then fail("%s = %s: wants a whole number", what, said(v)) end
  if v == 0 or v > rank or v < -rank then
    fail("%s: %s has no axis %d%s", string.match(what, "^[^:]*"), tostring(x), v,
         v == 0 and "; they count from 1" or "")
  end
  return v > 0 and v or rank + v + 1
end

-- Each once, in their order; nil: all.
local function axes(what, v, x)
  local list, seen = {}, {}
  if type(v) ~= "table" then return {axis(what, v, x)} end
  for i = 1, #v do
    list[i] = axis(what, v[i], x)
    if seen[list[i]] then fail("%s: axis %d is given twice", what, list[i]) end
    seen[list[i]] = true
  end
  return list
end

local function sizes(what, v)
  if type(v) == "number" then v = {v} end
  if type(v) ~= "table" then
    fail("%s: wants sizes, as in %s{2, -1}, not %s", string.match(what, "^[^:]*"),
         string.match(what, "^[^:]*"), said(v))
  end
  local list = {}
  for i = 1, #v do list[i] = whole(string.match(what, "^[^:]*") .. ": dimension " .. i, v[i]) end
  return list
end

local function of_type(name, wants)
  return function(what, v)
    if type(v) ~= name then fail("%s = %s: wants %s", what, said(v), wants) end
    return v
  end
end

local function tensors(what, v)
  if type(v) ~= "table" or #v == 0 then
    fail("%s: wants a list of tensors", string.match(what, "^[^:]*"))
  end
  local list = {}
  for i = 1, #v do list[i] = tensor(what .. "[" .. i .. "]", v[i]) end
  return list
end

-- The check of each kind (signature.lua has what it is in words).
local checks = {
  any = function(_, v) return v end,
  tensor = tensor, tensors = tensors, axis = axis, axes = axes, whole = whole, count = count,
  amount = amount, sizes = sizes,
  value = function(what, v) return type(v) == "number" and v or tensor(what, v) end, -- or a number
  number = of_type("number", "a number"),
  boolean = of_type("boolean", "true or false"),
  string = of_type("string", "a text"),
  table = of_type("table", "a table"),
  ["function"] = of_type("function", "a function"),
  name = function(what, v)
    if type(v) ~= "string" or v == "" then fail("%s = %s: wants a name", what, said(v)) end
    return v
  end,
}
-- kinds; as a first argument they have no name in messages
local is_tensor = {tensor = true, value = true}
local takes_list = {tensors = true, axes = true, sizes = true, table = true, any = true}
for rank = 1, 3 do
  checks["image" .. rank], is_tensor["image" .. rank] = image(rank), true
  for name, of_rank in pairs{each = each, border = border, sides = sides, padding = padding} do
    checks[name .. rank], takes_list[name .. rank] = of_rank(rank), true
  end
end

-- Of "none/tanh": one of these words.
local function choice(words)
  local list = {}
  for word in string.gmatch(words, "[^/]+") do list[#list + 1] = word end
  return function(what, v)
    for _, word in ipairs(list) do if v == word then return v end end
    local near = type(v) == "string" and core.nearest(v, list)
    local others = '"' .. table.concat(list, '", "', 1, #list - 1) .. '" or "' .. list[#list] .. '"'
    fail("%s = %s: wants %s%s", what, said(v), others, near and meant(near) or "")
  end
end

local MISSING = {} -- the default of what must be given

local function literal(text)
  if text == "nil" then return nil end
  if text == "true" or text == "false" then return text == "true" end
  if text == "inf" or text == "-inf" then return text == "inf" and math.huge or -math.huge end
  return tonumber(text) or string.match(text, '^"(.*)"$') or text
end

-- What signature.lua read, with a check for each argument, and its default as a value.
local function prepared(text)
  local parsed = signature.parse(text)
  for _, a in ipairs(parsed) do
    a.check = a.choice and choice(a.kind) or checks[a.kind] or error("no kind " .. a.kind)
    if a.default then a.value = literal(a.default) else a.value = MISSING end
  end
  return parsed
end

-- ---- calls ------------------------------------------------------------------------------------

-- Options of PyTorch's that are others here: {the argument, what to say of it}.
local renamed = {
  unbiased = {"correction", "it is 'correction' here: 1 for unbiased = true, 0 for false"},
  start_dim = {"first", "it is 'first' here, an axis that counts from 1"},
  end_dim = {"last", "it is 'last' here, an axis that counts from 1"},
}

local function unknown(name, parsed, key)
  local other = renamed[key]
  if other and parsed.known[other[1]] then
    fail("%s: unknown option '%s'; %s", name, key, other[2])
  end
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

-- Is this last argument a table of named ones? A list may have them behind its elements.
local function is_named(v, argument)
  if type(v) ~= "table" then return false end
  if argument and argument.kind == "table" then return false end
  for key in pairs(v) do if type(key) ~= "number" then return true end end
  return next(v) == nil and not (argument and takes_list[argument.kind])
end

-- Sizes or axes that end the arguments may be given one by one: x:view(2, -1). They become a list.
local function joined(parsed, n, given)
  local at = 0
  while parsed[at + 1] and not parsed[at + 1].by_name do at = at + 1 end
  local kind = at > 0 and parsed[at].kind
  if n <= at or kind ~= "sizes" and kind ~= "axes" then return n end
  local options = type(given[n]) == "table" and 1 or 0
  local list = {}
  for i = at, n - options do
    if type(given[i]) ~= "number" then return n end
    list[#list + 1] = given[i]
  end
  if #list < 2 then return n end
  given[at], given[at + 1] = list, options == 1 and given[n] or nil
  return at + options
end

-- The values of the arguments, in their order, from what a call was given.
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
        fail("%s: options are a table, as in {%s = ...}, not %s", name, a.name, said(given[i]))
      end
      fail("%s: takes %s, not %d arguments", name, signature.shown(parsed, name), n)
    end
    values[i] = given[i]
  end
  for key, value in pairs(named or {}) do
    local at = parsed.known[key]
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
        fail("%s: wants a name after the tensor, as in x:%s(\"%s1\", ...)", name, name, name)
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

-- What f is given: the values in order, those of the braces as a table.
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

local is_layer = {} -- by name: does it take one?
local in_torch = {} -- by PyTorch's name, ReLU: what it is here

-- Signatures are read at their first call: a model calls few of all functions.
local function declare_one(into, text, f, here)
  local names, inside = string.match(text, "^([%w_|]+)(%b())$")
  local name = string.match(names, "^[%w_]+")
  local layer = string.find(inside, ": name[,)]") ~= nil
  local parsed, at
  local function call(...)
    if not parsed then
      parsed = prepared(text)
      for i, a in ipairs(parsed) do if a.kind == "name" then at = i end end
    end
    if at and type((select(at, ...))) ~= "string" then
      fail("%s: wants a name after the tensor, as in x:%s(\"%s1\", ...)", name, name, name)
    end
    local values = checked(name, parsed, collect(name, parsed, ...))
    if here then return passed(parsed, values, f) end
    return within(at and values[at] or depth == 0 and name or "", true, passed, parsed, values, f)
  end
  for own in string.gmatch(names, "[^|]+") do
    into[own], is_layer[own] = call, is_layer[own] or layer
  end
end

-- Puts the functions of a signature into a table. f: the function, or of a signature of several
-- ranks what gives it for a rank. here: what it makes belongs to the place at hand, not to a call
-- of its own.
local function declare(into, text, torch, f, here)
  for _, variant in ipairs(signature.variants(text, torch)) do
    local name = string.match(variant.text, "^[%w_]+")
    for word in string.gmatch(variant.torch, "%.([%w_]+)") do
      in_torch[word] = in_torch[word] or name
    end
    declare_one(into, (string.gsub(variant.text, "%s+", " ")),
                variant.rank and f(variant.rank) or f, here)
  end
end

-- ---- options of functions that read a table themselves ------------------------------------------

local REQUIRED = MISSING

-- Checks `given` against `known` (name = default) and fills in the defaults.
local function options(what, given, known)
  given = given or {}
  if type(given) ~= "table" then
    fail("%s: options are a table, as in {kernel = 3}, not %s", what, said(given))
  end
  for name in pairs(given) do
    if known[name] == nil then
      local names = sorted_keys(known)
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

-- The bits of axes (from 1), as ops want them.
local function bits_of(list)
  local bits = 0
  for _, a in ipairs(list) do bits = bits | 1 << (a - 1) end
  return bits
end

return {
  fail = fail, said = said, meant = meant, sorted_keys = sorted_keys, join = join, within = within,
  placed = placed, declare = declare, is_layer = is_layer, in_torch = in_torch,
  options = options, REQUIRED = REQUIRED, tensor = tensor, whole = whole, amount = amount,
  count = count, each = each, axis = axis, bits_of = bits_of, layouts = layouts,
}
