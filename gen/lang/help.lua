-- help.lua: the documents of the model language, read from the comments and declarations of its files:
-- `nngen help`, `nngen help NAME`, and the list in models/README.md (`nngen help --markdown`).
--
-- files: list of {name, text} -> {list = function() text, entry = function(name) text or nil, markdown = function(),
-- names = {...}}
local files = ...

local kinds = {
  tensor = "a tensor", value = "a tensor or a number", tensors = "a list of tensors", axis = "an axis",
  axes = "an axis or a list of axes", whole = "a whole number", count = "a whole number from 1", sizes = "a list of whole numbers",
  single = "a whole number", pair = "a whole number or {height, width}", triple = "a whole number or {depth, height, width}",
  sides = "a whole number, {height, width} or {top, left, bottom, right}", number = "a number", boolean = "true or false",
  string = "a text", name = "the layer's name", table = "a table", ["function"] = "a function", any = nil,
}

local function arguments(signature)
  local list, by_name = {}, false
  for text in signature:match("%b()"):sub(2, -2):gmatch("[^,]+") do
    by_name = by_name or text:find("{", 1, true) ~= nil
    text = text:gsub("[{}]", "")
    local names, kind, default = text:match("^%s*([%w_|]+):%s*([%w_/]+)%s*=?%s*(.-)%s*$")
    local all = {}
    for name in names:gmatch("[^|]+") do all[#all + 1] = name end
    list[#list + 1] = {name = all[1], others = table.concat(all, ", ", 2), kind = kind, default = default, by_name = by_name}
  end
  return list
end

local function shown(name, list)
  local parts, open = {}, false
  for _, a in ipairs(list) do
    local text = a.name
    if a.default ~= "" then text = text .. " = " .. (a.kind:find("/", 1, true) and '"' .. a.default .. '"' or a.default) end
    if a.by_name and not open then text, open = "{" .. text, true end
    parts[#parts + 1] = text
  end
  return name .. "(" .. table.concat(parts, ", ") .. (open and "}" or "") .. ")"
end

-- ---- reading ----------------------------------------------------------------------------------

local chapters, by_name = {}, {}

local function add(chapter, entry)
  chapter[#chapter + 1] = entry
  for _, name in ipairs(entry.names) do by_name[name] = by_name[name] or entry end
end

local function read(file)
  local chapter = {title = file.title:sub(1, 1):upper() .. file.title:sub(2), entries = {}}
  chapters[#chapters + 1] = chapter
  local comment, section = {}, nil
  for line in (file.text .. "\n"):gmatch("(.-)\n") do
    local title = line:match("^%-%- %-%-%-%- (.-) %-+$")
    local prefix, signature, torch = line:match('^%s*[%w_%.]*define(_?%w*)%("([^"]+)", "([^"]*)"')
    local plain = line:match("^function nn%.([%w_]+)%(")
    if title then
      section = {title = title}
      chapter.entries[#chapter.entries + 1] = section
      comment = {}
    elseif signature then
      local functional = prefix == "_functional"
      local names = {}
      for name in signature:match("^[^%(]+"):gmatch("[^|]+") do names[#names + 1] = (functional and "functional." or "") .. name end
      local list = arguments(signature)
      add(chapter.entries, {names = names, list = list, signature = shown(names[1], list), torch = torch,
                            text = table.concat(comment, " ")})
      comment = {}
    elseif plain then
      local text = table.concat(comment, " ")
      local head, rest = text:match("^([%w_]+%b()): (.*)$")
      if not head then head, rest = text:match("^([%w_]+%b{}): (.*)$") end
      if head then add(chapter.entries, {names = {plain}, signature = head, torch = "", text = rest, lines = comment}) end
      comment = {}
    elseif line:match("^%-%- ") then
      comment[#comment + 1] = line:sub(4)
    elseif not line:match("^%-%-") then
      comment = {}
    end
  end
end
for _, file in ipairs(files) do read(file) end

-- ---- writing ----------------------------------------------------------------------------------

local function wrapped(text, width, indent)
  local lines, line = {}, indent
  for word in text:gmatch("%S+") do
    if #line + #word + 1 > width and line ~= indent then
      lines[#lines + 1] = line
      line = indent
    end
    line = line == indent and indent .. word or line .. " " .. word
  end
  if line ~= indent then lines[#lines + 1] = line end
  return table.concat(lines, "\n")
end

local function described(a)
  local kind = a.kind:find("/", 1, true) and '"' .. a.kind:gsub("/", '", "') .. '"' or kinds[a.kind]
  local parts = {}
  if kind then parts[#parts + 1] = kind end
  if a.default == "nil" then parts[#parts + 1] = "may be left out" end
  if a.default ~= "" and a.default ~= "nil" then parts[#parts + 1] = "by default " .. a.default end
  if a.others ~= "" then parts[#parts + 1] = "also " .. a.others end
  return table.concat(parts, "; ")
end

local result = {}

function result.entry(name)
  local e = by_name[name] or by_name[name:match("^nn%.(.+)$") or ""]
  if not e then return nil end
  local out = {e.signature, ""}
  if e.text ~= "" then out[#out + 1] = e.lines and wrapped(e.text, 100, "  ") or wrapped(e.text, 100, "  ") end
  if e.list and #e.list > 0 then
    out[#out + 1] = ""
    for _, a in ipairs(e.list) do
      out[#out + 1] = string.format("  %-18s %s", a.name, described(a))
    end
  end
  if #e.names > 1 then out[#out + 1] = "\n  also: " .. table.concat(e.names, ", ", 2) end
  if e.torch ~= "" then out[#out + 1] = "\n  PyTorch: " .. e.torch end
  return table.concat(out, "\n") .. "\n"
end

function result.list()
  local out = {}
  for _, chapter in ipairs(chapters) do
    local names = {}
    for _, e in ipairs(chapter.entries) do if e.names then names[#names + 1] = e.names[1] end end
    if #names > 0 then out[#out + 1] = chapter.title .. "\n" .. wrapped(table.concat(names, " "), 100, "  ") .. "\n" end
  end
  return table.concat(out, "\n") .. "\nnngen help NAME describes one.\n"
end

function result.markdown()
  local out = {}
  for _, chapter in ipairs(chapters) do
    local any = false
    for _, e in ipairs(chapter.entries) do any = any or e.names ~= nil end
    if any then
      out[#out + 1] = "\n### " .. chapter.title .. "\n"
      for _, e in ipairs(chapter.entries) do
        if e.names then
          local line = "- `" .. e.signature .. "`"
          if #e.names > 1 then line = line .. ", also `" .. table.concat(e.names, "`, `", 2) .. "`" end
          if e.text ~= "" then line = line .. ": " .. e.text:gsub("([%*_|<>])", "\\%1") end
          local others = {}
          for _, a in ipairs(e.list or {}) do if a.others ~= "" then others[#others + 1] = "`" .. a.others .. "` for `" .. a.name .. "`" end end
          if #others > 0 then line = line .. (line:match("[%.:]$") and " " or ". ") .. "Also " .. table.concat(others, ", ") .. "." end
          if e.torch ~= "" then line = line .. (line:match("[%.:`]$") and " " or ". ") .. "(" .. e.torch .. ")" end
          out[#out + 1] = line
        end
      end
    end
  end
  return table.concat(out, "\n") .. "\n"
end

result.names = {}
for name in pairs(by_name) do result.names[#result.names + 1] = name end
table.sort(result.names)
return result
