-- Every loss of nn, of inputs that train_reference.py writes, with each reduction and option.
local nn = require "nn"
local x, y = nn.input("x", {6, 5}), nn.input("y", {6, 5})
local p = nn.input("p", {6, 5}) -- 0 to 1
local labels = nn.input("labels", {6}, {dtype = "i32"}) -- some are -100
local weight = nn.input("weight", {5})
local cases = {
  mse = nn.mse_loss(x, y), mse_sum = nn.mse_loss(x, y, {reduction = "sum"}),
  mse_none = nn.mse_loss(x, y, {reduction = "none"}),
  l1 = nn.l1_loss(x, y), huber = nn.huber_loss(x, y),
  huber_half = nn.huber_loss(x, y, {delta = 0.5}),
  bce = nn.bce_with_logits(x, p), bce_pos = nn.bce_with_logits(x, p, {pos_weight = 3}),
  ce = nn.cross_entropy(x, labels), ce_none = nn.cross_entropy(x, labels, {reduction = "none"}),
  ce_smooth = nn.cross_entropy(x, labels, {label_smoothing = 0.1}),
  ce_weight = nn.cross_entropy(x, labels, {weight = weight}),
  ce_both = nn.cross_entropy(x, labels, {weight = weight, label_smoothing = 0.2}),
  ce_ignore = nn.cross_entropy(x, nn.max(labels, 0), {ignore_index = 2, reduction = "sum"}),
  accuracy = nn.accuracy(x, labels),
}
for name, value in pairs(cases) do
  nn.output(name, value)
  if #value.shape == 0 then nn.output("d_" .. name, nn.grad(value, x)) end
end
