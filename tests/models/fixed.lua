-- What depends on parameters alone is computed by `init`, once: products of two parameters, chains
-- of them, and outputs of the model.
local nn = require "nn"
local function param(name, dims) return nn.param(name, dims, {"normal", 0, 1}) end
local function conv(x, w, stride, pad)
  return nn.op.conv2d(x, w, {stride = {stride, stride}, pad = {pad, pad, pad, pad},
                             dilation = {1, 1}, groups = 1})
end

-- A layer with an addition of low rank to its weights.
local x = nn.input("x", {20, 70})
local a, b = param("a", {70, 8}), param("b", {8, 30})
nn.output("lora", nn.matmul(x, param("w", {70, 30}) + nn.matmul(a, b) * 0.1))
nn.output("added", nn.matmul(param("c", {20, 70}), param("d", {70, 30})) + nn.input("y", {20, 30}))
nn.output("row", nn.matmul(param("e", {1, 70}), param("f", {70, 30})) + nn.input("z", {1, 30}))
nn.output("computed", nn.matmul(nn.relu(param("g", {20, 70})) * 0.3, nn.tanh(param("h", {70, 30})))
          + nn.input("u", {20, 30}))
nn.output("turned", nn.matmul(nn.transpose(param("i", {70, 20})), param("j", {70, 30}))
          + nn.input("v", {20, 30}))
nn.output("chain", nn.matmul(nn.matmul(param("k", {20, 70}), param("l", {70, 40})) * 0.1,
                             param("m", {40, 30})) + nn.input("s", {20, 30}))
nn.output("conv", conv(param("n", {1, 8, 8, 8}), param("o", {4, 8, 3, 3}), 1, 0)
          + nn.input("t", {1, 4, 6, 6}))
nn.output("conv_pad", conv(param("p", {1, 3, 8, 8}), param("q", {4, 3, 3, 3}), 2, 1)
          + nn.input("r", {1, 4, 4, 4}))

-- Outputs that no input reaches: made once, and the same after every run.
local w = param("plain", {8, 3})
nn.output("moved", w:permute{2, 1})
nn.output("mapped", w * 2)
nn.output("multiplied", nn.matmul(w, param("other", {3, 5})))
nn.output("summed", nn.sum(w, 2))
