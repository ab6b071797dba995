-- embed.lua: extends the table of a plan (embed.c) by fields that the templates in templates/embed/
-- share: locations of tensors as C text, inputs and outputs of entries, launches with comments.
local format, rep, find = string.format, string.rep, string.find
local sub, gsub, gmatch = string.sub, string.gsub, string.gmatch

local host_types = {f32 = "float", f16 = "uint16_t", bf16 = "uint16_t", f64 = "double",
                    i32 = "int32_t", u8 = "uint8_t", i64 = "int64_t", bool = "uint8_t"}

-- Wraps text at 100 columns, at blanks (\1: non-breaking); `first` precedes it, `rest` later lines.
local function wrap(text, first, rest)
  local lines, line = {}, first
  for word in gmatch(text, "%S+") do
    if #line + #word + 1 > 100 and #line > #first then
      lines[#lines + 1] = line
      line = rest .. word
    else
      line = line .. (line == first and "" or " ") .. word
    end
  end
  lines[#lines + 1] = line
  return (gsub(table.concat(lines, "\n"), "\1", " "))
end

local function find_if(list, holds)
  for i, x in ipairs(list) do
    if holds(x) then return i end
  end
end

local function round_up(n) return (n + 255) // 256 * 256 end

local function describe(t)
  local order = table.concat(t.order, ",")
  t.shape = t.rank == 0 and "one number" or "(" .. t.dims .. ")"
  t.what, t.type = t.dtype .. " " .. t.shape, host_types[t.dtype]
  for i, d in ipairs(t.order) do t.moved = t.moved or d ~= i - 1 end
  if t.moved then
    t.what = t.what .. (order == "0,2,3,1" and ", NHWC in memory" or ", in memory order " .. order)
  end
end

-- The tensors that the steps use, with how they use them.
local function touched(plan, entry)
  local read, written = {}, {}
  for _, step in ipairs(entry.steps) do
    if step.kind == "launch" then
      for _, arg in ipairs(plan.kernels[step.kernel].args) do
        (arg.written and written or read)[arg.tensor] = true
      end
    else
      if step.kind == "copy" then read[step.source] = true end
      written[step.target] = true
    end
  end
  return read, written
end

local function list(plan, holds)
  local found = {}
  for i, t in ipairs(plan.tensors) do
    if holds(t, i) then found[#found + 1] = t end
  end
  return found
end

-- ---- launches -----------------------------------------------------------------------------------

-- C text of a tensor's device pointer inside an entry.
local function pointer(t)
  return t.role == "input" and "in." .. t.ident or
         t.role == "output" and not t.by_init and "out." .. t.ident or
         t.space == "static" and "at->" .. t.ident or t.ident
end

local map_types = {f32 = "FLOAT32", f16 = "FLOAT16", bf16 = "BFLOAT16", f64 = "FLOAT64",
                   i32 = "INT32", u8 = "UINT8", i64 = "INT64"}

-- A name that is not a tensor's pointer in the function.
local function local_name(plan, name)
  while find_if(plan.tensors, function(t) return t.ident == name end) do name = name .. "_" end
  return name
end

-- C text that creates the tensor map of an argument.
local function tensor_map(plan, name, arg)
  local t, map = plan.tensors[arg.tensor], arg.map
  local at = plan.as_number .. pointer(t) .. (map.offset > 0 and " + " .. map.offset or "")
  local function dims(kind, word, values)
    return format("    static const %s %s_%s[] = {%s};\n", kind, name, word,
                  table.concat(values, ", "))
  end
  return dims("uint64_t", "extents", map.extents) .. dims("uint64_t", "strides", map.strides) ..
         dims("uint32_t", "box", map.box) .. format("    CUtensorMap %s;\n", name) ..
         wrap(format("TRY(tensor_map(run, &%s, CU_TENSOR_MAP_DATA_TYPE_%s, %s, %d, %s_extents, " ..
                     "%s_strides, %s_box, CU_TENSOR_MAP_SWIZZLE_%s));", name, map_types[t.dtype], at,
                     #map.extents, name, name, name,
                     map.swizzle > 0 and map.swizzle .. "B" or "NONE"), "    ",
              "                   ")
end

local function launch(plan, step)
  local k = plan.kernels[step.kernel]
  local args, from, to, maps = {}, {}, {}, {}
  for i, arg in ipairs(k.args) do
    local t = plan.tensors[arg.tensor]
    local name = pointer(t)
    if arg.map then
      name, plan.maps = local_name(plan, arg.name), true
      maps[#maps + 1] = tensor_map(plan, name, arg)
    end
    args[i] = "&" .. name .. (i < #k.args and "," or "};")
    local short = t.ident .. "\1" .. gsub(t.shape, " ", "\1") -- keep in one line
    if find(arg.name, "^own_") then
      -- scratch memory between the kernel's blocks
    elseif arg.written then
      to[#to + 1] = short
    elseif not arg.written and (t.role ~= "param" or t.space == "init") and not t.in_memory then
      from[#from + 1] = short
    end
  end
  local same = plan.kernels[k.same]
  local what = k.layer .. ": " .. gsub(k.ops, "%+", " + ") .. ";"
  if #from > 0 then what = what .. " " .. table.concat(from, ", ") end
  what = what .. " -> " .. table.concat(to, ", ")
  return {kind = "launch", kernel = k, layer = k.layer, maps = maps,
          comment = wrap(what, "  { // ", "    // "),
          args = wrap(table.concat(args, " "), "    void *args[] = {", "                    "),
          call = wrap(format('TRY(launch(run, "%s", net->kernels.%s, args, %d, %d, %d, %d, %d));',
                             k.layer, same.ident, k.grid[1], k.grid[2], k.grid[3], k.block[1],
                             k.shared),
                      "    ", "               ")}
end

local function copy(source, target, bytes, why)
  return {kind = "copy", comment = "  // " .. why,
          call = wrap(format('TRY(copy(run, "%s", %s, %s, %d));', target.name, pointer(target),
                             pointer(source), bytes),
                      "  ", "           ")}
end

local function steps(plan, entry)
  local made = {}
  for i, step in ipairs(entry.steps) do
    local source, target = plan.tensors[step.source], plan.tensors[step.target]
    if step.kind == "launch" then
      made[i] = launch(plan, step)
    elseif step.kind == "copy" then
      made[i] = copy(source, target, target.bytes, target.name .. " becomes " .. source.ident)
    elseif step.kind == "memset" then
      made[i] = {kind = "memset",
                 call = format('  TRY(clear(run, "%s", %s, %d));', target.name, pointer(target),
                               target.bytes)}
    else
      error("emitted code does not support step: " .. step.kind)
    end
  end
  return made
end

-- Intermediate values are declared before the first step that uses them.
local function declare_values(plan, entry)
  local known = {}
  for i, step in ipairs(entry.plan_steps) do
    local first = {}
    local function touch(index)
      local t = plan.tensors[index]
      if not known[t] and (t.space == "arena" or t.space == "init") then first[#first + 1] = t end
      known[t] = true
    end
    if step.kind == "launch" then
      for _, arg in ipairs(plan.kernels[step.kernel].args) do touch(arg.tensor) end
    else
      if step.kind == "copy" then touch(step.source) end
      touch(step.target)
    end
    entry.steps[i].declares = first
  end
end

local function add_entry(plan, entry)
  local read, written = touched(plan, entry)
  local function of(role, holds)
    return list(plan, function(t, i) return t.role == role and holds(t, i) end)
  end
  entry.inputs = of("input", function(t, i) return read[i] end)
  entry.outputs = of("output", function(t, i)
    return written[i] and not t.by_init or t.by_init and entry.name == "infer"
  end)
  entry.states = of("state", function(t, i) return written[i] end)
  entry.values = list(plan, function(t, i)
    return (read[i] or written[i]) and (t.space == "arena" or t.space == "init")
  end)
  entry.uses_memory = #list(plan, function(t, i)
    return (read[i] or written[i] or t.by_init and entry.name == "infer") and
      t.space == "static" and (t.role ~= "input" and t.role ~= "output" or t.by_init)
  end) > 0
  entry.plan_steps, entry.steps = entry.steps, steps(plan, entry)
  declare_values(plan, entry)
  if entry.name == "infer" then
    for _, t in ipairs(entry.outputs) do
      if t.by_init then
        local step = copy(t, t, t.bytes,
                          t.name .. " depends on parameters alone: create has made it")
        step.call = gsub(step.call, "at%->" .. t.ident, "out." .. t.ident, 1)
        entry.steps[#entry.steps + 1] = step
      end
    end
  end
  entry.launches = 0
  for _, step in ipairs(entry.steps) do
    entry.launches = entry.launches + (step.kind == "memset" and 0 or 1)
  end
  entry.NAME = string.upper(entry.ident)
  entry.stem = entry.ident == "run" and "" or entry.ident .. "_"
  entry.prefix = plan.name .. "_" .. entry.ident
end

-- ---- the whole plan ----------------------------------------------------------------------------

-- Offsets in a handle's memory: parameters as kernels read them, states, counters.
local function place(plan)
  plan.memory_bytes, plan.border_bytes = 0, 0
  for _, t in ipairs(plan.tensors) do
    local border = t.role == "input" or t.role == "output"
    if t.space == "static" and (not border or t.by_init) then
      t.offset = plan.memory_bytes
      plan.memory_bytes = plan.memory_bytes + round_up(t.bytes)
      t.in_memory = true
    end
    t.where = t.in_memory and "memory" or border and "caller" or
              t.space == "arena" and "workspace" or "scratch"
    if border then
      t.border = plan.border_bytes
      plan.border_bytes = plan.border_bytes + round_up(t.bytes)
    end
  end
end

local function join_archs(archs)
  local text = archs[1]
  for i = 2, #archs do text = text .. (i == #archs and " and " or ", ") .. archs[i] end
  return text
end

local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\t"] = "\\t"}
local function quote(text) return '"' .. gsub(text, '["\\\n\t]', escapes) .. '"' end

local function add_helpers(plan)
  plan.wrap, plan.quote = wrap, quote
  function plan.quoted(texts)
    local all = {}
    for i, text in ipairs(texts) do all[i] = quote(text) end
    return table.concat(all, ", ")
  end
  function plan.names(tensors)
    local names = {}
    for i, t in ipairs(tensors) do names[i] = t.ident end
    return table.concat(names, ", ")
  end
  -- The types of its inputs or outputs: lenet_inputs, gpt2_next_host_outputs.
  function plan.struct(entry, kind)
    return plan.name .. "_" .. entry.stem .. kind
  end
  -- Parameters of an entry's function: inputs and outputs, each followed by a comma.
  function plan.params(entry, host)
    local text = ""
    for _, kind in ipairs{"inputs", "outputs"} do
      if #entry[kind] > 0 then
        text = text .. format("const %s *%s, ",
                              plan.struct(entry, (host and "host_" or "") .. kind), kind)
      end
    end
    return text
  end
end

return function(plan)
  add_helpers(plan)
  plan.NAME = string.upper(plan.name)
  -- Expressions for device pointers in arithmetic, and casts that the driver's integers do not
  -- need.
  local runtime = plan.runtime
  plan.address = runtime and "char *" or "CUdeviceptr "
  plan.as_address = runtime and "(char *)" or ""
  plan.as_number = runtime and "(uintptr_t)" or ""
  plan.as_function = runtime and "(const void *)" or ""
  plan.made = format("Written by nngen emit from %s (%s%s), for %s.", plan.file, plan.dtype,
                     plan.settings ~= "" and ", " .. plan.settings or "", join_archs(plan.archs))
  plan.arch_text = join_archs(plan.archs)
  for _, t in ipairs(plan.tensors) do describe(t) end
  local init
  for i, entry in ipairs(plan.entries) do
    if entry.name == "init" then init = table.remove(plan.entries, i) end
  end
  init = init or {name = "init", ident = "init", steps = {}}
  local _, by_init = touched(plan, init)
  for i, t in ipairs(plan.tensors) do t.index = i - 1 end
  for i, t in ipairs(plan.tensors) do t.by_init = t.role == "output" and by_init[i] end
  local taken = {}
  for _, t in ipairs(plan.tensors) do -- inputs of two batch sizes are one C identifier
    local n = 1
    t.own = t.ident
    while taken[t.own] do n, t.own = n + 1, t.ident .. "_" .. n + 1 end
    taken[t.own] = true
  end
  place(plan)
  plan.inputs = list(plan, function(t) return t.role == "input" end)
  plan.outputs = list(plan, function(t) return t.role == "output" end)
  plan.parameters = list(plan, function(t) return t.role == "param" end)
  plan.states = list(plan, function(t) return t.role == "state" end)
  plan.given = table.move(plan.states, 1, #plan.states, #plan.parameters + 1,
                          table.move(plan.parameters, 1, #plan.parameters, 1, {}))
  plan.memory = list(plan, function(t) return t.in_memory end)
  for _, t in ipairs(list(plan, function(t) return t.role == "param" or t.role == "state" end)) do
    if t.moved then error("parameter is not row-major: " .. t.name) end
  end
  add_entry(plan, init)
  for _, entry in ipairs(plan.entries) do add_entry(plan, entry) end
  local main = find_if(plan.entries, function(entry) return #entry.outputs > 0 end)
  plan.main = plan.entries[main or 1]
  plan.init = init
  for _, entry in ipairs{init, table.unpack(plan.entries)} do
    for _, step in ipairs(entry.steps) do
      plan.copies = plan.copies or step.kind == "copy"
      plan.clears = plan.clears or step.kind == "memset"
    end
  end
  for _, entry in ipairs(plan.entries) do
    plan.host = plan.host or #entry.inputs + #entry.outputs > 0
  end
  plan.distinct = {}
  for i, k in ipairs(plan.kernels) do
    if k.same == i then plan.distinct[#plan.distinct + 1] = k end
  end
  return plan
end
