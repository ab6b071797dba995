-- nn_functional.lua: nn.functional, of the module `nn` (nn.lua): layers as functions of tensors,
-- with weights computed or given, under PyTorch's names; and all other functions of nn.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail = tools.fail

nn.functional = setmetatable({}, {__index = nn})
local function define_functional(signature, torch, f)
  return tools.declare(nn.functional, signature, torch, f)
end
tools.define_functional = define_functional

-- ---- convolutions -----------------------------------------------------------------------------

-- Padding before each dimension, then after each; "same" keeps the size, as PyTorch's.
local function read_pad(what, o, rank, kernel)
  if o.pad ~= "same" then return table.move(o.pad, 1, 2 * rank, 1, {}) end
  local pad = {}
  for i = 1, rank do
    if o.stride[i] ~= 1 then fail("%s: pad = \"same\": expected a stride of 1", what) end
    local all = o.dilation[i] * (kernel[i] - 1)
    pad[i], pad[rank + i] = all // 2, all - all // 2
  end
  return pad
end

-- pad in F.pad's order: from the last dimension on.
local function border(pad, rank)
  local list = {}
  for i = rank, 1, -1 do list[#list + 1], list[#list + 2] = pad[i], pad[rank + i] end
  return list
end

-- Depth becomes channels: each of the D' output positions holds the kernel's depth slices, (N * D',
-- C * KD, H, W).
local function depth_as_channels(x, kd, stride, dilation, before, behind)
  local N, C, D, H, W = table.unpack(shape(x))
  x = nn.pad(x, {0, 0, 0, 0, before, behind})
  local out = (D + before + behind - dilation * (kd - 1) - 1) // stride + 1
  if out < 1 then
    fail("the window (%d deep) is larger than the padded input %s", kd, tostring(x))
  end
  local slices = {}
  for i = 1, kd do
    local first = (i - 1) * dilation + 1
    slices[i] = nn.slice(x, 3, first, first + (out - 1) * stride, stride)
  end
  local wide = kd == 1 and nn.unsqueeze(slices[1], 3) or nn.stack(slices, 3) -- (N, C, KD, D', H, W)
  return op.reshape(op.permute(wide, {dims = {0, 3, 1, 2, 4, 5}}),
                    {dims = {N * out, C * kd, H, W}}), out
end

local function want_weight(what, rank, w)
  local of = shape(w)
  if #of == rank + 2 then return of end
  fail("%s: weight: expected %d dimensions, got %s", what, rank + 2, tostring(w))
end

-- x (N, C, ...), w (O, C / groups, kernel ...); o: stride, pad, dilation, groups, padding_mode.
function tools.convolve(what, rank, x, w, o)
  local of = want_weight(what, rank, w)
  local kernel, stride, dilation = {table.unpack(of, 3)}, o.stride, o.dilation
  local pad = read_pad(what, o, rank, kernel)
  if (o.padding_mode or "zeros") ~= "zeros" then
    x = nn.pad(x, border(pad, rank), o.padding_mode)
    for i = 1, 2 * rank do pad[i] = 0 end
  end
  local dims = shape(x)
  if rank == 2 then
    return op.conv2d(x, w, {stride = stride, pad = pad, dilation = dilation, groups = o.groups})
  end
  if rank == 1 then
    local y = op.conv2d(nn.unsqueeze(x, 3), nn.unsqueeze(w, 3), {
      stride = {1, stride[1]}, pad = {0, pad[1], 0, pad[2]}, dilation = {1, dilation[1]},
      groups = o.groups})
    return op.reshape(y, {dims = {dims[1], of[1], shape(y)[4]}})
  end
  local flat, out = depth_as_channels(x, kernel[1], stride[1], dilation[1], pad[1], pad[4])
  local y = op.conv2d(flat, op.reshape(w, {dims = {of[1], of[2] * of[3], of[4], of[5]}}), {
    stride = {stride[2], stride[3]}, pad = {pad[2], pad[3], pad[5], pad[6]},
    dilation = {dilation[2], dilation[3]}, groups = o.groups})
  local h, v = shape(y)[3], shape(y)[4]
  y = op.reshape(y, {dims = {dims[1], out, of[1], h, v}})
  return op.permute(y, {dims = {0, 2, 1, 3, 4}})
end

-- Inserts stride - 1 zeros between the elements of a dimension.
local function spread(x, axis, stride)
  if stride == 1 then return x end
  local dims = shape(x)
  local wide = nn.unsqueeze(x, axis + 1)
  local behind, none = {}, {}
  for i = 1, #dims + 1 do behind[i], none[i] = i == axis + 1 and stride - 1 or 0, 0 end
  local y = op.reshape(op.pad(wide, {dims = none, ends = behind}),
                       {dims = tools.with(dims, axis, dims[axis] * stride)})
  return nn.slice(y, axis, 1, (dims[axis] - 1) * stride + 1)
end

-- The sizes of a transposed convolution's result.
local function transposed_sizes(what, rank, x, kernel, o)
  local size = {}
  for i = 1, rank do
    local stride, dilation, extra = o.stride[i], o.dilation[i], o.output_pad[i]
    if extra >= math.max(stride, dilation) then
      fail("%s: output_pad must be less than stride or dilation, not %d", what, extra)
    end
    local span = dilation * (kernel[i] - 1) + 1
    size[i] = (shape(x)[2 + i] - 1) * stride + span - 2 * o.pad[i] + extra
    if size[i] < 1 then fail("%s: pad = %d leaves nothing of %s", what, o.pad[i], tostring(x)) end
  end
  return size
end

-- x (N, C, ...), w (C, O / groups, kernel ...): transposed convolution; o: stride, pad, output_pad,
-- dilation, groups.
function tools.convolve_transposed(what, rank, x, w, o)
  local of = want_weight(what, rank, w)
  local size = transposed_sizes(what, rank, x, {table.unpack(of, 3)}, o)
  local function two(v, weight, i, j) -- dimensions i and j; i = 0: a height of 1
    local function both(values, other) return {i == 0 and other or values[i], values[j]} end
    local stride, pad, wide, extra = both(o.stride, 1), both(o.pad, 0), both(size, 1),
                                     both(o.output_pad, 0)
    local behind, zeros = {}, {} -- an output_pad beyond the stride: less padding, then zeros
    for d = 1, 2 do
      local beyond = math.max(extra[d] - stride[d] + 1, 0)
      local less = math.min(beyond, pad[d])
      behind[d], zeros[d] = pad[d] - less, beyond - less
    end
    local y = op.conv2d_data(v, weight, {
      stride = stride, pad = {pad[1], pad[2], behind[1], behind[2]}, groups = o.groups,
      dilation = both(o.dilation, 1), size = {wide[1] - zeros[1], wide[2] - zeros[2]}})
    return zeros[1] + zeros[2] > 0 and nn.pad(y, {0, zeros[2], 0, zeros[1]}) or y
  end
  if rank == 2 then return two(x, w, 1, 2) end
  local N, C, D, H, W = table.unpack(shape(x))
  local O = of[2] * o.groups
  if rank == 1 then
    local y = two(nn.unsqueeze(x, 3), nn.unsqueeze(w, 3), 0, 1)
    return op.reshape(y, {dims = {N, O, size[1]}})
  end
  -- Convolves each image with all slices of the kernel, then adds the results along depth (col2im).
  local kd = of[3]
  local flat = op.reshape(op.permute(x, {dims = {0, 2, 1, 3, 4}}), {dims = {N * D, C, H, W}})
  -- the slices of a group's channels one after the other, so that each is read as a whole
  local slices = op.reshape(op.permute(w, {dims = {0, 2, 1, 3, 4}}),
                            {dims = {of[1], kd * of[2], of[4], of[5]}})
  local y = op.reshape(two(flat, slices, 2, 3),
                       {dims = {N, D, o.groups, kd, of[2], size[2], size[3]}})
  local sum
  for i = 1, kd do
    local part = op.reshape(nn.select(y, 4, i), {dims = {N, D, O, size[2], size[3]}})
    part = op.permute(part, {dims = {0, 2, 1, 3, 4}}) -- (N, O, D, H', W')
    part = spread(part, 3, o.stride[1])
    local before = (i - 1) * o.dilation[1] - o.pad[1]
    part = nn.pad(part, {0, 0, 0, 0, before, size[1] - before - shape(part)[3]})
    sum = sum and sum + part or part
  end
  return sum
end

local function with_bias(y, bias)
  tools.want_sizes("conv", {shape(y)[2]}, {bias = bias})
  return bias and y + tools.along(bias, #shape(y), 2) or y
end

-- Convolution of x (N, C, L), (N, C, H, W) or (N, C, D, H, W) with the filters weight (O, C /
-- groups, kernel).
define_functional([[conv{1,2,3}d(x: image#, weight: tensor, bias: tensor = nil, stride: each# = 1,
                  pad|padding: padding# = 0, dilation: each# = 1, groups: count = 1)]], "F.conv#d",
                  function(rank)
  return function(x, w, bias, stride, pad, dilation, groups)
    local o = {stride = stride, pad = pad, dilation = dilation, groups = groups}
    return with_bias(tools.convolve("conv" .. rank .. "d", rank, x, w, o), bias)
  end
end)
-- Convolution of (T, N, C) along T, with the filters weight (kernel, C, O) and a bias (O).
define_functional([[conv_tbc(x: tensor, weight: tensor, bias: tensor, pad: amount = 0)]],
                  "F.conv_tbc", function(x, w, bias, pad)
  if #shape(x) ~= 3 then fail("conv_tbc: expected (T, N, C), got %s", tostring(x)) end
  want_weight("conv_tbc", 1, w)
  local y = nn.functional.conv1d(op.permute(x, {dims = {1, 2, 0}}),
                                 op.permute(w, {dims = {2, 1, 0}}), bias, {pad = pad})
  return op.permute(y, {dims = {2, 0, 1}})
end)
-- interpolate with mode "nearest".
define_functional("upsample_nearest(x: tensor, {size: any = nil, scale|scale_factor: any = nil})",
                  "F.upsample_nearest", function(x, o)
  return nn.interpolate(x, {size = o.size, scale = o.scale})
end)
-- interpolate with mode "bilinear" and align_corners.
define_functional("upsample_bilinear(x: image2, {size: any = nil, scale|scale_factor: any = nil})",
                  "F.upsample_bilinear", function(x, o)
  return nn.interpolate(x, {size = o.size, scale = o.scale, mode = "bilinear",
                            align_corners = true})
end)
-- Transposed convolution with the filters weight (C, O / groups, kernel).
define_functional([[conv_transpose{1,2,3}d(x: image#, weight: tensor, bias: tensor = nil,
                  stride: each# = 1, pad|padding: border# = 0,
                  output_pad|output_padding: border# = 0, groups: count = 1,
                  dilation: each# = 1)]], "F.conv_transpose#d", function(rank)
  local what = "conv_transpose" .. rank .. "d"
  return function(x, w, bias, stride, pad, output_pad, groups, dilation)
    local o = {stride = stride, pad = pad, output_pad = output_pad, dilation = dilation,
               groups = groups}
    return with_bias(tools.convolve_transposed(what, rank, x, w, o), bias)
  end
end)

-- x @ weight^T + bias, weight (out, in).
define_functional("linear(x: tensor, weight: tensor, bias: tensor = nil)",
                  "F.linear", function(x, weight, bias)
  local y = nn.matmul(x, nn.transpose(weight))
  return bias and y + bias or y
end)
-- y[o] = x1 weight[o] x2^T + bias, weight (out, in1, in2).
define_functional("bilinear(x1: tensor, x2: tensor, weight: tensor, bias: tensor = nil)",
                  "F.bilinear", function(x1, x2, weight, bias)
  local function sizes(v, n) return table.concat(shape(v), ", ", 1, #shape(v) - (n or 0)) end
  local a, b, w = shape(x1), shape(x2), shape(weight)
  if #a == 0 or #a ~= #b or sizes(x1, 1) ~= sizes(x2, 1) then
    fail("bilinear: expected (..., in1) and (..., in2), got %s and %s", tostring(x1), tostring(x2))
  end
  if #w ~= 3 or w[2] ~= a[#a] or w[3] ~= b[#b] then
    fail("bilinear: weight: expected (out, %d, %d), got %s", a[#a], b[#b], tostring(weight))
  end
  local y = nn.einsum("...i,oij,...j->...o", x1, weight, x2)
  return bias and y + bias or y
end)
-- Leaky relu with the slope weight: one number, or one per channel.
define_functional("prelu(x: tensor, weight: tensor)", "F.prelu", function(x, weight)
  if tools.product(shape(weight)) ~= 1 then
    tools.want_sizes("prelu", {shape(x)[2] or 1}, {weight = weight})
  end
  weight = #shape(x) < 2 and nn.reshape(weight, {}) or tools.along(weight, #shape(x), 2)
  return op.where(op.gt(x, 0), x, x * weight)
end)
