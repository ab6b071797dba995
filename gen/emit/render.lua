-- render.lua: the template engine. A line that starts with //@ is Lua; $(e) inserts the value of e;
-- a line that consists of $(e) is omitted if the value is empty. Line n of the Lua chunk is line n
-- of the template, so errors name the line. The parameters of a template are the fields of `k`;
-- part(file) inserts another file of templates/, with the same or with given parameters; alike(k)
-- is that of alike.lua.
--
-- The rendered text contains #line, so that compiler messages name the template: at the top and
-- wherever line counts differ; not with `plain`. emit.c indents the text by its braces.
local read = ... -- read(file): its text

-- Methods of strings are the sandbox's limited ones; the full library is called by name.
local match, find, sub = string.match, string.find, string.sub

-- The type of an element count: indices fit an int, counts not always.
local function counter(count) return count < 2^31 and "int" or "unsigned" end

local alike_of = assert(load(read("gen/emit/alike.lua"), "=gen/emit/alike.lua"))()
local function alike(k) return alike_of(k, counter) end

local cache = {} -- file -> compiled template

-- Template line n as Lua statements on one line.
local function translate(line, n)
  local code = match(line, "^%s*//@(.*)$")
  if code then return code end
  if not find(line, "$(", 1, true) then return string.format("put(%d, %q)", n, line) end
  local alone = match(line, "^%s*%$(%b())%s*$")
  if alone then return string.format("put_some(%d, tostring%s)", n, alone) end
  local parts, at = {}, 1
  while true do
    local first, last, e = find(line, "%$(%b())", at)
    parts[#parts + 1] = string.format("%q", sub(line, at, (first or #line + 1) - 1))
    if not first then break end
    parts[#parts + 1] = "tostring(" .. e .. ")"
    at = last + 1
  end
  return string.format("put(%d, %s)", n, table.concat(parts, " .. "))
end

local function compile(file, text)
  local lines, at = {}, 1
  while at <= #text do
    local last = find(text, "\n", at, true) or #text + 1
    lines[#lines + 1] = translate(sub(text, at, last - 1), #lines + 1)
    at = last + 1
  end
  local head = "local put, put_some, k, part, counter, alike = ...\n"
  return assert(load(head .. table.concat(lines, "\n"), "=" .. file, "t"))
end

return function(file, k, plain)
  local out = {}
  local function run(name, holes)
    cache[name] = cache[name] or compile(name, read(name))
    local expected
    local function put(n, line)
      if not find(line, "%S") and #out > 0 and out[#out] == "" then
        expected = nil
        return
      end
      if n ~= expected and not plain then
        out[#out + 1] = string.format('#line %d "%s"', n, name)
      end
      while sub(line, -1) == "\n" do line = sub(line, 1, -2) end
      out[#out + 1] = line
      expected = not find(line, "\n", 1, true) and n + 1 or nil
    end
    local function put_some(n, lines)
      if lines ~= "" then put(n, lines) end
    end
    local function part(file, others) run("templates/" .. file, others or holes) end
    cache[name](put, put_some, holes, part, counter, alike)
  end
  run(file, k)
  return table.concat(out, "\n") .. "\n"
end
