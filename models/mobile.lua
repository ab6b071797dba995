-- mobile.lua: common parts of MobileNets and EfficientNet, under torchvision's names.
local nn = require "nn"

-- The multiple of 8 nearest to n, but not less than nine tenths of it.
local function divisible(n)
  local near = math.max(8, (n + 4) // 8 * 8)
  return math.tointeger(near < 0.9 * n and near + 8 or near)
end

-- A convolution without bias, batch norm, and the activation, if any.
local function conv_norm(x, o)
  local kernel = o.kernel or 1
  x = x:conv2d("0", {out = o.out, kernel = kernel, stride = o.stride, pad = kernel // 2,
                     groups = o.groups, bias = false})
  x = x:batch_norm2d("1", {eps = o.eps})
  return o.activation and o.activation(x) or x
end

-- Scales each channel by a number from 0 to 1, computed from the means of all (Hu et al. 2017).
local function squeeze_excitation(x, squeezed, activation, gate)
  local s = activation(x:global_avg_pool():conv2d("fc1", {out = squeezed, kernel = 1}))
  return x * gate(s:conv2d("fc2", {out = x.shape[2], kernel = 1}))
end

-- The inverted residual block of MobileNetV3 and EfficientNet: expansion by a 1x1 convolution, a
-- depthwise convolution, squeeze and excitation, projection; with a residual connection if the
-- shapes agree. o: {wide, out, kernel, stride, squeezed (0: none), activation, gate, eps, dropped:
-- probability of dropping the block in training}
local function inverted_residual(x, o)
  local layers, y = 0, x
  local function add(f, ...) y, layers = nn.scope("block." .. layers, f, y, ...), layers + 1 end
  local function conv(out, more)
    more.out, more.eps = out, o.eps
    add(conv_norm, more)
  end
  if o.wide ~= x.shape[2] then conv(o.wide, {activation = o.activation}) end
  conv(o.wide, {kernel = o.kernel, stride = o.stride, groups = o.wide, activation = o.activation})
  if o.squeezed > 0 then add(squeeze_excitation, o.squeezed, o.squeeze_activation, o.gate) end
  conv(o.out, {})
  local adds = o.stride == 1 and x.shape[2] == o.out
  return adds and x + y:stochastic_depth(o.dropped or 0) or y
end

return {divisible = divisible, conv_norm = conv_norm, inverted_residual = inverted_residual}
