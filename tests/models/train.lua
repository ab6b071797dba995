-- A step of training, whole: loss, gradients by nn.grad, and the update of every parameter are one
-- entry, with a momentum of each parameter as a state. --set case=mlp|conv
local nn = require "nn"
local cfg = nn.config{case = "mlp", batch = 16, rate = 0.05}
local cases = {}

local function cross_entropy(logits, labels) -- the mean over the batch
  local chosen = nn.take_along(logits, labels:reshape{cfg.batch, 1}, 2):reshape{cfg.batch}
  return (logits:logsumexp(2) - chosen):mean()
end
-- Stochastic gradient descent with momentum, as torch.optim.SGD.
local function descend(loss, rate, momentum)
  local list = nn.parameters()
  for i, g in ipairs(nn.grad(loss, list)) do
    local speed = nn.state("momentum" .. i, list[i].shape)
    local now = speed * momentum + g
    nn.update(speed, now)
    nn.update(list[i], list[i] - now * rate)
  end
end

function cases.mlp()
  local x, labels = nn.input("x", {cfg.batch, 24}),
    nn.input("labels", {cfg.batch}, {dtype = "i32", below = 5})
  return x:linear("up", {out = 32}):gelu():layer_norm("norm"):linear("down", {out = 5}), labels
end
function cases.conv()
  local x, labels = nn.input("x", {cfg.batch, 4, 12, 12}),
    nn.input("labels", {cfg.batch}, {dtype = "i32", below = 5})
  x = x:conv2d("c1", {out = 16, kernel = 3, pad = 1, stride = 2}):relu()
  x = (x + x:conv2d("c2", {out = 16, kernel = 3, pad = 1}):relu()):avg_pool2d{kernel = 2}
  return x:flatten():linear("head", {out = 5}), labels
end

local logits, labels = cases[cfg.case]()
nn.output("logits", logits)
nn.entry("train", function()
  local loss = cross_entropy(logits, labels)
  nn.output("loss", loss)
  descend(loss, cfg.rate, 0.9)
end)
