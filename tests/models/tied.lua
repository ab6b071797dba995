-- tied.lua: a filter that a convolution, its transposed one and derivatives of both read: of its
-- copy in 16 bits, which follows it, kernels make others that change with it.
local nn = require "nn"
nn.train(4, function()
  local x = nn.random({4, 3, 8, 8}, {kind = "normal", seed = 1})
  local w = nn.param("w", {6, 3, 4, 4}, {"normal", 0, 0.1})
  local function critic(y)
    return nn.functional.conv2d(y, w, nil, {stride = 2, pad = 1}):leaky_relu(0.2)
  end
  local h = critic(x)
  local back = nn.functional.conv_transpose2d(h, w, nil, {stride = 2, pad = 1})
  local g = nn.grad(critic(back):square():sum(), back)
  return {loss = (back - x):square():mean() + g:square():mean()}
end, {lr = 0.1})
