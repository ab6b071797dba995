-- inception.lua: common parts of GoogLeNet and Inception v3, under torchvision's names.
local nn = require "nn"

-- A convolution, batch norm, ReLU. By default the size stays; o: {stride, pad}.
local function conv(x, name, out, kernel, o)
  o = o or {}
  x = x:conv2d(name .. ".conv", {out = out, kernel = kernel, stride = o.stride,
                                 pad = o.pad or "same", bias = false})
  return x:batch_norm2d(name .. ".bn", {eps = 1e-3}):relu()
end

-- The published weights expect images of mean 0.5 and deviation 0.5 in each channel: converts from
-- the normalisation of all other ImageNet networks.
local function transform_input(x)
  local function channels(f)
    return nn.tensor{f(0.485, 0.229), f(0.456, 0.224), f(0.406, 0.225)}:reshape{1, 3, 1, 1}
  end
  return x * channels(function(_, std) return std / 0.5 end) +
         channels(function(mean) return (mean - 0.5) / 0.5 end)
end

return {conv = conv, transform_input = transform_input}
