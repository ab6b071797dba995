-- nn_grad.lua: derivatives, of the module `nn` (nn.lua): reverse-mode differentiation of a model's
-- ops, by the `grad` of each map's row (ops.lua) and the rules below for other classes. The
-- gradients are ordinary ops: they are fused with the rest and can be differentiated again.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, tensor = tools.fail, tools.tensor

-- Lets a row's `grad` run on tensors by calling ops; comparisons give 1 or 0 as floats, as on
-- numbers.
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

local function is_row(x, y) return not same_shape(shape(x), shape(y)) end -- it broadcasts to y

-- g expanded to the shape of x, over the axes that were reduced.
local function expanded(g, x)
  local dims = shape(x)
  return same_shape(shape(g), dims) and g or op.mul(g, core.full(dims, 1))
end

-- The gradient of x from that of x broadcast: summed over the broadcast dimensions.
local function unbroadcast(g, x)
  local from, to, axes = shape(g), shape(x), 0
  for i, d in ipairs(from) do
    if d > 1 and (to[i - #from + #to] or 1) == 1 then axes = axes | 1 << (i - 1) end
  end
  if axes ~= 0 then g = op.reduce_sum(g, {axes = axes}) end
  return same_shape(shape(g), to) and g or op.reshape(g, {dims = to})
end
tools.unbroadcast = unbroadcast

local function turned(x) -- the last two dimensions transposed
  local dims, n = {}, #shape(x)
  for i = 1, n do dims[i] = i - 1 end
  dims[n - 1], dims[n] = n - 1, n - 2
  return op.permute(x, {dims = dims})
end

-- ---- rules, by op: (g, node, y, x...) -> the gradient of each input -----------------------------
-- g has the shape of y. Gradients of a map are then summed over broadcast dimensions.

local rules = {}

-- where(c, a, a), used by nn.expand: the whole gradient goes to a.
function rules.where(g, node, y, c, a, b)
  if core.id(a) == core.id(b) then return nil, g end
  return node.grad(g, y, c, a, b)
end
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
-- The product of the other elements: y / x, except at a zero. Up to two zeros of a row stay in it
-- as factors, because the derivative by them is the product of the others.
function rules.reduce_prod(g, node, y, x)
  local zero = op.eq(x, 0.0)
  local zeros = op.reduce_sum(zero:to("f32"), {axes = node.axes})
  local product = op.reduce_prod(op.where(zero, 1.0, x), {axes = node.axes})
  local null = op.reduce_sum(op.where(zero, x, 0.0), {axes = node.axes})
  local function of(count, factor) return op.where(op.eq(zeros, count), factor, 0.0) end
  local at_zero = of(1.0, 1.0) + of(2.0, null - x)
  local beside = (of(0.0, 1.0) + of(1.0, null)) / op.where(zero, 1.0, x)
  return g * (product * op.where(zero, at_zero, beside))
end
function rules.reduce_lse(g, node, y, x) return g * op.exp(x - y) end
-- reduce_expsum sums exp(x - max): max is treated as constant, as in softmax, where it cancels out.
function rules.reduce_expsum(g, node, y, x)
  return g * op.exp(x - op.stop_gradient(op.reduce_most(x, {axes = node.axes})))
end
-- Shared by all elements equal to it, as in torch.amax; NaN, which equals none, makes all NaN.
local function extreme(g, node, y, x)
  local chosen = op.eq(x, y)
  local share = g / op.reduce_sum(chosen:to("f32"), {axes = node.axes})
  return op.where(chosen, share, share * 0.0)
end
rules.reduce_max, rules.reduce_min = extreme, extreme
-- The sum of each element and all after it. Computed as total minus prefix sum it would lose its
-- digits where the prefix is large.
local function sum_behind(g, axis)
  return nn.flip(op.scan_sum(nn.flip(g, axis + 1), {axis = axis}), axis + 1)
end
function rules.scan_sum(g, node) return sum_behind(g, node.axis) end
-- Products up to the first 0 of a row contain x once: y / x. The first 0 is a factor of all
-- products from it on; they are 0 without it from the next zero on. Elements after it have gradient
-- 0.
function rules.scan_prod(g, node, y, x)
  local along = {axis = node.axis}
  local zero = op.eq(x, 0.0)
  local zeros = op.scan_sum(zero:to("i32"), along)
  local first = zero & op.eq(zeros, 1)
  local others = op.scan_prod(op.where(first, 1.0, x), along)
  local before = sum_behind(g * y, node.axis) / op.where(zero, 1.0, x)
  local at_zero = sum_behind(op.where(op.eq(zeros, 0), 0.0, g * others), node.axis)
  return op.where(first, at_zero, op.where(zero, 0.0, before))
end
-- y = scan_lse(x): exp(-y_j) times the sum of g_i exp(x_i), i up to j. Positive and negative g are
-- summed separately, by their logarithms, since exp(-y) may overflow.
local lse_behind
local function lse_before(g, x, y, axis)
  local function part(size) return op.exp(op.scan_lse(op.log(size) + x, {axis = axis}) - y) end
  local sums = part(op.max(g, 0.0)) - part(op.max(-g, 0.0))
  return nn.custom_gradient(sums, {g, x, y}, function(h)
    local behind = lse_behind(h, x, y, axis)
    return behind, g * behind, -h * sums
  end)
end
-- exp(x_i) times the sum of g_j exp(-y_j), j from i on: lse_before on reversed sequences.
function lse_behind(g, x, y, axis)
  local function back(v) return nn.flip(v, axis + 1) end
  return back(lse_before(back(g), -back(y), -back(x), axis))
end
function rules.scan_lse(g, node, y, x) return lse_behind(g, x, y, node.axis) end

local function as_matrix(x) -- all dimensions except the last as one
  local dims, rows = shape(x), 1
  for i = 1, #dims - 1 do rows = rows * dims[i] end
  return op.reshape(x, {dims = {rows, dims[#dims]}})
end

local function is_turned(x)
  local node, n = core.node(x), #shape(x)
  if node.op ~= "permute" then return false end
  for i = 1, n do
    local from = i == n and n - 2 or i == n - 1 and n - 1 or i - 1
    if node.dims[i] ~= from then return false end
  end
  return true
end

-- A matrix shared by a batch needs one product over all rows. The gradient of a transposed matrix
-- is computed for the untransposed one, then transposed: row by row as it is stored.
function rules.matmul(g, node, y, a, b)
  local of_a = unbroadcast(op.matmul(g, turned(b)), a)
  if #shape(b) > 2 and is_turned(b) then
    return of_a, unbroadcast(turned(op.matmul(turned(g), a)), b)
  end
  if #shape(b) > 2 or #shape(a) < 3 then return of_a, unbroadcast(op.matmul(turned(a), g), b) end
  return of_a, op.matmul(turned(as_matrix(a)), as_matrix(g))
end
local function conv_options(node, size)
  return {stride = node.stride, pad = node.pad, dilation = node.dilation, groups = node.groups,
          size = size}
end
local function image(x) local d = shape(x); return {d[3], d[4]} end
function rules.conv2d(g, node, y, x, w)
  return op.conv2d_data(g, w, conv_options(node, image(x))),
      op.conv2d_filter(g, x, conv_options(node, image(w)))
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

-- The `back`-th last window that may cover each position along dimension i of the image: its
-- number, clamped, the index of the position within the window, and whether the window covers it,
-- all along `axis`.
local function covering(node, i, size, count, back, axis)
  local place, dims = nil, {1, 1, 1, 1}
  dims[axis] = size
  place = nn.index(dims, axis) + node.pad[i]
  local window, step = op.floordiv(place, node.stride[i]) - back, node.dilation[i]
  local within = place - window * node.stride[i]
  local covers = op.ge(window, 0) & op.lt(window, count)
  covers = covers & op.lt(within, (node.kernel[i] - 1) * step + 1)
  if step > 1 then
    covers = covers & op.eq(op.mod(within, step), 0)
    within = op.floordiv(within, step)
  end
  return op.reshape(op.min(op.max(window, 0), count - 1), {dims = {size}}), within, covers
end

-- The gradient goes to the first of the largest elements of each window, as in torch; an element
-- that is the largest of several windows gets the sum.
function rules.window_max(g, node, y, x)
  local k, dims, out = node.kernel, shape(x), shape(y)
  local sum
  local best = tools.largest_of_windows(x, node)
  if k[1] * k[2] <= 256 then best = nn.to(best, "u8") end -- one byte each, if it is stored
  best = op.reshape(best, {dims = out})
  for a = 0, (k[1] - 1) * node.dilation[1] // node.stride[1] do
    local row, own_row, in_row = covering(node, 1, dims[3], out[3], a, 3)
    for b = 0, (k[2] - 1) * node.dilation[2] // node.stride[2] do
      local column, own_column, in_column = covering(node, 2, dims[4], out[4], b, 4)
      local function at(v) return op.gather(op.gather(v, row, {axis = 2}), column, {axis = 3}) end
      local chosen = op.eq(nn.to(at(best), "i32"), own_row * k[2] + own_column)
      local part = op.where((in_row & in_column) & chosen, at(g), 0.0)
      sum = sum and sum + part or part
    end
  end
  return sum
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
function rules.roll(g, node, y, x)
  local back = {}
  for i, d in ipairs(shape(x)) do back[i] = node.dims[i] > 0 and d - node.dims[i] or 0 end
  return op.roll(g, {dims = back})
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
-- Rows of x by ids: the gradients of equal ids are added.
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
-- Each row gets the gradient of the position that it is added to.
function rules.scatter_sum(g, node, y, ids)
  local of, count = shape(ids), node.count
  local inside = op.le(0, ids) & op.lt(ids, count)
  local places = op.where(inside, ids, 0)
  if #of == 2 then places = op.add(places, op.mul(nn.index({of[1], 1}, 1), count)) end
  local wide = #shape(y) > #of
  local flat = {of[2] and of[1] * count or count, wide and shape(y)[#of + 1] or nil}
  if wide then inside = nn.unsqueeze(inside, -1) end
  return nil, op.where(inside, op.gather(op.reshape(g, {dims = flat}), places, {axis = 0}), 0.0)
end
rules.scatter_sorted = rules.scatter_sum
-- The gradient of take_along(x, ids, axis) by x: g goes to the element of its row that each id
-- names.
function tools.taken_gradient(g, x, ids, axis)
  local wide = shape(ids)
  if tools.many_pairs(wide[axis], shape(x)[axis]) then
    local places, of_places = nn.movedim(ids, axis, -1), nn.movedim(g, axis, -1)
    local sums = tools.scatter_rows(places, of_places, shape(x)[axis])
    return nn.movedim(sums, -1, axis)
  end
  if wide[axis] == 1 then -- ids and g broadcast along the elements of x
    local at = {}
    for i = 1, #wide do at[i] = i == axis and shape(x)[axis] or 1 end
    return op.mul(g, op.eq(ids, nn.index(at, axis)):to("f32"))
  end
  table.insert(wide, axis, 1) -- the elements of x, then the ids along the axis
  local places = {}
  for i = 1, #wide do places[i] = i == axis and shape(x)[axis] or 1 end
  local chosen = op.eq(op.reshape(ids, {dims = wide}), nn.index(places, axis)):to("f32")
  local sums = op.reduce_sum(op.mul(op.reshape(g, {dims = wide}), chosen), {axes = 1 << axis})
  return op.reshape(sums, {dims = shape(x)})
end
function rules.take_along(g, node, y, x, ids)
  return tools.taken_gradient(g, x, ids, node.axis + 1)
end

-- ---- the walk -----------------------------------------------------------------------------------

-- The gradients of a map's inputs, by its row. Contributions of an input used several times are
-- added before the broadcast reduction, so that there is one reduction.
local function of_map(g, node, y, inputs)
  local rule = rules[node.op]
  if not rule and not node.grad then return nil end
  local given = rule and table.pack(rule(g, node, y, table.unpack(inputs)))
      or table.pack(node.grad(g, y, table.unpack(inputs)))
  local first = {}
  for i, x in ipairs(inputs) do
    local id, of = core.id(x), given[i] and expanded(given[i], y)
    local before = is_row(x, y) and first[id]
    if of and before then
      given[before], given[i] = given[before] + of, nil
    else
      given[i], first[id] = of, of and i
    end
  end
  for i, x in ipairs(inputs) do given[i] = given[i] and unbroadcast(given[i], x) end
  return given
end

-- The gradient of the input of a model-defined reduction, by its row.
local function of_reduction(g, node, y, x)
  local given = node.grad(g, y, x)
  return given and unbroadcast(expanded(given, x), x)
end

local own_rules = {} -- by nn.custom_gradient, by id

local function of_rule(g, node)
  local given = table.pack(node.rule(g))
  for i, x in ipairs(node.inputs) do
    local g = given[i]
    if g and not core.is_tensor(g) then
      core.fail(string.format("custom_gradient: the rule returns %s for input %d: expected a " ..
                              "tensor for each input, or nil, as in return a, b", tools.said(g), i),
                node.rule)
    end
    if g and not same_shape(shape(g), shape(x)) then
      core.fail(string.format("custom_gradient: the gradient of input %d is %s, the input %s", i,
                              tostring(g), tostring(x)), node.rule)
    end
  end
  return given
end

local function of_node(g, node)
  if node.rule then return of_rule(g, node) end
  if node.class == "map" then return of_map(g, node, node.tensor, node.inputs) end
  local rule = rules[node.op] or node.grad and of_reduction
  return rule and table.pack(rule(g, node, node.tensor, table.unpack(node.inputs)))
end

-- The nodes that `loss` depends on and that depend on one of `wanted`, last first; by id.
local function reached(loss, wanted)
  local depends, order, seen = {}, {}, {}
  for _, x in ipairs(wanted) do depends[core.id(x)] = true end
  local function visit(x) -- iterative: models are deep
    local stack = {{x, 0}}
    while #stack > 0 do
      local top = stack[#stack]
      local id = core.id(top[1])
      local node = seen[id]
      if not node then
        node = core.node(top[1])
        node.tensor, seen[id] = top[1], node
        local own = own_rules[id]
        if own then node.inputs, node.rule = own.inputs, own.rule end
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

-- The gradients of the loss for a list of tensors, zeros where it does not depend on one; and, for
-- each, whether it does.
local function gradients(loss, list)
  if type(list) ~= "table" or #list == 0 then
    fail("grad: expected a tensor, or a list of them, after the loss")
  end
  for _, x in ipairs(list) do
    if not differentiable(tensor("grad", x)) then
      fail("grad: %s is %s; only floats have a gradient", tostring(x), core.dtype(x))
    end
  end
  local count = 1
  for _, d in ipairs(shape(tensor("grad", loss))) do count = count * d end
  if count ~= 1 or not differentiable(loss) then
    fail("grad: the loss must have one element (use loss:mean()), got %s", tostring(loss))
  end
  local order, nodes = reached(loss, list)
  local grads, result = {[core.id(loss)] = core.full(shape(loss), 1)}, {}
  local keep = {}
  for _, x in ipairs(list) do keep[core.id(x)] = true end
  local cancels = tools.cancels(nodes)
  for _, id in ipairs(order) do
    local g, node = grads[id], nodes[id]
    if g and #node.inputs > 0 then
      local given = tools.placed(core.name(node.tensor) .. "_grad", of_node, g, node)
      for i, x in ipairs(node.inputs) do
        local input = core.id(x)
        local needed = differentiable(x)
            and (keep[input] or (nodes[input] and #nodes[input].inputs > 0))
        local shifts = (node.op == "sub" and i == 2) or node.op == "add"
        if shifts and needed and is_row(x, node.tensor) and cancels(node.tensor, x) then
          given[i] = nil
        end
        if given and given[i] and needed then
          grads[input] = grads[input] and grads[input] + given[i] or given[i]
        elseif needed and not given and not node.stops then
          fail("grad: %s has no gradient; nn.stop_gradient excludes it", node.op)
        end
      end
    end
  end
  local depends = {}
  for i, x in ipairs(list) do
    local g = grads[core.id(x)]
    depends[i] = g ~= nil
    result[i] = g or core.full(shape(x), 0)
  end
  return result, depends
end
tools.gradients = gradients

-- grad(loss, wanted): the gradients of a one-element loss for the tensors of the list `wanted` (or
-- for one tensor): a list (or one tensor) of the same shapes, zeros where the loss does not depend
-- on it. As torch.autograd.grad.
function nn.grad(loss, wanted)
  if core.is_tensor(wanted) then return gradients(loss, {wanted})[1] end
  return (gradients(loss, wanted))
end

-- custom_gradient(y, inputs, rule): y, with a custom gradient for the tensors of the list `inputs`
-- from which it is computed: nn.grad calls rule(g), where g has the shape of y; it returns one
-- gradient per input, of its shape, or nil. Its ops can be differentiated like any others. As
-- torch.autograd.Function.
function nn.custom_gradient(y, inputs, rule)
  if type(inputs) ~= "table" or type(rule) ~= "function" then
    fail("custom_gradient: expected a tensor, a list of tensors and a function, got %s and %s",
         tools.said(inputs), tools.said(rule))
  end
  own_rules[core.id(tensor("custom_gradient", y))] = {inputs = inputs, rule = rule}
  return y
end

-- x, treated as a constant by nn.grad.
tools.define_here("stop_gradient|detach(x: tensor)", "Tensor.detach", function(x)
  return op.stop_gradient(x)
end)

-- parameters(patterns): all trained parameters created so far, a list in the order of the model,
-- without nn.buffer's. patterns: only those with these names, or of these layers: "d", "*.bias", or
-- a list of such.
function nn.parameters(patterns)
  local list = {}
  for _, p in ipairs(core.parameters()) do
    if not tools.buffers[core.id(p)] then list[#list + 1] = p end
  end
  return patterns == nil and list or tools.matching("parameters", patterns, list)
end
