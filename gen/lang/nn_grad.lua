-- nn_grad.lua: derivatives, of the module `nn` (nn.lua): reverse mode over the ops of a model, by the rule of
-- each map's row (ops.lua) and the rules of the other classes below. What it makes are ops like any
-- others: they are fused with the rest, and can be differentiated again.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, tensor = tools.fail, tools.tensor

-- What `grad` of a row says of tensors: ops, whose comparisons are 1 or 0 as those of numbers are.
function on_tensors(code, ...)
  local y = op[code](...)
  return core.dtype(y) == "bool" and y:to("f32") or y
end

-- ---- shapes -----------------------------------------------------------------------------------

local function same_shape(a, b)
  if #a ~= #b then return false end
  for i, d in ipairs(a) do if d ~= b[i] then return false end end
  return true
end

-- g in the shape of x, along which it is the same.
local function expanded(g, x)
  local dims = shape(x)
  return same_shape(shape(g), dims) and g or op.mul(g, core.full(dims, 1))
end

-- The gradient of x from that of what x was broadcast to: summed over what is broadcast.
local function unbroadcast(g, x)
  local from, to, axes = shape(g), shape(x), 0
  for i, d in ipairs(from) do
    if d > 1 and (to[i - #from + #to] or 1) == 1 then axes = axes | 1 << (i - 1) end
  end
  if axes ~= 0 then g = op.reduce_sum(g, {axes = axes}) end
  return same_shape(shape(g), to) and g or op.reshape(g, {dims = to})
end

local function turned(x) -- the last two dimensions exchanged
  local dims, n = {}, #shape(x)
  for i = 1, n do dims[i] = i - 1 end
  dims[n - 1], dims[n] = n - 1, n - 2
  return op.permute(x, {dims = dims})
end

-- ---- rules, by op: (g, node, y, x...) -> the gradient of each input -------------------------------
-- g has the shape of y.

local rules = {}

function rules.reduce_sum(g, node, y, x) return expanded(g, x) end
function rules.reduce_mean(g, node, y, x)
  local count = 1
  for i, d in ipairs(shape(x)) do if node.axes >> (i - 1) & 1 == 1 then count = count * d end end
  return expanded(g * (1 / count), x)
end
function rules.reduce_var(g, node, y, x)
  local mean = op.reduce_mean(x, {axes = node.axes})
  return rules.reduce_mean(g, node, y, x) * ((x - mean) * 2.0)
end
function rules.reduce_prod(g, node, y, x) return g * y / x end
function rules.reduce_lse(g, node, y, x) return g * op.exp(x - y) end
local function extreme(g, node, y, x) -- shared by all that are equal to it, as torch.amax has it
  local chosen = op.eq(x, y):to("f32")
  return g * chosen / op.reduce_sum(chosen, {axes = node.axes})
end
rules.reduce_max, rules.reduce_min = extreme, extreme
function rules.scan_sum(g, node) -- the sums of those behind
  local all = op.reduce_sum(g, {axes = 1 << node.axis})
  return all - op.scan_sum(g, {axis = node.axis}) + g
end

function rules.matmul(g, node, y, a, b)
  return unbroadcast(op.matmul(g, turned(b)), a), unbroadcast(op.matmul(turned(a), g), b)
end
local function conv_options(node, size)
  return {stride = node.stride, pad = node.pad, dilation = node.dilation, groups = node.groups,
          size = size}
end
local function image(x) local d = shape(x); return {d[3], d[4]} end
function rules.conv2d(g, node, y, x, w)
  return op.conv2d_data(g, w, conv_options(node, image(x))), op.conv2d_filter(g, x, conv_options(node, image(w)))
end
function rules.conv2d_data(g, node, y, x, w)
  return op.conv2d(g, w, conv_options(node)), op.conv2d_filter(x, g, conv_options(node, image(w)))
end
function rules.conv2d_filter(g, node, y, dy, x)
  return op.conv2d(x, g, conv_options(node)), op.conv2d_data(dy, g, conv_options(node, image(x)))
end
function rules.window_sum(g, node, y, x)
  local dims = shape(x)
  local ones = core.full({dims[2], 1, node.kernel[1], node.kernel[2]}, 1)
  return op.conv2d_data(g, ones, {stride = node.stride, pad = node.pad, dilation = node.dilation,
                                  groups = dims[2], size = image(x)})
end

-- To the first of the largest elements of each window, as torch has it.
function rules.window_max(g, node, y, x)
  local k, dims, out = node.kernel, shape(x), shape(y)
  for i = 1, 2 do
    if node.stride[i] ~= k[i] or node.dilation[i] ~= 1 or node.pad[i] ~= 0 or node.pad[i + 2] ~= 0 then
      fail("grad: a max pool whose windows overlap, are padded or apart has no gradient yet")
    end
  end
  local n, c, p, q, size = dims[1], dims[2], out[3], out[4], k[1] * k[2]
  local used = {n, c, p * k[1], q * k[2]}
  local turn = {dims = {0, 1, 2, 4, 3, 5}} -- rows of windows, then rows in them, and back
  local cut = op.reshape(op.slice(x, {dims = {0, 0, 0, 0}, ends = used}), {dims = {n, c, p, k[1], q, k[2]}})
  local windows = op.reshape(op.permute(cut, turn), {dims = {n, c, p, q, size}})
  local chosen = op.eq(nn.index({1, 1, 1, 1, size}, 5), op.reduce_argmax(windows, {axes = 1 << 4})):to("f32")
  local made = op.reshape(op.mul(op.reshape(g, {dims = {n, c, p, q, 1}}), chosen), {dims = {n, c, p, q, k[1], k[2]}})
  made = op.reshape(op.permute(made, turn), {dims = used})
  return op.pad(made, {dims = {0, 0, 0, 0}, ends = {0, 0, dims[3] - used[3], dims[4] - used[4]}})
end

function rules.reshape(g, node, y, x) return op.reshape(g, {dims = shape(x)}) end
function rules.permute(g, node)
  local back = {}
  for i = 1, #shape(g) do back[node.dims[i] + 1] = i - 1 end
  return op.permute(g, {dims = back})
end
function rules.slice(g, node, y, x)
  local before, after = {}, {}
  for i, d in ipairs(shape(x)) do before[i], after[i] = node.dims[i], d - node.ends[i] end
  return op.pad(g, {dims = before, ends = after})
end
function rules.pad(g, node, y, x)
  local first, last = {}, {}
  for i, d in ipairs(shape(x)) do first[i], last[i] = node.dims[i], node.dims[i] + d end
  return op.slice(g, {dims = first, ends = last})
end
function rules.concat(g, node, y, ...)
  local parts, at = {}, 0
  for i, x in ipairs{...} do
    local size = shape(x)[node.axis + 1]
    parts[i] = nn.slice(g, node.axis + 1, at + 1, at + size)
    at = at + size
  end
  return table.unpack(parts)
end
-- Rows of x by ids: each row's gradients are added up.
function rules.gather(g, node, y, x, ids)
  local dims, axis, count = shape(x), node.axis + 1, 1
  local first, rest = {}, {}
  for i = 1, #shape(ids) do
    first[i] = axis + i - 1
    count = count * shape(ids)[i]
  end
  for i = 1, #shape(y) do if i < axis or i >= axis + #shape(ids) then rest[#rest + 1] = i end end
  local order, left, flat = {}, {count}, {dims[axis]}
  for _, i in ipairs(first) do order[#order + 1] = i end
  for _, i in ipairs(rest) do order[#order + 1], left[#left + 1] = i, shape(y)[i] end
  for i, d in ipairs(dims) do if i ~= axis then flat[#flat + 1] = d end end
  local rows = nn.reshape(nn.permute(g, order), left)
  local sums = nn.reshape(nn.scatter_add(nn.reshape(ids, {count}), rows, dims[axis]), flat)
  local back = {}
  for i = 1, #dims do back[i] = i < axis and i + 1 or i == axis and 1 or i end
  return nn.permute(sums, back)
end
-- The element of its own row that each id names.
function rules.take_along(g, node, y, x, ids)
  local wide, axis = shape(ids), node.axis + 1
  table.insert(wide, axis, 1) -- the elements of x, then the ids along the axis
  local places = {}
  for i = 1, #wide do places[i] = i == axis and shape(x)[axis] or 1 end
  local chosen = op.eq(op.reshape(ids, {dims = wide}), nn.index(places, axis)):to("f32")
  local sums = op.reduce_sum(op.mul(op.reshape(g, {dims = wide}), chosen), {axes = 1 << axis})
  return op.reshape(sums, {dims = shape(x)})
end

-- ---- the walk -----------------------------------------------------------------------------------

-- The gradients of a map's inputs, by its row.
local function of_map(g, node, y, inputs)
  if not node.grad then return nil end
  local given = table.pack(node.grad(g, y, table.unpack(inputs)))
  for i, x in ipairs(inputs) do
    if given[i] then given[i] = unbroadcast(expanded(given[i], y), x) end
  end
  return given
end

-- All that `loss` is made of and that depends on one of `wanted`, the last first; by id.
local function reached(loss, wanted)
  local depends, order, seen = {}, {}, {}
  for _, x in ipairs(wanted) do depends[core.id(x)] = true end
  local function visit(x) -- without recursion: models are deep
    local stack = {{x, 0}}
    while #stack > 0 do
      local top = stack[#stack]
      local id = core.id(top[1])
      local node = seen[id]
      if not node then
        node = core.node(top[1])
        node.tensor, seen[id] = top[1], node
      end
      top[2] = top[2] + 1
      local input = node.inputs[top[2]]
      if input then
        local known = seen[core.id(input)]
        if not known then stack[#stack + 1] = {input, 0} end
      else
        for _, i in ipairs(node.inputs) do depends[id] = depends[id] or depends[core.id(i)] end
        if depends[id] then order[#order + 1] = id end
        stack[#stack] = nil
      end
    end
  end
  visit(loss)
  table.sort(order, function(a, b) return a > b end)
  return order, seen
end

local function differentiable(x) return core.dtype(x):find("f") ~= nil end

-- grad(loss, wanted): the gradient of a loss of one element by each tensor of the list `wanted` (or by one
-- tensor): a list (or one) of the same shapes; zeros where the loss does not depend on it. As
-- torch.autograd.grad.
function nn.grad(loss, wanted)
  local one = core.is_tensor(wanted)
  local list = one and {wanted} or wanted
  if type(list) ~= "table" or #list == 0 then fail("grad: wants a tensor, or a list of them, after the loss") end
  for _, x in ipairs(list) do
    if not differentiable(tensor("grad", x)) then
      fail("grad: %s is %s; only floats have a gradient", tostring(x), core.dtype(x))
    end
  end
  local count = 1
  for _, d in ipairs(shape(tensor("grad", loss))) do count = count * d end
  if count ~= 1 or not differentiable(loss) then
    fail("grad: the loss has one element, as loss:mean() does, not %s", tostring(loss))
  end
  local order, nodes = reached(loss, list)
  local grads, result = {[core.id(loss)] = core.full(shape(loss), 1)}, {}
  local keep = {}
  for _, x in ipairs(list) do keep[core.id(x)] = true end
  for _, id in ipairs(order) do
    local g, node = grads[id], nodes[id]
    if g and #node.inputs > 0 then
      local given
      if node.class == "map" then
        given = of_map(g, node, node.tensor, node.inputs)
      elseif rules[node.op] then
        given = table.pack(rules[node.op](g, node, node.tensor, table.unpack(node.inputs)))
      end
      for i, x in ipairs(node.inputs) do
        local input = core.id(x)
        local needed = differentiable(x) and (keep[input] or (nodes[input] and #nodes[input].inputs > 0))
        if given and given[i] and needed then
          grads[input] = grads[input] and grads[input] + given[i] or given[i]
        elseif needed and not given and not node.stops then
          fail("grad: %s has no gradient; nn.stop_gradient leaves it out", node.op)
        end
      end
    end
  end
  for i, x in ipairs(list) do result[i] = grads[core.id(x)] or core.full(shape(x), 0) end
  return one and result[1] or result
end

-- stop_gradient(x): x, which nn.grad takes for a constant. As torch's detach.
function nn.stop_gradient(x) return op.stop_gradient(tensor("stop_gradient", x)) end

-- parameters(): all parameters made so far, a list in the order of the model.
function nn.parameters() return core.parameters() end
