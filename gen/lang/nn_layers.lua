-- nn_layers.lua: layers with parameters, of the module `nn` (nn.lua): convolutions, norms, linear.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, options, tensor = tools.fail, tools.options, tools.tensor
local count, pair, sides = tools.count, tools.pair, tools.sides
local parameter_layer, REQUIRED = tools.parameter_layer, tools.REQUIRED

local function channel_bias(out, bound)
  return op.reshape(nn.param("bias", {out}, {"uniform", -bound, bound}), {dims = {1, out, 1, 1}})
end

-- conv2d(x, name, {out, kernel, stride = 1, pad = 0, dilation = 1, groups = 1, bias = true})
-- parameters name.weight (out, in / groups, kh, kw), name.bias (out); Kaiming fan-out init.
parameter_layer("conv2d", function(x, given)
  local o = options("conv2d", given, {out = REQUIRED, kernel = REQUIRED, stride = 1, pad = 0,
                                      dilation = 1, groups = 1, bias = true})
  local dims = shape(tensor("conv2d", x))
  if #dims ~= 4 then fail("conv2d: wants an input (N, C, H, W), not %s", tostring(x)) end
  local k = pair("conv2d: kernel", o.kernel)
  o.out, o.groups = count("conv2d: out", o.out), count("conv2d: groups", o.groups)
  if dims[2] % o.groups ~= 0 or o.out % o.groups ~= 0 then
    fail("conv2d: groups = %d does not divide %d input and %d output channels", o.groups, dims[2],
         o.out)
  end
  local std = math.sqrt(2 * o.groups / (o.out * k[1] * k[2]))
  local w = nn.param("weight", {o.out, dims[2] // o.groups, k[1], k[2]}, {"normal", 0, std})
  local y = op.conv2d(x, w, {
    stride = pair("conv2d: stride", o.stride), pad = sides("conv2d: pad", o.pad),
    dilation = pair("conv2d: dilation", o.dilation), groups = o.groups})
  if not o.bias then return y end
  local bound = 1 / math.sqrt(dims[2] // o.groups * k[1] * k[2])
  return y + channel_bias(o.out, bound)
end)

-- conv_transpose2d(x, name, {out, kernel, stride = 1, pad = 0, output_pad = 0, dilation = 1,
-- groups = 1, bias = true}): the gradient of a convolution, (N, C, H, W) -> (N, out, (H - 1) *
-- stride - 2 * pad + dilation * (kernel - 1) + output_pad + 1, ...)
-- parameters name.weight (in, out / groups, kh, kw), name.bias (out); PyTorch's uniform init.
parameter_layer("conv_transpose2d", function(x, given)
  local o = options("conv_transpose2d", given, {
    out = REQUIRED, kernel = REQUIRED, stride = 1, pad = 0, output_pad = 0, dilation = 1,
    groups = 1, bias = true})
  local dims = shape(tensor("conv_transpose2d", x))
  if #dims ~= 4 then fail("conv_transpose2d: wants an input (N, C, H, W), not %s", tostring(x)) end
  local function both(name) return pair("conv_transpose2d: " .. name, o[name]) end
  local kernel, stride, dilation = both("kernel"), both("stride"), both("dilation")
  local pad, extra = both("pad"), both("output_pad")
  local g, out = count("conv_transpose2d: groups", o.groups), count("conv_transpose2d: out", o.out)
  if dims[2] % g ~= 0 or out % g ~= 0 then
    fail("conv_transpose2d: groups = %d does not divide %d input and %d output channels", g,
         dims[2], out)
  end
  local size = {}
  for i = 1, 2 do
    if stride[i] < 1 or dilation[i] < 1 or kernel[i] < 1 or pad[i] < 0 then
      fail("conv_transpose2d: kernel, stride and dilation must be at least 1, pad at least 0")
    end
    if extra[i] < 0 or extra[i] >= math.max(stride[i], dilation[i]) then
      fail("conv_transpose2d: output_pad must be less than stride or dilation, not %d", extra[i])
    end
    local reached = (dims[2 + i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1
    size[i] = reached - 2 * pad[i] + extra[i]
    if size[i] < 1 then
      fail("conv_transpose2d: pad = %d leaves nothing of %s", pad[i], tostring(x))
    end
  end
  local k = out // g
  local bound = 1 / math.sqrt(k * kernel[1] * kernel[2])
  local w = nn.param("weight", {dims[2], k, kernel[1], kernel[2]}, {"uniform", -bound, bound})
  local y = op.conv2d_data(x, w, {
    stride = stride, pad = {pad[1], pad[2], pad[1], pad[2]}, dilation = dilation, groups = g,
    size = size})
  if not o.bias then return y end
  return y + channel_bias(out, bound)
end)

-- batch_norm2d(x, name, {eps = 1e-5, affine = true}): with running statistics
-- parameters name.weight, bias, running_mean, running_var (C): 1, 0, 0, 1.
parameter_layer("batch_norm2d", function(x, given)
  local o = options("batch_norm2d", given, {eps = 1e-5, momentum = 0.1, affine = true})
  local c = shape(tensor("batch_norm2d", x))[2]
  if #shape(x) ~= 4 then fail("batch_norm2d: wants (N, C, H, W), not %s", tostring(x)) end
  local function channel(name, value)
    return op.reshape(nn.param(name, {c}, {"constant", value}), {dims = {1, c, 1, 1}})
  end
  local weight = o.affine and channel("weight", 1)
  local bias = o.affine and channel("bias", 0)
  local mean, var = channel("running_mean", 0), channel("running_var", 1)
  local scale = op.rsqrt(var + o.eps)
  if not o.affine then return (x - mean) * scale end
  return (x - mean) * (scale * weight) + bias
end)

-- linear(x, name, {out, bias = true}): x @ weight^T + bias over the last dimension
-- parameters name.weight (out, in), name.bias (out); PyTorch's uniform init.
parameter_layer("linear", function(x, given)
  local o = options("linear", given, {out = REQUIRED, bias = true})
  local dims = shape(tensor("linear", x))
  local inner = dims[#dims]
  if #dims < 2 then fail("linear: wants at least two dimensions, not %s", tostring(x)) end
  local bound, out = 1 / math.sqrt(inner), count("linear: out", o.out)
  local w = nn.param("weight", {out, inner}, {"uniform", -bound, bound})
  local y = op.matmul(x, op.permute(w, {dims = {1, 0}}))
  return o.bias and y + nn.param("bias", {out}, {"uniform", -bound, bound}) or y
end)

-- layer_norm(x, name, {eps = 1e-5, affine = true}): over the last dimension
-- parameters name.weight, name.bias (C).
parameter_layer("layer_norm", function(x, given)
  local o = options("layer_norm", given, {eps = 1e-5, affine = true})
  local dims = shape(tensor("layer_norm", x))
  local c, bits = dims[#dims], 1 << (#dims - 1)
  local y
  if tools.is_read_again(x, bits) then -- twice, not three times
    y = (x - op.reduce_mean(x, {axes = bits})) * op.rsqrt(op.reduce_var(x, {axes = bits}) + o.eps)
  else
    local centred = x - op.reduce_sum(x, {axes = bits}) * (1 / c)
    y = centred * op.rsqrt(op.reduce_sum(centred * centred, {axes = bits}) * (1 / c) + o.eps)
  end
  if not o.affine then return y end
  return y * nn.param("weight", {c}, {"constant", 1}) + nn.param("bias", {c}, {"constant", 0})
end)

-- embedding(ids, name, {count, size}): a row of parameters name.weight (count, size) for each id;
-- normal of deviation 1. Integers below count, of any shape.
parameter_layer("embedding", function(ids, given)
  local o = options("embedding", given, {count = REQUIRED, size = REQUIRED})
  local rows, size = count("embedding: count", o.count), count("embedding: size", o.size)
  return nn.gather(nn.param("weight", {rows, size}, {"normal", 0, 1}), tensor("embedding", ids), 1)
end)
