-- help_ops.lua: the documentation of nn.op, from the rows of ops.lua: `nngen help op`, `nngen help
-- op.NAME`, and the table in models/README.md.
--
-- text: of ops.lua. Returns {entry = function(name) text or nil, markdown = function() text,
-- names = {...}}.
local text = ...

local classes = {
  map = "each element of the result from the same element of each input, which broadcast",
  reduce = "the elements along `axes` (bit d: dimension d) become one; the dimensions stay, " ..
           "of size 1",
  scan = "each element becomes the accumulation of those up to it along `axis`",
  select = "positions of the `count` largest elements along `axis`, as i32",
  sort = "positions that sort each run of `count` elements along `axis`, as i32; b: the sorted " ..
         "positions of the two runs that become one",
  scatter = "rows b, (n, d) or (n), added up by their ids a, (n), into `count` places; of " ..
            "(batch, n, d) or (batch, n) by (batch, n) in each batch; c: positions that sort " ..
            "the ids",
  window = "the elements under a window that slides over (N, C, H, W)",
  contract = "sums of products",
  move = "the same elements elsewhere",
}
local order = {"map", "reduce", "scan", "select", "sort", "scatter", "window", "contract", "move"}

-- The text of moves and contractions, whose rows have no expression of an element.
local forms = {
  matmul = "matrices, those in front broadcast", conv2d = "image, filters",
  conv2d_data = "gradient, filters: the gradient by an image of `size`",
  conv2d_filter = "gradient, image: the gradient by filters of `size`",
  reshape = "`dims`: the sizes", permute = "`dims`: where each dimension comes from",
  slice = "from `dims` to below `ends`", concat = "any number of tensors, along `axis`",
  pad = "zeros: `dims` before, `ends` after", roll = "rotated by `dims`, wrapping around",
  gather = "tensor, ids: rows along `axis`",
  take_along = "tensor, ids of its rank: elements along `axis`",
}

local rows, by_name = {}, {}
local env = setmetatable({op = function(row)
  row.class = row.class or "map"
  if row.class ~= "source" then rows[#rows + 1], by_name[row.name] = row, row end
end}, {__index = _G})
assert(load(text, "=gen/lang/ops.lua", "t", env))()

local letters = {"a", "b", "c", "d"}
local function shown(row)
  local list = {}
  local n = row.class == "map" and row.nin or row.class == "contract" and 2 or 1
  if row.name == "concat" then list = {"a, ..."} end
  if row.name == "gather" or row.name == "take_along" then n = 2 end
  if row.class == "sort" or row.class == "scatter" then n = row.nin end
  for i = #list + 1, n or 1 do list[i] = letters[i] end
  if row.attrs then list[#list + 1] = "{" .. table.concat(row.attrs, ", ") .. "}" end
  return string.format("op.%s(%s)", row.name, table.concat(list, ", "))
end

-- The expression of an element, or of two partial results a and b of a reduction.
local function computes(row)
  if row.acc then return row.result or row.acc.name end
  local cuda = row.cuda and row.cuda:gsub("%$(%d)", function(i) return letters[tonumber(i)] end)
  return cuda or forms[row.name] or forms[row.form] or ""
end

local intro = "The ops that the functions above create: `nn.op.NAME(a, b, ..., {attributes})` " ..
              "creates one op from tensors and numbers. Axes and positions count from 0 here."

local result = {names = {}}
for _, row in ipairs(rows) do result.names[#result.names + 1] = "op." .. row.name end

function result.entry(name)
  if name == "op" then return (result.markdown():gsub("^\n### Ops\n\n", ""):gsub("`", "")) end
  local row = by_name[name:match("^op%.(.+)$") or ""]
  if not row then return nil end
  local out = {shown(row), "", "  " .. row.class .. ": " .. classes[row.class]:gsub("`", "")}
  if computes(row) ~= "" then out[#out + 1] = "  computes: " .. computes(row):gsub("`", "") end
  out[#out + 1] = "  " .. (row.grad and "has a gradient rule" or
                           row.class == "map" and "nn.grad takes it for a constant" or
                           "nn.grad differentiates it by the rule of its class, where there is one")
  return table.concat(out, "\n") .. "\n"
end

function result.markdown()
  local out = {"\n### Ops\n", intro}
  for _, class in ipairs(order) do
    out[#out + 1] = string.format("\nClass %s: %s.\n", class, classes[class])
    for _, row in ipairs(rows) do
      if row.class == class then
        local what = computes(row)
        local code = what ~= "" and not what:find("`", 1, true) and (row.cuda or row.acc)
        out[#out + 1] = "- `" .. shown(row) .. "`" ..
                        (what == "" and "" or ": " .. (code and "`" .. what .. "`" or what))
      end
    end
  end
  return table.concat(out, "\n") .. "\n"
end

return result
