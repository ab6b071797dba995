-- help.lua: the documentation of the model language, extracted from the comments and declarations
-- of its files: `nngen help`, `nngen help NAME`, and the list in models/README.md (`nngen help
-- --markdown`).
--
-- signature: signature.lua; files: list of {title, text}. Returns {list = function() text,
-- entry = function(name) text or nil, markdown = function() text, names = {...}}.
local signature, files = ...

-- ---- reading ----------------------------------------------------------------------------------
-- An entry: names, firsts (the first name of each rank), text, items; for declared functions also
-- the result of signature.parse and the name in PyTorch; for others the signature.

local chapters, by_name = {}, {}

-- The prose of a comment, and its items: lines indented by two more blanks, "  name   meaning", and
-- lines further in, which continue them.
local function split(comment)
  local prose, items = {}, {}
  for _, line in ipairs(comment) do
    local name, what = line:match("^  (%S.-)%s%s+(%S.*)$")
    if name then items[#items + 1] = {name = name, what = what}
    elseif line:match("^   ") and #items > 0 then
      items[#items].what = items[#items].what .. " " .. line:match("^%s*(.*)$")
    else prose[#prose + 1] = line end
  end
  return table.concat(prose, " "), items
end

local function declared(d, text)
  local e = {names = {}, firsts = {}, text = text, parsed_of = {}, torch_of = {}}
  for _, variant in ipairs(signature.variants(d.text, d.torch)) do
    local parsed = signature.parse(variant.text)
    for i, own in ipairs(parsed.names) do
      local name = (d.functional and "functional." or "") .. own
      e.names[#e.names + 1], e.parsed_of[name], e.torch_of[name] = name, parsed, variant.torch
      if i == 1 then e.firsts[#e.firsts + 1] = name end
    end
  end
  return e
end

-- function nn.name, whose comment begins with its signature.
local function plain(name, text)
  local head, rest = text:match("^([%w_]+%b()): (.*)$")
  if not head then head, rest = text:match("^([%w_]+%b{}): (.*)$") end
  return head and {names = {name}, firsts = {name}, text = rest, signature = head}
end

for _, file in ipairs(files) do
  local chapter = {title = file.title:sub(1, 1):upper() .. file.title:sub(2)}
  chapters[#chapters + 1] = chapter
  signature.declarations(file.text, function(what, of, comment)
    local text, items = split(comment)
    local entry
    if what == "declared" then entry = declared(of, text) end
    if what == "function" then entry = plain(of, text) end
    if not entry then return end
    entry.items = items
    chapter[#chapter + 1] = entry
    for _, name in ipairs(entry.names) do by_name[name] = by_name[name] or entry end
  end)
end

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
  local parts = {}
  if a.choice then parts[1] = '"' .. a.kind:gsub("/", '", "') .. '"'
  else
    local words = signature.kinds[a.kind] or signature.kinds[a.kind:gsub("%d$", "#")]
    if not words then error("kind " .. a.kind .. " has no words") end
    if words ~= "" then parts[1] = words end
  end
  if a.default == "nil" then parts[#parts + 1] = "optional"
  elseif a.default then parts[#parts + 1] = "by default " .. a.default end
  if #a.names > 1 then parts[#parts + 1] = "also " .. table.concat(a.names, ", ", 2) end
  return table.concat(parts, "; ")
end

local function shown(e, name) return e.signature or signature.shown(e.parsed_of[name], name) end
local function arguments(e, name) return e.parsed_of and e.parsed_of[name] or {} end
local function torch(e, names)
  local list = {}
  for _, name in ipairs(names) do
    local text = e.torch_of and e.torch_of[name] or ""
    if text ~= "" then list[#list + 1] = text end
  end
  return table.concat(list, ", ")
end

-- text, then more, joined as sentences of one line.
local function joined(text, more)
  return text .. (text:match("[%.:`]$") and " " or ". ") .. more
end

local result = {names = {}}

function result.entry(name)
  name = name:match("^nn%.(.+)$") or name
  local e = by_name[name]
  if not e then return nil end
  local out = {shown(e, name), ""}
  if e.text ~= "" then out[#out + 1] = wrapped(e.text, 100, "  ") end
  local rows, items = {}, {}
  for _, item in ipairs(e.items) do items[item.name] = item.what end
  for _, a in ipairs(arguments(e, name)) do
    rows[#rows + 1] = {name = a.name, what = items[a.name] or described(a)}
    items[a.name] = nil
  end
  for _, item in ipairs(e.items) do if items[item.name] then rows[#rows + 1] = item end end
  for i, row in ipairs(rows) do
    local what = wrapped(row.what, 100, (" "):rep(21)):sub(22)
    out[#out + 1] = (i == 1 and "\n" or "") .. string.format("  %-18s %s", row.name, what)
  end
  local others = {}
  for _, other in ipairs(e.names) do if other ~= name then others[#others + 1] = other end end
  if #others > 0 then out[#out + 1] = "\n  also: " .. table.concat(others, ", ") end
  local same = torch(e, {name})
  if same ~= "" then out[#out + 1] = "\n  PyTorch: " .. same end
  return table.concat(out, "\n") .. "\n"
end

function result.list()
  local out = {}
  for _, chapter in ipairs(chapters) do
    local names = {}
    for _, e in ipairs(chapter) do names[#names + 1] = table.concat(e.firsts, " ") end
    if #names > 0 then
      out[#out + 1] = chapter.title .. "\n" .. wrapped(table.concat(names, " "), 100, "  ") .. "\n"
    end
  end
  return table.concat(out, "\n") .. "\nnngen help NAME describes one.\n"
end

-- Escapes Markdown's characters, except in code (between backticks).
local function escaped(text)
  local code = false
  return (text:gsub("([^`]*)(`?)", function(part, tick)
    if not code then part = part:gsub("([%*_|<>])", "\\%1") end
    if tick ~= "" then code = not code end
    return part .. tick
  end))
end

local function markdown_line(e)
  local line = "- `" .. shown(e, e.names[1]) .. "`"
  if #e.names > 1 then line = line .. ", also `" .. table.concat(e.names, "`, `", 2) .. "`" end
  if e.text ~= "" then line = line .. ": " .. escaped(e.text) end
  local others = {}
  for _, a in ipairs(arguments(e, e.names[1])) do
    if #a.names > 1 then
      others[#others + 1] = "`" .. table.concat(a.names, "`, `", 2) .. "` for `" .. a.name .. "`"
    end
  end
  if #others > 0 then line = joined(line, "Also " .. table.concat(others, ", ") .. ".") end
  local same = torch(e, e.firsts)
  if same ~= "" then line = joined(line, "(" .. same .. ")") end
  for _, item in ipairs(e.items) do
    line = line .. "\n  - `" .. item.name .. "`: " .. escaped(item.what)
  end
  return line
end

function result.markdown()
  local out = {}
  for _, chapter in ipairs(chapters) do
    if #chapter > 0 then out[#out + 1] = "\n### " .. chapter.title .. "\n" end
    for _, e in ipairs(chapter) do out[#out + 1] = markdown_line(e) end
  end
  return table.concat(out, "\n") .. "\n"
end

for name in pairs(by_name) do result.names[#result.names + 1] = name end
table.sort(result.names)
return result
