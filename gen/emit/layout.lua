-- layout.lua: formats emitted C: lines of at most 100 columns, broken after the last argument that
-- fits; trailing comments of adjacent lines aligned. Templates cannot do this, since the names that
-- fill them have any length.
local find, sub, rep = string.find, string.sub, string.rep
local match, gmatch = string.match, string.gmatch
local kWidth = 100

-- Column of a trailing comment, including the blanks before it, or nil.
local function comment_at(line)
  local quote, i = nil, 1
  while i <= #line do
    local c = sub(line, i, i)
    if quote then
      if c == "\\" then i = i + 1 elseif c == quote then quote = nil end
    elseif c == '"' or c == "'" then
      quote = c
    elseif sub(line, i, i + 1) == "//" then
      local code = match(sub(line, 1, i - 1), "^(.-)%s*$")
      return code ~= "" and #code + 1 or nil
    end
    i = i + 1
  end
end

-- The last position at which the line may be broken, and the indentation of the rest; preferably
-- outside inner parentheses. `outer`: the column of a parenthesis open from a previous line.
local function break_at(line, outer)
  local open, quote, best, i = {outer}, nil, nil, 1
  while i <= kWidth and i <= #line do
    local c = sub(line, i, i)
    if quote then
      if c == "\\" then i = i + 1 elseif c == quote then quote = nil end
    elseif c == '"' or c == "'" then
      quote = c
    elseif c == "(" or c == "{" then
      open[#open + 1] = i
    elseif c == ")" or c == "}" then
      open[#open] = nil
    elseif (c == "," or find(sub(line, i, i + 2), "^[|&][|&] ") or
            find(sub(line, i - 1, i + 1), "^ [?:] ")) and
      #open > 0 then
      local at = c == "," and i or find(c, "[?:]") and i - 2 or i + 1
      if at <= kWidth and sub(line, at + 1, at + 1) == " " and
         (not best or #open <= best.depth or best.at < kWidth / 2) then
        best = {at = at, column = open[#open], depth = #open}
      end
    end
    i = i + 1
  end
  return best
end

local put_broken
function put_broken(out, line)
  local label, value = match(line, "^(%s*case [%w_]+:) (.*)$")
  if #line > kWidth and label then
    out[#out + 1] = label
    out[#out + 1] = match(line, "^%s*") .. "  " .. value
    return
  end
  local condition, rest = match(line, "^(%s*if %b()) ([^{].*)$")
  if #line > kWidth and rest then -- the guarded statement goes to the next line
    put_broken(out, condition)
    return put_broken(out, match(line, "^%s*") .. "  " .. rest)
  end
  local outer
  while #line > kWidth do
    local best = break_at(line, outer)
    if not best then break end
    out[#out + 1] = sub(line, 1, best.at)
    outer = best.column
    line = rep(" ", outer) .. match(sub(line, best.at + 1), "^%s*(.*)$")
  end
  out[#out + 1] = line
end

-- Aligns the trailing comments of lines i .. last - 1.
local function align(lines, first, last)
  local width = 0
  for i = first, last - 1 do
    local at = comment_at(lines[i])
    local rest = match(sub(lines[i], at), "^%s*(.*)$")
    if at - 1 > width and at + #rest <= kWidth then width = at - 1 end
  end
  for i = first, last - 1 do
    local at = comment_at(lines[i])
    local code, rest = sub(lines[i], 1, at - 1), match(sub(lines[i], at), "^%s*(.*)$")
    local column = width + 1 + #rest <= kWidth and width or kWidth - 1 - #rest
    lines[i] = code .. rep(" ", math.max(1, column - #code + 1)) .. rest
  end
end

-- Wraps full-line comments within their paragraph.
local function fold_comments(text)
  local lines, over = {}, nil
  for line in gmatch(text, "([^\n]*)\n") do
    local head, words = match(line, "^(%s*// )(%S.*)$")
    if over and head == over.head then
      line = head .. over.words .. " " .. words
    elseif over then
      lines[#lines + 1] = over.head .. over.words
    end
    over = nil
    if head and #line > kWidth then
      local at = kWidth + 1
      while sub(line, at, at) ~= " " do at = at - 1 end
      over = {head = head, words = sub(line, at + 1)}
      line = sub(line, 1, at - 1)
    end
    lines[#lines + 1] = line
  end
  return table.concat(lines, "\n") .. "\n"
end

return function(text)
  local lines = {}
  for line in gmatch(fold_comments(text), "([^\n]*)\n") do
    local at = comment_at(line)
    if #line > kWidth and at then -- the comment goes above the code
      lines[#lines + 1] = match(line, "^%s*") .. match(sub(line, at), "^%s*(.*)$")
      line = sub(line, 1, at - 1)
    end
    if find(line, "^%s*//") or find(line, "^%s*#") then
      lines[#lines + 1] = line
    else
      put_broken(lines, line)
    end
  end
  local i = 1
  while i <= #lines do
    local last = i
    while lines[last] and comment_at(lines[last]) and not find(lines[last], "^%s*[{}]") do
      last = last + 1
    end
    if last > i + 1 then align(lines, i, last) end
    i = math.max(last, i + 1)
  end
  return table.concat(lines, "\n") .. "\n"
end
