-- prune.lua: keeps only those declarations of the library that kernels use, with the comments above
-- them.
--
-- The text is split into items: declarations at file scope, macros, stand-alone comments. An item
-- is kept if a kernel or a kept item mentions a name that it declares; a static_assert, if all
-- library names that it mentions are kept; a comment, if an item of its section is.
local find, sub, match = string.find, string.sub, string.match
local gmatch, gsub = string.gmatch, string.gsub

local function plain(line) -- without strings and comments
  return gsub(gsub(gsub(line, '\\"', ""), '"[^"]*"', '""'), "//.*$", "")
end

-- Rank of a stand-alone comment: 1 begins a file, 2 a section, 3 any other.
local function rank_of(line)
  return find(line, "^// [%w_]+%.cuh:") and 1 or find(line, "^// %-%-%-%-") and 2 or 3
end

local function words(text, found)
  for word in gmatch(text, "[%a_][%w_]*") do found[word] = true end
  return found
end

-- Strips a leading template<...>.
local function declaration(code)
  local at = match(code, "^%s*template%s*()<")
  if not at then return code end
  local depth, i = 0, at
  repeat
    local c = sub(code, i, i)
    depth = depth + (c == "<" and 1 or c == ">" and -1 or 0)
    i = match(code, "^%b()()", i) or i + 1 -- inside parentheses < and > compare
  until depth == 0 or i > #code
  if depth > 0 then error("a template<...> without an end: " .. code) end
  return sub(code, i)
end

-- The names that an item declares.
local function declared(code)
  local names = {}
  local macro = match(code, "^#define%s+([%w_]+)")
  if macro then return {[macro] = true} end
  local call = match(code, "^[A-Z_0-9]+%((.*)%)%s*$") -- of a macro that defines functions
  if call then return words(call, names) end
  local text = gsub(declaration(code), "alignas%s*%b()", "")
  local kind, name = match(text, "^%s*(%a+)%s+([%w_]*)") -- an enum may be unnamed
  if kind == "struct" or kind == "class" or kind == "enum" or kind == "using" then
    names[name] = true
    if kind == "enum" then words(match(text, "%b{}"), names) end
    return names
  end
  local head = match(text, "^([^({=;]*)") -- up to a function's parameters, or a value
  if sub(text, #head + 1, #head + 1) == "(" then
    names[match(head, "([%w_]+)[%s%[%]]*$") or ""] = true
    return names
  end
  for each in gmatch(text, "([%w_]+)%s*%b<>%s*=") do names[each] = true end
  for each in gmatch(text, "([%w_]+)%s*=") do names[each] = true end
  for each in gmatch(text, "([%w_]+)%s*%[[^=]*%]%s*=") do names[each] = true end
  return names
end

local function add(items, lines, comments, code, apart)
  local item = {text = table.concat(lines, "\n"), comments = comments, apart = apart,
                used = words(code, {})}
  item.asserts = find(code, "^%s*static_assert") ~= nil
  item.names = item.asserts and {} or declared(code)
  items[#items + 1] = item
end

local function split(text)
  local items, comments, lines, code, depth, continued = {}, {}, {}, "", 0, false
  local apart = true -- preceded by a blank line
  for line in gmatch(text, "([^\n]*)\n") do
    local bare = plain(line)
    if #lines == 0 and find(line, "^%s*$") then
      if #comments > 0 then
        items[#items + 1] = {text = table.concat(comments, "\n"), rank = rank_of(comments[1])}
      end
      comments, apart = {}, true
    elseif #lines == 0 and find(line, "^//") then
      comments[#comments + 1] = line
    else
      lines[#lines + 1] = line
      code = code .. bare .. "\n"
      for c in gmatch(bare, "[%(%){}]") do depth = depth + ((c == "(" or c == "{") and 1 or -1) end
      continued = find(line, "\\$") ~= nil
      local whole = find(lines[1], "^#define") or find(lines[1], "^[A-Z_0-9]+%(")
      if not continued and depth == 0 and (whole or find(bare, "[;}]%s*$")) then
        add(items, lines, comments, code, apart)
        lines, comments, code, apart = {}, {}, "", false
      end
    end
  end
  if #lines > 0 then error("the library ends inside of a declaration: " .. lines[1]) end
  return items
end

local function keep_used(items, used)
  local by_name, todo = {}, {}
  for _, item in ipairs(items) do
    for name in pairs(item.names or {}) do
      by_name[name] = by_name[name] or {}
      table.insert(by_name[name], item)
    end
  end
  local function use(names)
    for name in pairs(names) do
      for _, item in ipairs(by_name[name] or {}) do
        if not item.kept then
          item.kept = true
          todo[#todo + 1] = item
        end
      end
    end
  end
  use(used)
  while #todo > 0 do use(table.remove(todo).used) end
  for _, item in ipairs(items) do
    if item.asserts then
      item.kept = true
      for name in pairs(item.used) do
        for _, other in ipairs(by_name[name] or {}) do item.kept = item.kept and other.kept end
      end
    end
  end
end

-- A stand-alone comment is kept with the first kept item that follows in its section.
local function keep_comments(items)
  -- by rank: is a later item kept before the next comment of this rank?
  local kept = {false, false, false}
  for i = #items, 1, -1 do
    local item = items[i]
    if item.rank then
      for rank = item.rank, 3 do item.kept, kept[rank] = item.kept or kept[rank], false end
    elseif item.kept then
      for rank = 1, 3 do kept[rank] = true end
    end
  end
end

return function(text, kernels)
  local items, out = split(text), {}
  keep_used(items, words(kernels, {}))
  keep_comments(items)
  for _, item in ipairs(items) do
    if item.kept then
      if item.apart or item.rank then out[#out + 1] = "" end
      for _, line in ipairs(item.comments or {}) do out[#out + 1] = line end
      out[#out + 1] = item.text
      if item.rank then out[#out + 1] = "" end
    end
  end
  return table.concat(out, "\n") .. "\n"
end
