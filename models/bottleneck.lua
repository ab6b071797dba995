-- bottleneck.lua: the block of the deeper ResNets, names and shapes as in torchvision.

-- A 3x3 convolution between two of 1x1; the output has four times `width` channels. o.groups and
-- o.base: the 3x3 convolution has `groups` groups, each of `base` channels per 64 of width.
local function block(x, width, stride, dilation, o)
  local out, inner = 4 * width, math.max(width * o.base // 64, 1) * o.groups
  local y = x:conv2d("conv1", {out = inner, kernel = 1, bias = false}):batch_norm2d("bn1"):relu()
  y = y:conv2d("conv2", {out = inner, kernel = 3, stride = stride, pad = dilation,
                         dilation = dilation, groups = o.groups, bias = false})
  y = y:batch_norm2d("bn2"):relu()
  y = y:conv2d("conv3", {out = out, kernel = 1, bias = false}):batch_norm2d("bn3")
  if stride ~= 1 or x.shape[2] ~= out then
    x = x:conv2d("downsample.0", {out = out, kernel = 1, stride = stride, bias = false})
         :batch_norm2d("downsample.1")
  end
  return (y + x):relu()
end

-- bottleneck(groups, base): a block for resnet.lua
return function(groups, base)
  local o = {groups = groups or 1, base = base or 64}
  return function(x, width, stride, dilation) return block(x, width, stride, dilation, o) end
end
