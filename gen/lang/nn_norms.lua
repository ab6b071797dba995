-- nn_norms.lua: normalisation, of the module `nn` (nn.lua): layers with parameters, and
-- nn.functional's.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, define_functional = tools.fail, tools.define, tools.define_functional
local floats = tools.floats

-- Running statistics are updated in the forward pass, also in steps that loss scaling skips, as in
-- PyTorch; but non-finite values, for example after an f16 overflow, are not stored: such a step
-- changes no persistent value.
local function keep_statistic(state, now)
  local finite = tools.training.scaled and op.le(op.abs(now), 3e38)
  core.update(state, finite and op.where(finite, now, state) or now)
end

-- The weight of this batch in a mean over all batches so far; `mean` is its mean.
local function share_of_batch(mean)
  local count = nn.state("num_batches_tracked", {}, {dtype = "i32"})
  local finite = tools.training.scaled and nn.all(op.le(op.abs(mean), 3e38))
  core.update(count, finite and op.where(finite, count + 1, count) or count + 1)
  return 1.0 / (count + 1):to("f32")
end

local function batch_norm(rank)
  local what = "batch_norm" .. rank .. "d"
  local layout = (rank == 1 and "(N, C) or " or "") .. tools.layouts[rank]
  return function(x, o)
    local dims = shape(floats(what, x))
    local c, n = dims[2], (dims[1] or 1) * tools.product(dims, 3)
    if #dims ~= rank + 2 and not (rank == 1 and #dims == 2) then
      fail("%s: expected %s, got %s", what, layout, tostring(x))
    end
    local over = {axes = (1 << #dims) - 1 - 2} -- all axes except the channels
    local wide = function(v) return tools.along(v, #dims, 2) end
    local function narrow(v) return op.reshape(v, {dims = {c}}) end
    local weight = o.affine and nn.param("weight", {c}, {"constant", 1})
    local bias = o.affine and nn.param("bias", {c}, {"constant", 0})
    local tracked = o.track_running_stats
    local running_mean = tracked and nn.buffer("running_mean", {c}, 0)
    local running_var = tracked and nn.buffer("running_var", {c}, 1)
    local old_mean, old_var = tracked and wide(running_mean), tracked and wide(running_var)
    if tracked and not (o.training or tools.training.active) then
      local scale = op.rsqrt(old_var + o.eps)
      if not o.affine then return (x - old_mean) * scale end
      return (x - old_mean) * (scale * wide(weight)) + wide(bias)
    end
    if n < 2 then
      fail("%s: training: expected more than one value per channel, got %s", what, tostring(x))
    end
    local mean, var = op.reduce_mean(x, over), op.reduce_var(x, over)
    if tracked then
      local momentum = o.momentum or share_of_batch(mean)
      local function moved(state, old, now)
        keep_statistic(state, narrow(old + (now - old) * momentum))
      end
      moved(running_mean, old_mean, mean)
      moved(running_var, old_var, var * (n / (n - 1)))
    end
    local inverse = op.rsqrt(var + o.eps)
    local scale = o.affine and inverse * wide(weight) or inverse
    local y = (x - mean) * scale
    if o.affine then y = y + wide(bias) end
    return nn.custom_gradient(y, o.affine and {x, weight, bias} or {x}, function(g)
      local of_g, of_both = op.reduce_sum(g, over), op.reduce_sum(g * (x - mean), over)
      local slope = of_both * inverse * inverse * (1 / n)
      return (g - of_g * (1 / n) - (x - mean) * slope) * scale, narrow(of_both * inverse),
          narrow(of_g)
    end)
  end
end
-- (x - mean) / sqrt(variance + eps) * weight + bias for each channel of (N, C, ...), or of (N, C)
-- with batch_norm1d, with the running statistics; in the entry train, or with training = true, with
-- the batch's, which update the running ones by `momentum` (the variance over n - 1; false: they
-- are means over all batches so far, as PyTorch's momentum = None). Parameters name.weight, bias
-- (C): 1, 0; buffers name.running_mean, running_var (C): 0, 1.
define([[batch_norm{1,2,3}d(x: tensor, name: name, {eps: number = 1e-5, momentum: share = 0.1,
       affine: boolean = true, track_running_stats: boolean = true,
       training: boolean = false})]], "nn.BatchNorm#d", batch_norm)
-- A running statistic after a step: `old` moved toward `now` by momentum.
local function moved(old, now, momentum) return old and old + (now - old) * momentum end

-- Batch norm with the statistics given as tensors (C); with training = true with the batch's, and
-- as two further results the updated running_mean and running_var, if given: nn.update stores them.
define_functional([[batch_norm(x: tensor, running_mean: tensor = nil, running_var: tensor = nil,
                  weight: tensor = nil, bias: tensor = nil, training: boolean = false,
                  momentum: chance = 0.1, eps: number = 1e-5)]],
                  "F.batch_norm", function(x, mean, var, weight, bias, training, momentum, eps)
  local dims = shape(floats("batch_norm", x))
  if #dims < 2 then fail("batch_norm: expected (N, C, ...), got %s", tostring(x)) end
  tools.want_sizes("batch_norm", {dims[2]}, {running_mean = mean, running_var = var,
                                             weight = weight, bias = bias})
  local wide = function(v) return tools.along(v, #dims, 2) end
  local n = dims[1] * tools.product(dims, 3)
  local now_mean, now_var
  if not training then
    if not mean or not var then
      fail("batch_norm: expected running_mean and running_var, or training = true")
    end
    now_mean, now_var = wide(mean), wide(var)
  else
    if n < 2 then
      fail("batch_norm: training: expected more than one value per channel, got %s", tostring(x))
    end
    local over = {axes = (1 << #dims) - 1 - 2}
    now_mean, now_var = op.reduce_mean(x, over), op.reduce_var(x, over)
  end
  local scale = op.rsqrt(now_var + eps)
  local y = (x - now_mean) * (weight and scale * wide(weight) or scale)
  if bias then y = y + wide(bias) end
  if not training then return y end
  local function flat(v) return op.reshape(v, {dims = {dims[2]}}) end
  return y, moved(mean, flat(now_mean), momentum),
      moved(var, flat(now_var) * (n / (n - 1)), momentum)
end)

-- ---- per example --------------------------------------------------------------------------------

-- Normalises to mean 0 and deviation 1 over axes (a bit mask) with `n` elements.
local function standardised(x, bits, n, eps)
  if tools.is_read_again(x, bits) then -- two sweeps, not three
    return (x - op.reduce_mean(x, {axes = bits})) * op.rsqrt(op.reduce_var(x, {axes = bits}) + eps)
  end
  local centred = x - op.reduce_sum(x, {axes = bits}) * (1 / n)
  return centred * op.rsqrt(op.reduce_sum(centred * centred, {axes = bits}) * (1 / n) + eps)
end

-- The last dimensions of x: those of `sizes`, or one. Returns their sizes, bit mask and number of
-- elements.
local function last_dims(what, x, sizes)
  local dims = shape(floats(what, x))
  if type(sizes) == "number" then sizes = {sizes} end
  if sizes ~= nil and type(sizes) ~= "table" then
    fail("%s: shape = %s: expected sizes", what, tools.said(sizes))
  end
  local k = sizes and #sizes or 1
  local own = table.move(dims, #dims - k + 1, #dims, 1, {})
  if sizes and (k > #dims or table.concat(own, ",") ~= table.concat(sizes, ",")) then
    fail("%s: shape = {%s} is not the end of %s", what, table.concat(sizes, ", "), tostring(x))
  end
  if #dims < 1 then fail("%s: expected at least one dimension, got %s", what, tostring(x)) end
  return own, ((1 << k) - 1) << (#dims - k), tools.product(own)
end
-- Normalises to mean 0 and deviation 1 over the last dimension, or over the last ones, of these
-- sizes. Parameters name.weight, name.bias, of their shape: 1, 0.
define([[layer_norm(x: tensor, name: name, {shape|normalized_shape: any = nil,
       eps: number = 1e-5, affine|elementwise_affine: boolean = true, bias: boolean = true})]],
       "nn.LayerNorm", function(x, o)
  local own, bits, n = last_dims("layer_norm", x, o.shape)
  local y = standardised(x, bits, n, o.eps)
  if not o.affine then return y end
  y = y * nn.param("weight", own, {"constant", 1})
  return o.bias and y + nn.param("bias", own, {"constant", 0}) or y
end)
define_functional([[layer_norm(x: tensor, shape|normalized_shape: any = nil,
                  weight: tensor = nil, bias: tensor = nil, eps: number = 1e-5)]],
                  "F.layer_norm", function(x, sizes, weight, bias, eps)
  local own, bits, n = last_dims("layer_norm", x, sizes)
  tools.want_sizes("layer_norm", own, {weight = weight, bias = bias})
  local y = standardised(x, bits, n, eps)
  if weight then y = y * weight end
  return bias and y + bias or y
end)
-- Divides by the root mean square over the last dimension (or the last ones, of these sizes).
-- Parameter name.weight, of their shape. eps is by default fp32's.
define([[rms_norm(x: tensor, name: name, {shape|normalized_shape: any = nil,
       eps: number = 1.1920929e-7, affine|elementwise_affine: boolean = true})]],
       "nn.RMSNorm", function(x, o)
  local own, bits, n = last_dims("rms_norm", x, o.shape)
  local y = x * op.rsqrt(op.reduce_sum(x * x, {axes = bits}) * (1 / n) + o.eps)
  return o.affine and y * nn.param("weight", own, {"constant", 1}) or y
end)
define_functional([[rms_norm(x: tensor, shape|normalized_shape: any = nil, weight: tensor = nil,
                  eps: number = 1.1920929e-7)]], "F.rms_norm", function(x, sizes, weight, eps)
  local own, bits, n = last_dims("rms_norm", x, sizes)
  tools.want_sizes("rms_norm", own, {weight = weight})
  local y = x * op.rsqrt(op.reduce_sum(x * x, {axes = bits}) * (1 / n) + eps)
  return weight and y * weight or y
end)

-- Group norm of (N, C, ...): over the channels of each of `groups` groups and all dimensions after
-- them. weight and bias, per channel, or nil, are applied before the groups are reshaped back, so
-- that all is one kernel.
local function grouped(what, x, groups, eps, weight, bias)
  local dims = shape(floats(what, x))
  if #dims < 2 then fail("%s: expected (N, C, ...), got %s", what, tostring(x)) end
  if dims[2] < 1 or dims[2] % groups ~= 0 then
    fail("%s: groups = %d does not divide the channels of %s", what, groups, tostring(x))
  end
  tools.want_sizes("norm", {dims[2]}, {weight = weight, bias = bias})
  local of_group, parts, axes = dims[2] // groups, {dims[1], groups}, 0
  if of_group > 1 then parts[3] = of_group end
  if #dims < 6 then table.move(dims, 3, #dims, #parts + 1, parts) -- in their order
  else parts[#parts + 1] = tools.product(dims, 3) end
  for d = 3, #parts do axes = axes | 1 << (d - 1) end
  local count = of_group * tools.product(dims, 3)
  local y = standardised(op.reshape(x, {dims = parts}), axes, count, eps)
  local function of_channels(v)
    local wide = {1, groups, table.unpack(of_group > 1 and {of_group} or {})}
    for d = #wide + 1, #parts do wide[d] = 1 end
    return op.reshape(v, {dims = wide})
  end
  if weight then y = y * of_channels(weight) end
  if bias then y = y + of_channels(bias) end
  return op.reshape(y, {dims = dims})
end
local function affine(x, on) -- weight and bias of a layer with affine parameters, else nothing
  if not on then return end
  local c = shape(x)[2]
  return nn.param("weight", {c}, {"constant", 1}), nn.param("bias", {c}, {"constant", 0})
end
-- Normalises to mean 0 and deviation 1 over each of `groups` groups of channels and all dimensions
-- after them. Parameters name.weight, name.bias (C): 1, 0.
define([[group_norm(x: tensor, name: name, {groups|num_groups: count, eps: number = 1e-5,
       affine: boolean = true})]], "nn.GroupNorm", function(x, o)
  return grouped("group_norm", x, o.groups, o.eps, affine(x, o.affine))
end)
define_functional([[group_norm(x: tensor, groups|num_groups: count, weight: tensor = nil,
                  bias: tensor = nil, eps: number = 1e-5)]],
                  "F.group_norm", function(x, groups, weight, bias, eps)
  return grouped("group_norm", x, groups, eps, weight, bias)
end)
-- Instance norm; also returns the running statistics, if given, after it: moved toward the mean
-- over examples, with variances over n - 1.
local function of_instances(what, x, mean, var, momentum, eps, weight, bias)
  local dims = shape(x)
  local y = grouped(what, x, dims[2] or 1, eps, weight, bias)
  if not mean and not var then return y end
  tools.want_sizes(what, {dims[2]}, {running_mean = mean, running_var = var})
  local n = tools.product(dims, 3)
  if n < 2 then fail("%s: expected more than one value per channel, got %s", what, tostring(x)) end
  local rows, over = op.reshape(x, {dims = {dims[1], dims[2], n}}), {axes = 4}
  local function of_all(v) return nn.mean(op.reshape(v, {dims = {dims[1], dims[2]}}), 1) end
  return y, moved(mean, of_all(op.reduce_mean(rows, over)), momentum),
      moved(var, of_all(op.reduce_var(rows, over)) * (n / (n - 1)), momentum)
end
-- Normalises each channel of each example to mean 0 and deviation 1. With affine parameters
-- name.weight, bias (C). With track_running_stats buffers name.running_mean, running_var (C) are
-- used instead, except in the entry train or with training = true, where they are updated by
-- `momentum`.
define([[instance_norm{1,2,3}d(x: image#, name: name, {eps: number = 1e-5,
       momentum: chance = 0.1, affine: boolean = false, track_running_stats: boolean = false,
       training: boolean = false})]], "nn.InstanceNorm#d", function(rank)
  local what = "instance_norm" .. rank .. "d"
  return function(x, o)
    local C = shape(x)[2]
    if not o.track_running_stats then
      return grouped(what, x, C, o.eps, affine(x, o.affine))
    end
    local mean, var = nn.buffer("running_mean", {C}, 0), nn.buffer("running_var", {C}, 1)
    local weight, bias = affine(x, o.affine)
    if not o.training and not tools.training.active then
      return nn.functional.batch_norm(x, mean, var, weight, bias, {eps = o.eps})
    end
    local y, new_mean, new_var =
        of_instances(what, x, mean, var, o.momentum, o.eps, weight, bias)
    keep_statistic(mean, new_mean)
    keep_statistic(var, new_var)
    return y
  end
end)
-- Instance norm with the statistics given, unless use_input_stats; with it they may be given, too:
-- two further results are the updated ones.
define_functional([[instance_norm(x: tensor, running_mean: tensor = nil, running_var: tensor = nil,
                  weight: tensor = nil, bias: tensor = nil, use_input_stats: boolean = true,
                  momentum: chance = 0.1, eps: number = 1e-5)]],
                  "F.instance_norm", function(x, mean, var, weight, bias, own, momentum, eps)
  if not own then return nn.functional.batch_norm(x, mean, var, weight, bias, {eps = eps}) end
  return of_instances("instance_norm", x, mean, var, momentum, eps, weight, bias)
end)
-- x / (k + alpha * mean of x^2 over the `size` neighbouring channels)^beta.
define([[local_response_norm(x: tensor, size: count, alpha: number = 1e-4,
       beta: number = 0.75, k: number = 1)]],
       "F.local_response_norm, nn.LocalResponseNorm, nn.CrossMapLRN2d",
           function(x, size, alpha, beta, k)
  local dims = shape(x)
  if #dims < 3 then fail("local_response_norm: expected (N, C, ...), got %s", tostring(x)) end
  local inner = tools.product(dims, 3)
  tools.floats("local_response_norm", x)
  local rows = op.reshape(x * x, {dims = {dims[1], 1, dims[2], inner}})
  rows = nn.pad(rows, {0, 0, size // 2, (size - 1) // 2})
  local sum = op.window_sum(rows, {kernel = {size, 1}, stride = {1, 1}, pad = {0, 0, 0, 0},
                                   dilation = {1, 1}})
  return x / op.pow(op.reshape(sum, {dims = dims}) * (alpha / size) + k, beta)
end)
