-- signature.lua: parses the text that declares a function of the model language.
--
--   "cumsum(x: tensor, axis: axis = -1)"
--
-- names the function (max|amax: under both names) and each argument, with alternative names
-- (keep|keepdim), kind and default; arguments in braces are given only by name. In
--
--   "conv{1,2,3}d(x: image#, name: name, {kernel|kernel_size: each#, stride: each# = 1})"
--
-- one text declares a function for each rank, and # is that rank. define.lua checks calls by it,
-- help.lua documents them. Returns {variants, parse, shown, declarations, kinds}.

-- The description of each kind of argument, for documentation; kinds.lua has a check for each.
-- Those with # have a rank.
local kinds = {
  tensor = "a tensor", condition = "a tensor of bools", value = "a tensor or a number",
  tensors = "a list of tensors",
  image1 = "a tensor (N, C, L) or (C, L)", image2 = "a tensor (N, C, H, W) or (C, H, W)",
  image3 = "a tensor (N, C, D, H, W) or (C, D, H, W)",
  axis = "an axis", axes = "an axis or a list of axes", whole = "a whole number",
  count = "a whole number from 1", amount = "a whole number from 0",
  sizes = "a list of whole numbers",
  ["each#"] = "a whole number from 1, or one for each dimension",
  ["extent#"] = "a whole number from 1, one for each dimension, or the shape of a picture",
  ["border#"] = "a whole number from 0, or one for each dimension",
  ["sides#"] = "a whole number from 0, or one for each dimension or each side: {top, left, ...}",
  ["padding#"] = '"same", "valid", a whole number from 0, or one for each dimension or each side',
  number = "a number", scalar = "a number, true or false",
  element = "a tensor, a number, true or false", chance = "a number from 0 to 1",
  share = "a number from 0 to 1, or false", boolean = "true or false",
  string = "a text", name = "the layer's name",
  table = "a table", ["function"] = "a function", any = "",
}

-- The variants that a text declares: a list of {text, torch, rank = its rank or nil}.
local function variants(text, torch)
  local ranks = string.match(text, "^[%w_|]*{([%d,]+)}")
  if not ranks then return {{text = text, torch = torch}} end
  local list = {}
  for rank in string.gmatch(ranks, "%d") do
    local own = string.gsub(string.gsub(text, "{[%d,]+}", rank, 1), "#", rank)
    list[#list + 1] = {text = own, torch = (string.gsub(torch, "#", rank)),
                       rank = math.tointeger(tonumber(rank))}
  end
  return list
end

local function parse_argument(text, by_name)
  local names, kind, default = string.match(text, "^%s*([%w_|]+):%s*([%w_/#]+)%s*=%s*(.-)%s*$")
  if not names then names, kind = string.match(text, "^%s*([%w_|]+):%s*([%w_/#]+)%s*$") end
  if not names then error("no argument: " .. text) end
  local argument = {kind = kind, by_name = by_name, default = default, names = {}}
  for name in string.gmatch(names, "[^|]+") do argument.names[#argument.names + 1] = name end
  argument.name = argument.names[1]
  argument.choice = string.find(kind, "/", 1, true) ~= nil
  return argument
end

-- One variant's text -> {names, known = {name = index}, options = are there braces?, the
-- arguments}.
local function parse(text)
  local names, inside = string.match(text, "^([%w_|]+)(%b())$")
  if not names then error("no signature: " .. text) end
  local parsed = {names = {}, known = {}, options = false}
  for name in string.gmatch(names, "[^|]+") do parsed.names[#parsed.names + 1] = name end
  for piece in string.gmatch(string.sub(inside, 2, -2), "[^,]+") do
    parsed.options = parsed.options or string.find(piece, "{", 1, true) ~= nil
    parsed[#parsed + 1] = parse_argument((string.gsub(piece, "[{}]", "")), parsed.options)
  end
  for i, argument in ipairs(parsed) do
    for _, name in ipairs(argument.names) do parsed.known[name] = i end
  end
  return parsed
end

-- As messages and documentation show it: cumsum(x, axis = -1).
local function shown(parsed, name)
  local list, open = {}, false
  for _, a in ipairs(parsed) do
    local piece = a.name
    if a.default then
      piece = piece .. " = " .. (a.choice and '"' .. a.default .. '"' or a.default)
    end
    if a.by_name and not open then piece, open = "{" .. piece, true end
    list[#list + 1] = piece
  end
  return (name or parsed.names[1]) .. "(" .. table.concat(list, ", ") .. (open and "}" or "") .. ")"
end

-- The string "..." or [[...]] at a position of Lua's text, with single blanks, and its end.
local function string_at(source, at)
  local text, behind = string.match(source, '^"([^"\n]*)"()', at)
  if not text then text, behind = string.match(source, "^%[%[(.-)%]%]()", at) end
  return text and string.gsub(text, "%s+", " "), behind
end

-- The declaration at a position of Lua's text, define("...", "torch", and its end; or nil.
local function declared_at(source, at)
  local prefix, open = string.match(source, "^%s*[%w_%.]*define(_?%w*)%(()", at)
  local text, torch, behind
  if open then text, behind = string_at(source, open) end
  if text then torch, behind = string_at(source, string.match(source, "^,%s*()", behind)) end
  return torch and {text = text, torch = torch, functional = prefix == "_functional"}, behind
end

-- Parses the declarations in the text of a file: calls f(what, of, comment) in order, with what =
-- "declared", of = {text, torch, functional}; or "function" and the name for function nn.name(...).
-- comment: the lines of the comment above.
local function declarations(source, f)
  local comment, at = {}, 1
  while at <= #source do
    local declared, behind = declared_at(source, at)
    local last = string.find(source, "\n", behind or at, true) or #source + 1
    local line = string.sub(source, at, last - 1)
    local name = string.match(line, "^function nn%.([%w_]+)")
    if declared then f("declared", declared, comment)
    elseif name then f("function", name, comment) end
    if string.match(line, "^%-%- ") and not string.match(line, "^%-%- %-%-%-%-") then
      comment[#comment + 1] = string.sub(line, 4)
    elseif line ~= "--" then
      comment = {}
    end
    at = last + 1
  end
end

return {kinds = kinds, variants = variants, parse = parse, shown = shown,
        declarations = declarations}
