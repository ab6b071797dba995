-- nn_loss_classes.lua: losses of classes and of sequences, of the module `nn` (nn.lua). Labels are
-- integers, of x's shape without the axis of classes: zero-dimensional for one example.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, reduced = tools.fail, tools.define, tools.reduced

local function along(x, ids, axis) return op.take_along(x, ids, {axis = axis - 1}) end

-- ---- of classes -------------------------------------------------------------------------------

-- Checks the labels of x, whose classes are along the axis: integers, or a probability for each
-- class where `also` allows it.
local function want_labels(what, x, axis, labels, also)
  local wanted = shape(x)
  table.remove(wanted, axis)
  local fits = not tools.is_float(labels) and #shape(labels) == #wanted
  for i, d in ipairs(shape(labels)) do fits = fits and d == wanted[i] end
  if not fits then
    fail("%s: expected integer labels of shape (%s)%s for %s, got %s %s", what,
         table.concat(wanted, ", "), also or "", tostring(x), core.dtype(labels), tostring(labels))
  end
end

local function want_weight(what, weight, C)
  if weight and table.concat(shape(weight), ",") ~= tostring(C) then
    fail("%s: weight: expected (%d), a number for each class, got %s", what, C, tostring(weight))
  end
end

-- For class scores along an axis, and labels: f(scores at the labels, valid labels), 0 where the
-- label is ignored; and the weight of each in the mean: 1, or that of its class.
local function of_labels(x, labels, o, f)
  local counts = op.ne(labels, o.ignore_index)
  local known = op.where(counts, labels, 0)
  local at = op.reshape(known, {dims = tools.with(shape(x), o.axis, 1)})
  local chosen = along(x, at, o.axis)
  local share = o.weight and nn.gather(o.weight, known, 1)
  local each = f(op.reshape(chosen, {dims = shape(labels)}), share)
  local total = share and op.where(counts, share, 0.0) or counts
  return op.where(counts, each, 0.0), total
end

-- Cross-entropy of the softmax over an axis, by default the last (PyTorch's: the second). target:
-- integer labels, of the shape without that axis, or a probability of each class, of the shape of
-- x. Rows with label ignore_index are excluded; weight, a number per class, multiplies the rows and
-- their share of the mean's divisor (probabilities: the number of rows). label_smoothing: 0, or in
-- the function of nn.train the value of --label-smoothing.
define([[cross_entropy(x|logits: tensor, labels|target: tensor, {axis: axis = -1,
       label_smoothing: number = nil, ignore_index: whole = -100, weight: tensor = nil,
       reduction: none/mean/sum = mean})]],
       "F.cross_entropy, nn.CrossEntropyLoss", function(x, labels, o)
  local axis, C = o.axis, shape(x)[o.axis]
  local s = o.label_smoothing or tools.training.smoothing or 0
  tools.training.smooths = true
  if s < 0 or s > 1 then fail("cross_entropy: label_smoothing = %g: expected 0 to 1", s) end
  want_weight("cross_entropy", o.weight, C)
  local function weighed(v)
    return o.weight and v * tools.along(o.weight, #shape(x), axis) or v
  end
  local same = table.concat(shape(x), ",") == table.concat(shape(labels), ",")
  if tools.is_float(labels) and same then
    if o.ignore_index >= 0 then
      fail("cross_entropy: ignore_index is for integer labels, not for probabilities")
    end
    local y = s > 0 and labels * (1 - s) + s / C or labels
    local each = -nn.sum(weighed(nn.log_softmax(x, axis) * y), axis)
    return reduced(each, o.reduction)
  end
  want_labels("cross_entropy", x, axis, labels,
              string.format(", or floats of shape (%s)", table.concat(shape(x), ", ")))
  local lse = nn.logsumexp(x, axis)
  local each, total = of_labels(x, labels, o, function(chosen, share)
    local y = lse - chosen
    if share then y = y * share end
    if s == 0 then return y end
    local all = lse * (o.weight and nn.sum(o.weight) or C) -- every class gets a small share
    return y * (1 - s) + (all - nn.sum(weighed(x), axis)) * (s / C)
  end)
  return reduced(each, o.reduction, total)
end)

-- -x[label] for log-probabilities x along an axis, by default the last (PyTorch's: the second).
define([[nll_loss(x: tensor, labels|target: tensor, {axis: axis = -1,
       ignore_index: whole = -100, weight: tensor = nil, reduction: none/mean/sum = mean})]],
       "F.nll_loss, nn.NLLLoss, nn.NLLLoss2d", function(x, labels, o)
  want_weight("nll_loss", o.weight, shape(x)[o.axis])
  want_labels("nll_loss", x, o.axis, labels)
  local each, total = of_labels(x, labels, o, function(chosen, share)
    return share and -chosen * share or -chosen
  end)
  return reduced(each, o.reduction, total)
end)

-- Applies `loss` to one example as a batch of one.
local function of_one(loss, x, labels, o)
  local y = loss(nn.unsqueeze(x, 1), nn.unsqueeze(labels, 1), o)
  return #shape(y) > 0 and nn.squeeze(y, 1) or y
end

-- The mean over the other classes of max(0, margin - x[label] + x)^p, x (N, C) or (C), p 1 or 2.
define([[multi_margin_loss(x: tensor, labels|target: tensor, {p: number = 1,
       margin: number = 1, weight: tensor = nil, reduction: none/mean/sum = mean})]],
       "F.multi_margin_loss, nn.MultiMarginLoss", function(x, labels, o)
  if #shape(x) == 1 then
    if #shape(labels) == 1 then labels = nn.squeeze(labels) end
    return of_one(nn.multi_margin_loss, x, labels, o)
  end
  local N, C = table.unpack(shape(x))
  if #shape(x) ~= 2 then fail("multi_margin_loss: expected (N, C) or (C), got %s", tostring(x)) end
  if o.p ~= 1 and o.p ~= 2 then fail("multi_margin_loss: p = %g: expected 1 or 2", o.p) end
  want_labels("multi_margin_loss", x, 2, labels)
  want_weight("multi_margin_loss", o.weight, C)
  local at = op.reshape(labels, {dims = {N, 1}})
  local over = op.relu(o.margin - op.take_along(x, at, {axis = 1}) + x)
  if o.p == 2 then over = over * over end
  if o.weight then over = over * op.reshape(nn.gather(o.weight, labels, 1), {dims = {N, 1}}) end
  return reduced(nn.sum(op.where(op.eq(nn.index({1, C}, 2), at), 0.0, over), 2) * (1 / C),
                 o.reduction)
end)
-- For rows x (N, C), or one (C), and labels of that shape, integers up to the first -1: the mean
-- over C of max(0, 1 - (x[label] - x[other])) for each label and each class that is not a label.
define([[multilabel_margin_loss(x: tensor, labels|target: tensor,
       {reduction: none/mean/sum = mean})]],
       "F.multilabel_margin_loss, nn.MultiLabelMarginLoss", function(x, labels, o)
  local N, C = table.unpack(shape(x))
  if #shape(x) == 1 and #shape(labels) == 1 then
    return of_one(nn.multilabel_margin_loss, x, labels, o)
  end
  if #shape(x) ~= 2 or table.concat(shape(labels), ",") ~= N .. "," .. C then
    fail("multilabel_margin_loss: expected (N, C) and labels of that shape, got %s and %s",
         tostring(x), tostring(labels))
  end
  local given = op.gt(nn.cumprod(op.ge(labels, 0):to("i32"), 2), 0)
  local at = op.where(given, labels, 0)
  local is_label = nn.any(op.eq(nn.unsqueeze(at, 3), nn.index({1, 1, C}, 3)) &
                          nn.unsqueeze(given, 3), 2)
  local over = op.relu(1.0 - nn.unsqueeze(op.take_along(x, at, {axis = 1}), 3) +
                       nn.unsqueeze(x, 2))
  local counts = nn.unsqueeze(given, 3) & nn.unsqueeze(op.logical_not(is_label), 2)
  return reduced(nn.sum(op.where(counts, over, 0.0), {2, 3}) * (1 / C), o.reduction)
end)
-- 1 for each row whose largest element, along the last dimension, is at its label, else 0.
define("accuracy(x|logits: tensor, labels: tensor)", "", function(x, labels)
  return op.eq(nn.argmax(x, #shape(x)), labels):to("f32")
end)

-- ---- of sequences -----------------------------------------------------------------------------

-- Concatenated labels of all examples as rows of equal length: each row is filled up to the longest
-- with further labels.
local function rows_of_labels(labels, counts, N)
  local total, longest, rows = 0, 1, {}
  for i = 1, #counts do
    counts[i] = tools.amount("ctc_loss: target_lengths[" .. i .. "]", counts[i])
    total, longest = total + counts[i], math.max(longest, counts[i])
  end
  if #counts ~= N or total ~= shape(labels)[1] then
    fail("ctc_loss: target_lengths: expected %d numbers that sum to %d, got %d with sum %d",
         N, shape(labels)[1], #counts, total)
  end
  local first, places = 0, {}
  for i, count in ipairs(counts) do
    for k = 1, longest do rows[k] = math.max(math.min(first + k, first + count, total), 1) - 1 end
    places[i], rows, first = rows, {}, first + count
  end
  return nn.gather(labels, nn.tensor(places), 1)
end
-- A number per example, given as a tensor or a list, as a tensor.
local function lengths_of(what, v)
  if type(v) ~= "table" then return tools.tensor(what, v) end
  for i = 1, #v do tools.amount(what .. "[" .. i .. "]", v[i]) end
  return nn.tensor(v)
end

-- Connectionist temporal classification (Graves et al., 2006): the negative log-probability of all
-- alignments of labels (N, S) with log-probabilities x (T, N, C), or of (S) with (T, C). Example n
-- has lengths[n] steps and target_lengths[n] labels, given as tensors or lists. If target_lengths
-- is a list, labels may be the concatenation of all examples'. The forward recursion is unrolled
-- over T. "mean" divides each loss by the number of labels first; zero_infinity: 0 where no
-- alignment exists.
define([[ctc_loss(x|log_probs: tensor, labels|targets: tensor, lengths|input_lengths: any,
       target_lengths: any, {blank: whole = 0, reduction: none/mean/sum = mean,
       zero_infinity: boolean = false})]], "F.ctc_loss, nn.CTCLoss",
       function(x, labels, lengths, target_lengths, o)
  if #shape(x) == 3 and #shape(labels) == 1 and type(target_lengths) == "table" then
    labels = rows_of_labels(labels, target_lengths, shape(x)[2])
  end
  lengths = lengths_of("ctc_loss: lengths", lengths)
  target_lengths = lengths_of("ctc_loss: target_lengths", target_lengths)
  if #shape(x) == 2 and #shape(labels) == 1 then
    local function one(v) return op.reshape(v, {dims = {1, table.unpack(shape(v))}}) end
    local y = nn.ctc_loss(nn.unsqueeze(x, 2), one(labels), op.reshape(lengths, {dims = {1}}),
                          op.reshape(target_lengths, {dims = {1}}), o)
    return op.reshape(y, {dims = {}})
  end
  local T, N, C = table.unpack(shape(x))
  local S = shape(labels)[2]
  if #shape(x) ~= 3 or #shape(labels) ~= 2 or shape(labels)[1] ~= N then
    fail("ctc_loss: expected (T, N, C) and labels (N, S), or (T, C) and (S), got %s and %s%s",
         tostring(x), tostring(labels), #shape(x) == 3 and #shape(labels) == 1 and
         "; of labels in one row target_lengths is a list" or "")
  end
  if o.blank < 0 or o.blank >= C then fail("ctc_loss: blank = %d of %d classes", o.blank, C) end
  local none = -1e30 -- log 0: finite, so that differences are
  -- The labels with blanks between and around them, (N, 2 S + 1).
  local L = 2 * S + 1
  local place = nn.index({1, L}, 2)
  local odd = op.eq(op.mod(place, 2), 1)
  local own = along(labels, nn.expand(op.min(op.floordiv(place, 2), S - 1), {N, L}), 2)
  local symbols = op.where(odd, own, o.blank)
  local before = nn.pad(nn.slice(symbols, 2, 1, L - 2), {2, 0}, "constant", -1)
  local skips = odd & op.ne(symbols, before) & op.ge(place, 2)
  local function behind(a, by)
    return nn.pad(nn.slice(a, 2, 1, L - by), {by, 0}, "constant", none)
  end
  local function added(a, b) -- log(exp(a) + exp(b))
    local most = op.max(a, b)
    local y = most + op.log1p(op.exp(op.min(a, b) - most))
    return nn.custom_gradient(y, {a, b}, function(g) -- also differentiable where they are equal
      return g * op.exp(a - y), g * op.exp(b - y)
    end)
  end
  local function of_step(t) return along(nn.select(x, 1, t), symbols, 2) end
  local a = op.where(op.lt(place, 2), of_step(1), none)
  for t = 2, T do
    local from = added(a, behind(a, 1))
    if L > 2 then from = added(from, op.where(skips, behind(a, 2), none)) end
    local next = op.max(from + of_step(t), none)
    a = op.where(op.lt(t - 1, nn.unsqueeze(lengths, 2)), next, a)
  end
  local ends = nn.unsqueeze(target_lengths, 2) * 2
  local last = along(a, ends, 2)
  local blank_only = op.eq(ends, 0)
  local label = op.where(blank_only, none, along(a, op.max(ends - 1, 0), 2))
  local y = nn.squeeze(-added(last, label), 2)
  y = op.where(op.gt(y, 1e29), o.zero_infinity and 0.0 or math.huge, y)
  if o.reduction ~= "mean" then return reduced(y, o.reduction) end
  return nn.mean(y / op.max(target_lengths, 1))
end)
