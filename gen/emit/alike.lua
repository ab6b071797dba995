-- alike.lua: parts of a launch over several tensors that differ only in these tensors, and in how
-- many elements they have, share one text.
--
-- alike(k) sets k.classes, in the order of their blocks: parts of k.parts, each with its first
-- block `begin`, the first one behind it, `last`, and the number of a block within the part, as
-- text, `block`. At least kLeast parts that are alike become one: it has their numbers `first` to
-- `final`, what differs between them as `fields`, and as `cases` of a switch that initialize them;
-- its text uses them as members of `of`. k.begins: the first block of each part, or false if no
-- parts share text.
local gsub, gmatch, concat = string.gsub, string.gmatch, table.concat
local kLeast = 4

local texts = {"decode", "decode_element", "element_loads", "element_body", "loads", "body",
               "stores"}
local word = "%f[%w_][%a_][%w_]*"

-- The part with the names that this kernel chose replaced by their numbers, in order of appearance;
-- and these names.
local function shape_of(part, own, pointers)
  local names, number = {}, {}
  local shape = {part.lanes, part.columns or 0, part.rows or 0}
  local function numbered(name)
    if not own[name] then return end
    if not number[name] then
      names[#names + 1] = name
      number[name] = #names
    end
    return concat {"\0", number[name], " ", pointers[name] or ""}
  end
  for i = 1, #texts do shape[#shape + 1] = gsub(part[texts[i]] or "", word, numbered) end
  return concat(shape, "\n"), names
end

-- The parts by their text, those with the same one in one list.
local function gather(k)
  local own, lists, by_shape = {}, {}, {}
  for name in gmatch(k.taken, "%S+") do own[name] = true end
  for _, part in ipairs(k.parts) do
    local shape, names = shape_of(part, own, k.pointers)
    local list = by_shape[shape]
    if not list then
      list = {}
      by_shape[shape] = list
      lists[#lists + 1] = list
    end
    part.names = names
    list[#list + 1] = part
  end
  return own, lists
end

-- Makes the first of these parts stand for all.
local function share(list, counter, pointers)
  local class, fields, cases, member = list[1], {}, {}, {}
  for i = 1, #list do cases[i] = {} end
  local function add(type, name, value_of) -- unless it is the same in all parts
    local same = true
    for _, part in ipairs(list) do same = same and value_of(part) == value_of(class) end
    if same then return false end
    fields[#fields + 1] = type .. name .. ";"
    for i, part in ipairs(list) do cases[i][#fields] = value_of(part) end
    return true
  end
  local largest = 0
  for _, part in ipairs(list) do largest = math.max(largest, part.count) end
  add("int ", "begin", function(part) return part.begin end)
  class.block = "(blockIdx.x - of.begin)"
  if add(counter(largest) .. " ", "count", function(part) return part.count end) then
    class.elements = "of.count"
  end
  for i, name in ipairs(class.names) do
    local type = pointers[name]
    if type and add(type, name, function(part) return part.names[i] end) then
      member[name] = "of." .. name
    end
  end
  for _, field in ipairs(texts) do
    if class[field] then class[field] = gsub(class[field], word, member) end
  end
  for i = 1, #list do
    local label = i < #list and "case " .. class.first + i - 1 or "default"
    cases[i] = label .. ": return Tensors{" .. concat(cases[i], ", ") .. "};"
  end
  class.fields, class.cases = concat(fields, "\n"), concat(cases, "\n")
  class.last, class.final = list[#list].last, list[#list].final
  class.more = " and " .. #list - 1 .. " more"
  return class
end

-- Numbers, several in a line.
local function lines_of(numbers)
  local lines = {}
  for i = 1, #numbers, 16 do
    lines[#lines + 1] = concat(numbers, ", ", i, math.min(i + 15, #numbers))
  end
  return concat(lines, ",\n")
end

return function(k, counter)
  local own, lists = gather(k)
  local block, number, tables, begins = 0, 0, 0, {}
  k.classes = {}
  for _, list in ipairs(lists) do
    for _, part in ipairs(list) do
      part.first, part.final, part.more = number, number, ""
      part.elements = "kCount"
      part.begin, part.last = block, block + part.blocks
      part.block = "(blockIdx.x - " .. block .. ")" -- of the part
      number, block = number + 1, part.last
      begins[number] = part.begin
    end
    if #list < kLeast then
      table.move(list, 1, #list, #k.classes + 1, k.classes)
    else
      tables = tables + 1
      local class = share(list, counter, k.pointers)
      class.tensors = "tensors_" .. tables
      while own[class.tensors] do class.tensors = class.tensors .. "_" end
      k.classes[#k.classes + 1] = class
    end
  end
  begins[number + 1] = block
  k.begins = tables > 0 and lines_of(begins)
end
