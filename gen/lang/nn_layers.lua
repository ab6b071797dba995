-- nn_layers.lua: layers with parameters, of the module `nn` (nn.lua): convolutions, linear. Norms
-- are in nn_norms.lua, embeddings in nn_embeddings.lua. Parameters have PyTorch's names, shapes and
-- initial values.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, product = tools.fail, tools.define, tools.product

local function check_groups(what, o, channels)
  if channels % o.groups ~= 0 or o.out % o.groups ~= 0 then
    fail("%s: groups = %d does not divide %d input and %d output channels", what, o.groups,
         channels, o.out)
  end
end

-- PyTorch's bound of initial values: 1 / sqrt(fan-in).
local function bound_of(products) return products > 0 and 1 / math.sqrt(products) or 0 end

local function convolution(rank)
  local what = "conv" .. rank .. "d"
  return function(x, o)
    local channels = shape(x)[2]
    check_groups(what, o, channels)
    local taps = product(o.kernel)
    local dims = {o.out, channels // o.groups, table.unpack(o.kernel)}
    local w = nn.param("weight", dims, {"normal", 0, math.sqrt(2 / (o.out * taps))})
    local y = tools.convolve(what, rank, x, w, o)
    if not o.bias then return y end
    local bound = bound_of(channels // o.groups * taps)
    return y + tools.along(nn.param("bias", {o.out}, {"uniform", -bound, bound}), rank + 2, 2)
  end
end
-- Convolution of (N, C, L), (N, C, H, W) or (N, C, D, H, W) to `out` channels; each size becomes
-- (size + 2 pad - dilation (kernel - 1) - 1) // stride + 1. Parameters name.weight (out, C /
-- groups, kernel), Kaiming normal by fan-out (out kernel), name.bias (out).
define([[conv{1,2,3}d(x: image#, name: name, {out|out_channels: count, kernel|kernel_size: each#,
       stride: each# = 1, pad|padding: padding# = 0, dilation: each# = 1, groups: count = 1,
       bias: boolean = true, padding_mode: zeros/reflect/replicate/circular = zeros})]],
       "nn.Conv#d", convolution)

local function transposed(rank)
  local what = "conv_transpose" .. rank .. "d"
  return function(x, o)
    local channels = shape(x)[2]
    check_groups(what, o, channels)
    local k = o.out // o.groups
    local bound = bound_of(k * product(o.kernel))
    local init = {"uniform", -bound, bound}
    local w = nn.param("weight", {channels, k, table.unpack(o.kernel)}, init)
    local y = tools.convolve_transposed(what, rank, x, w, o)
    return o.bias and y + tools.along(nn.param("bias", {o.out}, init), rank + 2, 2) or y
  end
end
-- Transposed convolution: (N, C, ...) -> (N, out, ...), each size becomes (size - 1) stride - 2 pad
-- + dilation (kernel - 1) + output_pad + 1. Parameters name.weight (C, out / groups, kernel),
-- name.bias (out), uniform.
define([[conv_transpose{1,2,3}d(x: image#, name: name, {out|out_channels: count,
       kernel|kernel_size: each#, stride: each# = 1, pad|padding: border# = 0,
       output_pad|output_padding: border# = 0, dilation: each# = 1, groups: count = 1,
       bias: boolean = true})]], "nn.ConvTranspose#d", transposed)

-- x @ weight^T + bias over the last dimension.
-- Parameters name.weight (out, in), name.bias (out); PyTorch's uniform init.
define("linear(x: tensor, name: name, {out|out_features: count, bias: boolean = true})",
       "nn.Linear", function(x, o)
  local dims = shape(x)
  local inner = dims[#dims]
  if #dims < 1 then fail("linear: expected at least one dimension, got %s", tostring(x)) end
  local bound, out = bound_of(inner), o.out
  local w = nn.param("weight", {out, inner}, {"uniform", -bound, bound})
  local y = nn.matmul(x, op.permute(w, {dims = {1, 0}}))
  return o.bias and y + nn.param("bias", {out}, {"uniform", -bound, bound}) or y
end)
-- y[o] = x weight[o] x2^T + bias over the last dimensions of both.
-- Parameters name.weight (out, in1, in2), name.bias (out); PyTorch's uniform init.
define([[bilinear(x: tensor, name: name, {x2: tensor, out|out_features: count,
       bias: boolean = true})]], "nn.Bilinear", function(x, o)
  local a, b = shape(x), shape(o.x2)
  if #a < 1 or #b < 1 then
    fail("bilinear: expected at least one dimension, got %s and %s", tostring(x), tostring(o.x2))
  end
  local bound = bound_of(a[#a])
  local w = nn.param("weight", {o.out, a[#a], b[#b]}, {"uniform", -bound, bound})
  local bias = o.bias and nn.param("bias", {o.out}, {"uniform", -bound, bound}) or nil
  return nn.functional.bilinear(x, o.x2, w, bias)
end)

-- ---- models -----------------------------------------------------------------------------------

-- module(name, f): a function as a layer: f(x, ...) runs in the scope named by each call, y = m(x,
-- "NAME", ...), so that its parameters are NAME.*.
function nn.module(name, f)
  if type(name) ~= "string" or type(f) ~= "function" then
    fail("module: expected a name and a function")
  end
  return function(x, own, ...)
    if type(own) ~= "string" then
      fail("%s: expected a name after the tensor, as in %s(x, \"%s1\", ...)", name, name, name)
    end
    return nn.scope(own, f, x, ...)
  end
end
-- f, then g, and so on, in the scopes name.0, name.1, ...: functions of a tensor, or tables:
-- {"conv2d", {out = 8, kernel = 3}} for a layer of nn with options, {"relu"} for a function.
tools.define_here("sequential(x: tensor, name: string, layers: table)",
                  "nn.Sequential", function(x, name, list)
  return nn.scope(name, function()
    for i, f in ipairs(list) do
      if type(f) == "function" then x = nn.scope(tostring(i - 1), f, x)
      elseif type(f) == "table" and type(f[1]) == "string" then
        local layer = nn[f[1]]
        if tools.is_layer[f[1]] then x = layer(x, tostring(i - 1), f[2])
        else x = layer(x, table.unpack(f, 2)) end
      else fail("sequential: element %d: expected a function or {\"LAYER\", {...}}", i) end
    end
    return x
  end)
end)

-- ---- many classes -------------------------------------------------------------------------------

-- Adaptive softmax: the log-probability of each row's label among many classes, most of them rare
-- (Grave et al., "Efficient softmax approximation for GPUs", 2017), and the mean loss: two results.
-- The head holds the classes below cutoffs[1] and one entry per cluster; cluster i, classes
-- cutoffs[i] to cutoffs[i + 1] - 1, uses in / div_value^i features. Parameters name.head.weight
-- (and .bias with head_bias), name.tail.0.0.weight, name.tail.0.1.weight and so on.
define([[adaptive_log_softmax_with_loss(x: tensor, name: name, labels|target: tensor,
       {classes|n_classes: count, cutoffs: sizes, div_value: number = 4,
       head_bias: boolean = false})]], "nn.AdaptiveLogSoftmaxWithLoss", function(x, labels, o)
  local what, dims, cutoffs = "adaptive_log_softmax_with_loss", shape(x), {table.unpack(o.cutoffs)}
  if #dims ~= 2 or #shape(labels) ~= 1 or shape(labels)[1] ~= dims[1] then
    fail("%s: expected (N, C) and labels (N), got %s and %s", what, tostring(x), tostring(labels))
  end
  cutoffs[#cutoffs + 1] = o.classes
  for i, c in ipairs(cutoffs) do
    if c <= (cutoffs[i - 1] or 0) or #cutoffs < 2 then
      fail("%s: cutoffs = {%s}: expected increasing whole numbers, from 1 to below %d", what,
           table.concat(o.cutoffs, ", "), o.classes)
    end
  end
  local few, clusters = cutoffs[1], #cutoffs - 1
  local head = nn.log_softmax(nn.linear(x, "head", {out = few + clusters, bias = o.head_bias}), 2)
  local function chosen(rows, at) -- each row's element at its position, clamped
    at = op.min(op.max(at, 0), shape(rows)[2] - 1)
    return nn.squeeze(nn.take_along(rows, nn.unsqueeze(at, 2), 2), 2)
  end
  local y = chosen(head, labels)
  for i = 1, clusters do
    local low, features = cutoffs[i], math.floor(dims[2] / o.div_value ^ i)
    if features < 1 then fail("%s: div_value = %g leaves no features", what, o.div_value) end
    local tail = nn.linear(x, "tail." .. i - 1 .. ".0", {out = features, bias = false})
    tail = nn.linear(tail, "tail." .. i - 1 .. ".1", {out = cutoffs[i + 1] - low, bias = false})
    local own = chosen(nn.log_softmax(tail, 2), labels - low) + nn.select(head, 2, few + i)
    y = op.where(op.ge(labels, low), own, y)
  end
  return y, -nn.mean(y)
end)
