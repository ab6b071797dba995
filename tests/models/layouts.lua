-- layouts.lua: random products, maps and reductions of tensors whose dimensions have names, each
-- written in a random layout: dimensions exchanged, joined and taken apart again, batches joined or
-- broadcast, products by matmul, einsum or sums of products: attention among them, in every way
-- people write it. nngen tests/models/layouts.lua --set seed=17. way=N: the same numbers in other
-- layouts. grads=0: no derivatives.
local nn = require "nn"
local cfg = nn.config{seed = 1, way = 0, ops = 6, grads = 1}

local function generator(state)
  for _ = 1, 4 do state = state * 6364136223846793005 + 1442695040888963407 end
  return function(n) -- 1 to n
    state = state * 6364136223846793005 + 1442695040888963407
    return (state >> 33) % n + 1
  end
end
local random = generator(cfg.seed * 7919 + 15485863) -- what is computed
local other = generator(cfg.seed * 104729 + cfg.way * 31 + 7) -- how it is written
local function pick(list, by) return list[(by or random)(#list)] end
local function chance(n, by) return (by or random)(n) == 1 end
local function mixed(list, by)
  local to = {}
  for _, e in ipairs(list) do table.insert(to, (by or random)(#to + 1), e) end
  return to
end

local size = {b = pick{1, 2, 3}, g = pick{1, 2, 3}, r = pick{1, 2, 2}, n = pick{1, 5, 8, 16, 17},
              m = pick{1, 4, 7, 16, 24}, d = pick{2, 4, 8, 16}, w = pick{1, 4, 8}}
local most = 20000 -- elements of a value
local function count_of(names)
  local count = 1
  for _, l in ipairs(names) do count = count * size[l] end
  return count
end
local function has(names, l)
  for _, e in ipairs(names) do if e == l then return true end end
  return false
end
local function without(names, gone)
  local left = {}
  for _, l in ipairs(names) do if not has(gone, l) then left[#left + 1] = l end end
  return left
end
local function join(...)
  local all = {}
  for _, list in ipairs{...} do for _, e in ipairs(list) do all[#all + 1] = e end end
  return all
end

-- A value is {x = tensor, dims = a list of names for each dimension of x}.
local function names_of(v) return join(table.unpack(v.dims)) end
local all = {"b", "g", "r", "n", "m", "d", "w"}
local function names_in(v) -- whatever its layout
  local names, own = {}, names_of(v)
  for _, l in ipairs(all) do if has(own, l) then names[#names + 1] = l end end
  return names
end
local function sizes_of(dims)
  local sizes = {}
  for i, names in ipairs(dims) do sizes[i] = count_of(names) end
  return sizes
end
local function in_parts(names, by, most_parts) -- neighbours joined at random
  local dims = {}
  for _, l in ipairs(names) do
    if #dims > 0 and (chance(3, by) or #dims == most_parts) then
      dims[#dims] = join(dims[#dims], {l})
    else
      dims[#dims + 1] = {l}
    end
  end
  return dims
end
local function as(v, dims) -- v in these dimensions
  local names, apart, wanted = names_of(v), {}, join(table.unpack(dims))
  local axes = {}
  for i, l in ipairs(wanted) do
    for j, own in ipairs(names) do if own == l then axes[i] = j end end
  end
  for i, l in ipairs(names) do apart[i] = size[l] end
  local x, whole = v.x, true
  for _, d in ipairs(v.dims) do whole = whole and #d == 1 end
  if not whole or chance(4, other) then x = x:reshape(apart) end
  local moved = false
  for i, a in ipairs(axes) do moved = moved or i ~= a end
  if moved then x = x:permute(axes) end
  whole = true
  for _, d in ipairs(dims) do whole = whole and #d == 1 end
  if not whole then x = x:reshape(sizes_of(dims)) end
  return {x = x, dims = dims}
end
local function somehow(v)
  return as(v, in_parts(mixed(names_of(v), other), other, 6))
end
-- v, which lacks some names, so that it broadcasts to the dimensions `dims`.
local function beside(v, dims)
  local own, order, sizes = names_of(v), {}, {}
  for i, names in ipairs(dims) do
    local here, all = {}, true
    for _, l in ipairs(names) do
      if has(own, l) then here[#here + 1] = l else all = false end
    end
    order[#order + 1] = {here = here, names = names, all = all}
    sizes[i] = #here == 0 and 1 or count_of(names)
  end
  local wanted, full, expanded, partly = {}, {}, {}, false
  for _, o in ipairs(order) do
    for _, l in ipairs(o.names) do
      if has(o.here, l) then
        wanted[#wanted + 1] = {l}
        full[#full + 1], expanded[#expanded + 1] = size[l], size[l]
      elseif #o.here > 0 then
        full[#full + 1], expanded[#expanded + 1] = 1, size[l]
        partly = true
      end
    end
  end
  if #wanted == 0 then return v.x end
  local x = as(v, wanted).x
  if partly then x = x:reshape(full):expand(expanded) end
  return x:reshape(sizes)
end

local count = 0
local function name(kind)
  count = count + 1
  return kind .. count
end
local wanted = {}
local function source(names)
  names = mixed(names)
  local dims = in_parts(names, other, 6)
  local apart = {}
  for i, l in ipairs(names) do apart[i] = {l} end
  local x = nn[chance(3) and "param" or "input"](name("x"), sizes_of(apart))
  wanted[#wanted + 1] = x
  return as({x = x, dims = apart}, dims)
end
local function some(names, least)
  local found = {}
  for _, l in ipairs(names) do if chance(2) then found[#found + 1] = l end end
  while #found < (least or 0) do
    local l = pick(names)
    if not has(found, l) then found[#found + 1] = l end
  end
  return found
end

-- ---- products ----------------------------------------------------------------------------------
local function spelled(names) return table.concat(names) end
local function product(a, b, summed) -- of all names, but summed over `summed`
  local of_a, of_b = names_of(a), names_of(b)
  local kept_a, kept_b = without(of_a, summed), without(of_b, summed)
  local shared, rows, columns = {}, {}, without(kept_b, of_a)
  for _, l in ipairs(kept_a) do
    local to = has(of_b, l) and shared or rows
    to[#to + 1] = l
  end
  local way = other(5)
  local scale = count_of(summed) ^ -0.5
  if way == 1 then
    local made = mixed(join(shared, rows, columns), other)
    local x = as(a, in_parts(mixed(of_a, other), function() return 2 end))
    local y = as(b, in_parts(mixed(of_b, other), function() return 2 end))
    local by = spelled(join(table.unpack(x.dims))) .. "," .. spelled(join(table.unpack(y.dims)))
    local dims = {}
    for i, l in ipairs(made) do dims[i] = {l} end
    return {x = nn.einsum(by .. "->" .. spelled(made), x.x, y.x) * scale, dims = dims}
  end
  -- Names of one operand alone are batches that broadcast, or rows and columns.
  local batches, lines, rest = mixed(shared, other), {}, {}
  for _, l in ipairs(mixed(rows, other)) do
    local to = chance(3, other) and batches or lines
    to[#to + 1] = l
  end
  for _, l in ipairs(mixed(columns, other)) do
    local to = chance(4, other) and batches or rest
    to[#to + 1] = l
  end
  if chance(2, other) then batches = mixed(batches, other) end
  local lead = in_parts(batches, other, 4)
  summed = mixed(summed, other)
  if way == 2 and count_of(join(batches, lines, rest, summed)) <= most then
    local dims = join(lead, in_parts(join(lines, rest), other, 3))
    local all = join(dims, {summed})
    local x = beside(a, all) * beside(b, all)
    return {x = x:sum(#all) * scale, dims = dims}
  end
  local x = beside(a, join(lead, {lines, summed}))
  local y
  if chance(2, other) then
    y = beside(b, join(lead, {rest, summed})):transpose()
  else
    y = beside(b, join(lead, {summed, rest}))
  end
  if chance(3, other) then x = x * scale; scale = nil end
  local z
  if chance(4, other) then -- turned
    z = y:transpose():matmul(x:transpose())
    lines, rest = rest, lines
  else
    z = x:matmul(y)
  end
  if #lead == 0 and #z.shape > 2 then z = z:reshape{count_of(lines), count_of(rest)} end
  local dims = join(lead, {lines, rest})
  local sizes = sizes_of(dims)
  for i, d in ipairs(sizes) do -- of those that were batches of neither
    if z.shape[i] ~= d then error("layouts.lua: " .. spelled(of_a) .. " " .. spelled(of_b)) end
  end
  return {x = scale and z * scale or z, dims = dims}
end

-- ---- steps -------------------------------------------------------------------------------------
local function changed(v, f) return {x = f(v.x), dims = v.dims} end
local function mapped(v)
  local f = pick{nn.tanh, nn.relu, nn.sigmoid, nn.gelu, nn.silu, nn.sin, nn.abs,
                 function(x) return x * 0.5 end, function(x) return x + 0.25 end}
  if chance(2, other) then v = somehow(v) end
  return changed(v, f)
end
local function combined(v, with, f)
  if chance(2, other) then v = somehow(v) end
  return {x = f(v.x, beside(with, v.dims)), dims = v.dims}
end
local function biased(v)
  local f = pick{function(a, b) return a + b end, function(a, b) return a * b end,
                 function(a, b) return nn.where(b:gt(0.5), a, a * 0.5) end, nn.max}
  return combined(v, source(some(names_in(v), 1)), f)
end
local function index_of(l, dims) -- along l, for what has these dimensions
  return beside({x = nn.index({size[l]}, 1), dims = {{l}}}, dims)
end
local function masked(v, fill)
  local names = names_in(v)
  local a, b = pick(names), pick(names)
  local near = random(3) - 2
  fill = fill or pick{0, 0.5}
  local turned = chance(2)
  if chance(2, other) then v = somehow(v) end
  local x, y = index_of(a, v.dims) + near, index_of(b, v.dims)
  if a == b then y = size[a] // 2 end
  local hidden = turned and x:lt(y) or x:gt(y)
  return changed(v, function(s) return s:masked_fill(hidden, fill) end)
end
-- v with `over` in one dimension, or in several; their numbers.
local function with_axes(v, over)
  local rest = in_parts(mixed(without(names_of(v), over), other), other, 4)
  local mine = chance(3, other) and in_parts(mixed(over, other), other, 3) or {mixed(over, other)}
  local dims, axes = mixed(rest, other), {}
  local first = chance(2, other) and #dims + 1 or other(#dims + 1)
  for i, d in ipairs(mine) do
    table.insert(dims, first + i - 1, d)
    axes[i] = first + i - 1
  end
  return as(v, dims), axes
end
local function softmaxed(v, over)
  local x, axes = with_axes(v, over)
  if #axes == 1 and not chance(3, other) then return changed(x, function(s)
    return s:softmax(axes[1])
  end) end
  local s = x.x
  local e = (s - nn.stop_gradient(s:amax(axes, true))):exp()
  return {x = e / e:sum(axes, true), dims = x.dims}
end
local function reduced(v)
  local names = names_in(v)
  if #names < 2 then return end
  local x, axes = with_axes(v, some(names, 1))
  local f = pick{nn.mean, nn.amax, nn.amin, nn.logsumexp}
  if #axes == #x.dims then return changed(x, function(s) return s - f(s, axes, true) end) end
  if chance(2) then return changed(x, function(s) return s - f(s, axes, true) end) end
  local dims = {}
  for i, d in ipairs(x.dims) do if not has(axes, i) then dims[#dims + 1] = d end end
  return {x = f(x.x, axes), dims = dims}
end

local function attention()
  local lead, group = some({"b", "g"}), some{"r"}
  local rows, k = join(lead, group, {"n"}), some({"d", "w"}, 1)
  local v_names = chance(2) and {"w"} or {"d"}
  local q = source(join(rows, k))
  local keys = source(join(lead, {"m"}, k))
  local values = source(join(lead, {"m"}, v_names))
  if chance(6) then values = changed(values, nn.tanh) end
  if chance(3) then q = changed(q, nn.tanh) end
  local s = product(q, keys, k)
  local function hidden(v) return masked(v, pick{-1e4, -1e4, 0}) end
  for _ = 1, random(3) - 1 do s = pick{mapped, biased, hidden, hidden}(s) end
  if chance(3, other) then s = somehow(s) end
  local p = softmaxed(s, {"m"})
  if chance(4) then p = pick{mapped, biased, masked}(p) end
  if chance(3, other) then p = somehow(p) end
  local y = product(p, values, {"m"})
  return changed(y, function(x) return x * (size.m ^ 0.5) end)
end

local made = {}
local function keep(v)
  if v and count_of(names_of(v)) <= most then made[#made + 1] = v end
end
local function any() return made[#made - random(math.min(#made, 4)) + 1] end
local function multiply()
  local a = any()
  local own = names_in(a)
  if #own == 0 then return end
  local b = chance(3) and any() or source(join(some(own, 1), some(without(all, own))))
  local shared = {}
  for _, l in ipairs(own) do if has(names_in(b), l) then shared[#shared + 1] = l end end
  if #shared == 0 then return end
  local summed = some(shared, 1)
  local left = without(join(own, without(names_in(b), own)), summed)
  if #left > 5 or #left < 1 or count_of(left) > most then return end
  return product(a, b, summed)
end
local steps = {multiply, multiply, attention,
               function() return mapped(any()) end,
               function() return somehow(any()) end,
               function() local v = any(); return #names_in(v) > 0 and biased(v) or nil end,
               function() local v = any(); return #names_in(v) > 0 and masked(v) or nil end,
               function()
                 local v = any()
                 if #names_in(v) == 0 then return end
                 local over = some(names_in(v), 1)
                 return changed(softmaxed(v, over), function(x)
                   return x * (count_of(over) ^ 0.5)
                 end)
               end,
               function() return reduced(any()) end}

keep(source(some(all, 2)))
if count_of(names_of(made[1] or {dims = {}})) > most or #made == 0 then keep(source{"b", "n"}) end
keep(chance(2) and attention() or source{"g", "n", "d"})
for _ = 1, cfg.ops do keep(pick(steps)()) end

-- In an order of names that no layout changes.
local function plain(v)
  local names = {}
  for i, l in ipairs(names_in(v)) do names[i] = {l} end
  return as(v, names).x
end
local every = random(3)
local loss
for i, v in ipairs(made) do
  if i % every == 0 or i == #made then nn.output("y" .. i, plain(v) * 1) end
  if i > #made - 2 then
    local x = plain(v)
    local n = count_of(names_of(v))
    local part = (x * nn.arange(n):float():sin():reshape(x.shape)):sum()
    loss = loss and loss + part or part
  end
end
if cfg.grads == 1 and cfg.seed % 2 == 0 then
  local of = {}
  for i, x in ipairs(wanted) do if i <= 4 and chance(2) then of[#of + 1] = x end end
  if #of == 0 then of[1] = wanted[#wanted] end
  for i, g in ipairs(nn.grad(loss, of)) do nn.output("d" .. i, g + of[i]) end
end
