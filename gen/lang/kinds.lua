-- kinds.lua: checks of the kinds of arguments that signatures name; signature.lua describes them in
-- words. A check gets `what`, the argument's name in messages ("cumsum: axis"), its value, and the
-- function's first argument x, to whose dimensions axes refer; it returns the value that the
-- function uses.
local core = ...
local shape = core.shape

local function fail(format, ...) core.fail(string.format(format, ...)) end

-- A value as messages print it.
local function said(v)
  if core.is_tensor(v) then return tostring(v) end
  if type(v) == "string" then return "'" .. v .. "'" end
  if type(v) ~= "table" then return type(v) == "function" and "a function" or tostring(v) end
  if next(v) == nil then return "{}" end
  for key, element in pairs(v) do
    if type(key) ~= "number" or type(element) ~= "number" then return "a table" end
  end
  return (#v > 0 and #v < 9) and "{" .. table.concat(v, ", ") .. "}" or "a table"
end

local function meant(near) return string.format("; did you mean '%s'?", near) end

-- ---- tensors and numbers ----------------------------------------------------------------------

local function tensor(what, v)
  if core.is_tensor(v) then return v end
  if type(v) == "boolean" then
    fail("%s: expected a tensor, got %s; Lua's == compares no elements, nn.eq(a, b) does", what,
         tostring(v))
  end
  fail("%s: expected a tensor, got %s%s", what, said(v), v == nil and
       "; a tensor's functions are called with a colon, as in x:relu()" or "")
end

local function whole(what, v)
  local n = type(v) == "number" and math.tointeger(v)
  if not n then
    local large = type(v) == "number" and v == math.floor(v) and v - v == 0
    fail("%s = %s: expected a whole number%s", what, said(v),
         large and " from -2^63 to 2^63 - 1" or "")
  end
  return n
end

local most = 2^31 - 1 | 0 -- counts, sizes and steps are ints in kernels
local function from(least, what, v, all)
  local n = whole(what, v)
  if n < least then fail("%s = %s: expected at least %d", what, said(all or v), least) end
  if n > most then fail("%s = %s: expected at most %d", what, said(all or v), most) end
  return n
end

-- A count of channels, features or groups.
local function count(what, v) return from(1, what, v) end
local function amount(what, v) return from(0, what, v) end

local function chance(what, v)
  if type(v) ~= "number" or not (v >= 0 and v <= 1) then
    fail("%s = %s: expected a number from 0 to 1", what, said(v))
  end
  return v
end

-- ---- one number per dimension, given as a number or as a list -----------------------------------

local layouts = {"(N, C, L)", "(N, C, H, W)", "(N, C, D, H, W)"}
local alone = {"(C, L)", "(C, H, W)", "(C, D, H, W)"} -- without a batch
local lists = {{"{length}", "{before, after}"}, {"{height, width}", "{top, left, bottom, right}"},
               {"{depth, height, width}", "{front, top, left, back, bottom, right}"}}

local function image(rank)
  return function(what, v)
    local has = #shape(tensor(what, v))
    if has ~= rank + 2 and has ~= rank + 1 then
      fail("%s: expected %s or %s, got %s", what, layouts[rank], alone[rank], tostring(v))
    end
    return v
  end
end

-- Whole numbers >= `least`: one per dimension, or with `sided` one per side: all those before the
-- dimensions, then all those after.
local function numbers(rank, least, sided)
  local many = sided and 2 * rank or rank
  return function(what, v)
    local list = {}
    if type(v) ~= "number" and (type(v) ~= "table" or #v ~= 1 and #v ~= rank and #v ~= many) then
      fail("%s = %s: expected a number%s %s%s", what, said(v), sided and "," or " or",
           lists[rank][1], sided and " or " .. lists[rank][2] or "")
    end
    for i = 1, many do
      list[i] = from(least, what, type(v) == "number" and v or v[(i - 1) % #v + 1], v)
    end
    return list
  end
end
local function each(rank) return numbers(rank, 1) end
-- An image shape, with or without the batch dimension.
local function extent(rank)
  local of_each = each(rank)
  return function(what, v)
    local more = type(v) == "table" and #v - rank or 0
    return of_each(what, (more == 1 or more == 2) and table.move(v, more + 1, #v, 1, {}) or v)
  end
end
local function border(rank) return numbers(rank, 0) end
local function sides(rank) return numbers(rank, 0, true) end
local function padding(rank)
  local by_number = sides(rank)
  return function(what, v)
    if v == "same" then return v end
    if type(v) == "string" and v ~= "valid" then
      fail("%s = %s: expected \"same\", \"valid\" or numbers", what, said(v))
    end
    return by_number(what, v == "valid" and 0 or v)
  end
end

-- ---- other kinds --------------------------------------------------------------------------------

-- An axis from 1: of x or, if x has no dimensions, of a vector.
local function axis_or_only(what, v, x)
  local rank = core.is_tensor(x) and math.max(#shape(x), 1)
      or fail("%s: there is no tensor to apply the axis to", what)
  if math.type(v) == "float" then v = math.tointeger(v) or v end
  if math.type(v) ~= "integer" then fail("%s = %s: expected a whole number", what, said(v)) end
  if v == 0 or v > rank or v < -rank then
    fail("%s: %s has no axis %d%s", string.match(what, "^[^:]*"), tostring(x), v,
         v == 0 and "; they count from 1" or "")
  end
  return v > 0 and v or rank + v + 1
end
local function axis(what, v, x)
  if core.is_tensor(x) and #shape(x) == 0 then
    fail("%s: %s has no axes", string.match(what, "^[^:]*"), tostring(x))
  end
  return axis_or_only(what, v, x)
end

-- Axes without duplicates, sorted; nil: all.
local function axes(what, v, x)
  local list, seen = {}, {}
  if type(v) ~= "table" then return {axis_or_only(what, v, x)} end
  for i = 1, #v do
    list[i] = axis_or_only(what, v[i], x)
    if seen[list[i]] then fail("%s: axis %d is given twice", what, list[i]) end
    seen[list[i]] = true
  end
  return list
end

local function sizes(what, v)
  if type(v) == "number" then v = {v} end
  if type(v) ~= "table" then
    fail("%s: expected sizes, as in %s{2, -1}, got %s", string.match(what, "^[^:]*"),
         string.match(what, "^[^:]*"), said(v))
  end
  local list = {}
  for i = 1, #v do list[i] = whole(string.match(what, "^[^:]*") .. ": dimension " .. i, v[i]) end
  return list
end

local function of_type(name, wants)
  return function(what, v)
    if type(v) ~= name then fail("%s = %s: expected %s", what, said(v), wants) end
    return v
  end
end

local function tensors(what, v)
  if type(v) ~= "table" or #v == 0 then
    fail("%s: expected a list of tensors", string.match(what, "^[^:]*"))
  end
  local list = {}
  for i = 1, #v do list[i] = tensor(what .. "[" .. i .. "]", v[i]) end
  return list
end

-- The check of each kind (signature.lua describes them).
local checks = {
  any = function(_, v) return v end,
  tensor = tensor, tensors = tensors, axis = axis_or_only, axes = axes, whole = whole,
  count = count, amount = amount, sizes = sizes,
  value = function(what, v) -- a tensor, or a number
    if type(v) == "number" then return v end
    if core.is_tensor(v) or type(v) == "boolean" then return tensor(what, v) end
    fail("%s: expected a tensor or a number, got %s", what, said(v))
  end,
  condition = function(what, v)
    if core.dtype(tensor(what, v)) ~= "bool" then
      fail("%s: expected bools, got %s; x:ne(0) converts", what, core.dtype(v))
    end
    return v
  end,
  chance = chance, share = function(what, v) return v ~= false and chance(what, v) end,
  number = of_type("number", "a number"),
  scalar = function(what, v) -- a number or a boolean
    if type(v) == "number" or type(v) == "boolean" then return v end
    fail("%s = %s: expected a number, true or false", what, said(v))
  end,
  element = function(what, v) -- a tensor, or a scalar that one of its elements can be
    if type(v) == "number" or type(v) == "boolean" or core.is_tensor(v) then return v end
    fail("%s: expected a tensor, a number, true or false, got %s", what, said(v))
  end,
  boolean = of_type("boolean", "true or false"),
  string = of_type("string", "a text"),
  table = of_type("table", "a table"),
  ["function"] = of_type("function", "a function"),
  name = function(what, v)
    if type(v) ~= "string" or v == "" then fail("%s = %s: expected a name", what, said(v)) end
    return v
  end,
}
-- kinds; as a first argument they have no name in messages
local is_tensor = {tensor = true, value = true, condition = true}
local takes_list = {tensors = true, axes = true, sizes = true, table = true, any = true}
for rank = 1, 3 do
  checks["image" .. rank], is_tensor["image" .. rank] = image(rank), true
  for name, of_rank in pairs{each = each, extent = extent, border = border, sides = sides,
                             padding = padding} do
    checks[name .. rank], takes_list[name .. rank] = of_rank(rank), true
  end
end

-- "none/tanh": one of these words.
local function choice(words)
  local list = {}
  for word in string.gmatch(words, "[^/]+") do list[#list + 1] = word end
  return function(what, v)
    for _, word in ipairs(list) do if v == word then return v end end
    local near = type(v) == "string" and core.nearest(v, list)
    local others = '"' .. table.concat(list, '", "', 1, #list - 1) .. '" or "' .. list[#list] .. '"'
    fail("%s = %s: expected %s%s", what, said(v), others, near and meant(near) or "")
  end
end

return {checks = checks, choice = choice, is_tensor = is_tensor, takes_list = takes_list,
        fail = fail, said = said, meant = meant, tensor = tensor, whole = whole, amount = amount,
        count = count, each = each, image = image, axis = axis, axis_or_only = axis_or_only,
        axes = axes, layouts = layouts}
