-- regroup.lua: training steps whose kernels depend on how groups are made and made again.
local nn = require "nn"
local c = nn.config{case = "recurrent", kind = "lstm", layers = 1, batch = 2, size = 8, rows = 6}
local cases = {}

-- Final states, each a part of the outputs in another shape, whose concats are parts of others.
function cases.recurrent()
  local x = nn.input("x", {3, 4, 6})
  local o, h = nn[c.kind](x, "rnn", {hidden = 5, layers = c.layers, bidirectional = true})
  return o:linear("f", {out = 4}):square():mean() + h:square():mean()
end
-- A head of one channel with two losses: its gradients meet the sums of the batch norm before it.
function cases.segmentation()
  local dims, over = {c.batch, 1, c.size, c.size}, {2, 3, 4}
  local t = nn.input("t", dims)
  local h = nn.input("x", {c.batch, 3, c.size, c.size})
  for i = 1, 2 do
    h = h:conv2d("c" .. i, {out = 32, kernel = 3, pad = 1, bias = false}):batch_norm2d("n" .. i)
      :relu()
  end
  local z = h:conv2d("o", {out = 1, kernel = 1})
  local p = z:sigmoid()
  local dice = 1 - ((2 * (p * t):sum(over) + 1) / (p:sum(over) + t:sum(over) + 1)):mean()
  return z:bce_with_logits(t) + dice
end
-- The gradient of a maximum, which equal elements share.
function cases.maximum()
  local x = nn.input("x", {c.rows, 32, 16})
  return x:linear("a", {out = 24}):relu():amax(2):linear("b", {out = 3}):square():mean()
end
function cases.diagonal() -- c without its diagonal
  local z = nn.input("x", {c.rows, 16}):linear("a", {out = 24}):t():cov()
  return (z - z:diag():diag()):square():sum()
end

nn.train(c.batch, function()
  return {loss = assert(cases[c.case], "no such case")()}
end, {optimizer = "adam", lr = 0.001})
