-- nn_loss.lua: losses and what is counted beside them, of the module `nn` (nn.lua): compositions of
-- maps and reductions, which fusion joins and nn.grad differentiates. Names and definitions are
-- PyTorch's.
--
-- Every loss takes `reduction`: "mean" (the default) and "sum" give one number, "none" a value for
-- each element, or for each row of classes.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define = tools.fail, tools.define

local function same_shape(what, x, y)
  local a, b = shape(x), shape(y)
  local same = #a == #b
  for i, d in ipairs(a) do same = same and d == b[i] end
  if not same then
    fail("%s: prediction and target differ in shape: %s and %s", what, tostring(x), tostring(y))
  end
end

local function along(x, ids, axis) return op.take_along(x, ids, {axis = axis - 1}) end

-- `total`: what a mean divides by; null: the number of elements.
local function reduced(values, how, total)
  if how == "none" then return values end
  if how == "sum" then return nn.sum(values) end
  return total and nn.sum(values) / total or nn.mean(values)
end

-- f(x, y, o): a value for each element of two tensors of one shape.
local function elementwise(name, f)
  return function(x, y, o)
    same_shape(name, x, y)
    return reduced(f(x, y, o), o.reduction)
  end
end

-- ---- of numbers -------------------------------------------------------------------------------

-- Squares of the differences.
define("mse_loss(x: tensor, y|target: tensor, {reduction: none/mean/sum = mean})",
       "F.mse_loss, nn.MSELoss",
       elementwise("mse_loss", function(x, y) return (x - y) * (x - y) end))
-- Sizes of the differences.
define("l1_loss(x: tensor, y|target: tensor, {reduction: none/mean/sum = mean})",
       "F.l1_loss, nn.L1Loss",
       elementwise("l1_loss", function(x, y) return op.abs(x - y) end))
-- Half the squared difference up to delta, straight beyond it.
define([[huber_loss(x: tensor, y|target: tensor, {delta: number = 1,
       reduction: none/mean/sum = mean})]],
       "F.huber_loss, nn.HuberLoss", elementwise("huber_loss", function(x, y, o)
  local d = op.abs(x - y)
  return op.where(op.le(d, o.delta), d * d * 0.5, (d - o.delta * 0.5) * o.delta)
end))
-- huber_loss over beta; l1_loss where beta is 0.
define([[smooth_l1_loss(x: tensor, y|target: tensor, {beta: number = 1,
       reduction: none/mean/sum = mean})]],
       "F.smooth_l1_loss, nn.SmoothL1Loss", elementwise("smooth_l1_loss", function(x, y, o)
  local d = op.abs(x - y)
  if o.beta == 0 then return d end
  return op.where(op.lt(d, o.beta), d * d * (0.5 / o.beta), d - o.beta * 0.5)
end))

-- ---- of probabilities -------------------------------------------------------------------------

local softplus = tools.softplus -- log(1 + exp(x))

-- Binary cross-entropy of sigmoid(x), y from 0 to 1; finite for every finite x. pos_weight: a
-- number or a tensor.
define([[bce_with_logits|binary_cross_entropy_with_logits(x: tensor, y|target: tensor,
       {weight: tensor = nil, pos_weight: value = 1, reduction: none/mean/sum = mean})]],
       "F.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss",
       elementwise("bce_with_logits", function(x, y, o)
  local below = op.log(op.exp(-op.abs(x)) + 1.0) + op.maximum(-x, 0.0) -- log(1 + exp(-x))
  local each = (1.0 - y) * x + below * (y * (o.pos_weight - 1.0) + 1.0)
  return o.weight and each * o.weight or each
end))
-- Binary cross-entropy of probabilities x; logarithms are at least -100.
define([[binary_cross_entropy|bce_loss(x: tensor, y|target: tensor, {weight: tensor = nil,
       reduction: none/mean/sum = mean})]],
       "F.binary_cross_entropy, nn.BCELoss", elementwise("binary_cross_entropy", function(x, y, o)
  local each = (y - 1.0) * op.max(op.log1p(-x), -100.0) - y * op.max(op.log(x), -100.0)
  return o.weight and each * o.weight or each
end))
-- y * (log(y) - x) for logarithms x of probabilities; with log_target y is a logarithm too.
-- "batchmean" divides by examples.
define([[kl_div(x: tensor, y|target: tensor, {log_target: boolean = false,
       reduction: none/mean/sum/batchmean = mean})]], "F.kl_div, nn.KLDivLoss", function(x, y, o)
  same_shape("kl_div", x, y)
  local each = o.log_target and op.exp(y) * (y - x) or nn.xlogy(y, y) - y * x
  if o.reduction == "batchmean" then return nn.sum(each) * (1 / shape(x)[1]) end
  return reduced(each, o.reduction)
end)
-- exp(x) - y * x, or with log_input = false x - y * log(x + eps); `full` adds Stirling's term.
define([[poisson_nll_loss(x: tensor, y|target: tensor, {log_input: boolean = true,
       full: boolean = false, eps: number = 1e-8, reduction: none/mean/sum = mean})]],
       "F.poisson_nll_loss, nn.PoissonNLLLoss", elementwise("poisson_nll_loss", function(x, y, o)
  local each = o.log_input and op.exp(x) - y * x or x - y * op.log(x + o.eps)
  if not o.full then return each end
  local more = op.gt(y, 1)
  local v = op.where(more, y, 1.0)
  return each + op.where(more, v * op.log(v) - v + op.log(v * (2 * math.pi)) * 0.5, 0.0)
end))
-- Of a normal distribution of mean x and variance var.
define([[gaussian_nll_loss(x: tensor, y|target: tensor, var: tensor, {full: boolean = false,
       eps: number = 1e-6, reduction: none/mean/sum = mean})]],
       "F.gaussian_nll_loss, nn.GaussianNLLLoss", function(x, y, var, o)
  same_shape("gaussian_nll_loss", x, y)
  var = op.max(var, o.eps)
  local each = (op.log(var) + (x - y) * (x - y) / var) * 0.5
  return reduced(o.full and each + 0.5 * math.log(2 * math.pi) or each, o.reduction)
end)

-- ---- of margins: y is 1 or -1 -----------------------------------------------------------------

-- log(1 + exp(-y x)).
define("soft_margin_loss(x: tensor, y|target: tensor, {reduction: none/mean/sum = mean})",
       "F.soft_margin_loss, nn.SoftMarginLoss",
       elementwise("soft_margin_loss", function(x, y) return softplus(-y * x) end))
-- x where y is 1, max(0, margin - x) where it is -1.
define([[hinge_embedding_loss(x: tensor, y|target: tensor, {margin: number = 1,
       reduction: none/mean/sum = mean})]],
       "F.hinge_embedding_loss, nn.HingeEmbeddingLoss",
       elementwise("hinge_embedding_loss", function(x, y, o)
         return op.where(op.eq(y, 1), x, op.max(o.margin - x, 0.0))
       end))
-- max(0, -y (a - b) + margin).
define([[margin_ranking_loss(a: tensor, b: tensor, y|target: tensor, {margin: number = 0,
       reduction: none/mean/sum = mean})]],
       "F.margin_ranking_loss, nn.MarginRankingLoss", function(a, b, y, o)
  return reduced(op.max(-y * (a - b) + o.margin, 0.0), o.reduction)
end)
-- 1 - cos where y is 1, max(0, cos - margin) where it is -1; of rows (N, D).
define([[cosine_embedding_loss(a: tensor, b: tensor, y|target: tensor, {margin: number = 0,
       reduction: none/mean/sum = mean})]],
       "F.cosine_embedding_loss, nn.CosineEmbeddingLoss", function(a, b, y, o)
  local function size(v) return nn.sum(v * v, -1) + 1e-12 end
  local cosine = nn.sum(a * b, -1) / op.sqrt(size(a) * size(b))
  return reduced(op.where(op.eq(y, 1), 1.0 - cosine, op.max(cosine - o.margin, 0.0)), o.reduction)
end)
-- max(0, |anchor - positive| - |anchor - negative| + margin) of rows; swap: the nearer of anchor
-- and positive counts.
define([[triplet_margin_loss(anchor: tensor, positive: tensor, negative: tensor,
       {margin: number = 1, p: number = 2, eps: number = 1e-6, swap: boolean = false,
       reduction: none/mean/sum = mean})]],
       "F.triplet_margin_loss, nn.TripletMarginLoss", function(anchor, positive, negative, o)
  local near, far = nn.pairwise_distance(anchor, positive, o.p, o.eps),
      nn.pairwise_distance(anchor, negative, o.p, o.eps)
  if o.swap then far = op.minimum(far, nn.pairwise_distance(positive, negative, o.p, o.eps)) end
  return reduced(op.max(near - far + o.margin, 0.0), o.reduction)
end)
-- The mean over classes of the binary cross-entropy of logits x (N, C), y of 0 and 1.
define([[multilabel_soft_margin_loss(x: tensor, y|target: tensor, {weight: tensor = nil,
       reduction: none/mean/sum = mean})]],
       "F.multilabel_soft_margin_loss, nn.MultiLabelSoftMarginLoss", function(x, y, o)
  same_shape("multilabel_soft_margin_loss", x, y)
  local each = y * softplus(-x) + (1.0 - y) * softplus(x)
  if o.weight then each = each * o.weight end
  return reduced(nn.mean(each, -1), o.reduction)
end)
-- The mean over the other classes of max(0, margin - x[label] + x)^p, x (N, C).
define([[multi_margin_loss(x: tensor, labels|target: tensor, {p: number = 1,
       margin: number = 1, weight: tensor = nil, reduction: none/mean/sum = mean})]],
       "F.multi_margin_loss, nn.MultiMarginLoss", function(x, labels, o)
  local N, C = table.unpack(shape(x))
  local at = op.reshape(labels, {dims = {N, 1}})
  local over = op.max(o.margin - op.take_along(x, at, {axis = 1}) + x, 0.0)
  if o.p == 2 then over = over * over end
  if o.weight then over = over * op.reshape(nn.gather(o.weight, labels, 1), {dims = {N, 1}}) end
  return reduced(nn.sum(op.where(op.eq(nn.index({1, C}, 2), at), 0.0, over), 2) * (1 / C),
                 o.reduction)
end)

-- triplet_margin_loss by a distance of your own: f(x, y) of rows.
-- Of rows x (N, C) and their labels (N, C), integers up to the first -1: the mean over C of
-- max(0, 1 - (x[label] - x[other])) for each label and each class that is none.
define([[multilabel_margin_loss(x: tensor, labels|target: tensor,
       {reduction: none/mean/sum = mean})]],
       "F.multilabel_margin_loss, nn.MultiLabelMarginLoss", function(x, labels, o)
  local N, C = table.unpack(shape(x))
  if #shape(x) ~= 2 or table.concat(shape(labels), ",") ~= N .. "," .. C then
    fail("multilabel_margin_loss: wants (N, C) and labels of that shape, not %s and %s",
         tostring(x), tostring(labels))
  end
  local given = op.gt(nn.cumprod(op.ge(labels, 0):to("i32"), 2), 0)
  local at = op.where(given, labels, 0)
  local is_label = nn.any(op.eq(nn.unsqueeze(at, 3), nn.index({1, 1, C}, 3)) &
                          nn.unsqueeze(given, 3), 2)
  local over = op.max(1.0 - nn.unsqueeze(op.take_along(x, at, {axis = 1}), 3) +
                      nn.unsqueeze(x, 2), 0.0)
  local counts = nn.unsqueeze(given, 3) & nn.unsqueeze(op.logical_not(is_label), 2)
  return reduced(nn.sum(op.where(counts, over, 0.0), {2, 3}) * (1 / C), o.reduction)
end)
define([[triplet_margin_with_distance_loss(anchor: tensor, positive: tensor, negative: tensor,
       {distance|distance_function: function = nil, margin: number = 1, swap: boolean = false,
       reduction: none/mean/sum = mean})]],
       "F.triplet_margin_with_distance_loss, nn.TripletMarginWithDistanceLoss",
       function(anchor, positive, negative, o)
  local f = o.distance or nn.pairwise_distance
  local near, far = f(anchor, positive), f(anchor, negative)
  if o.swap then far = op.minimum(far, f(positive, negative)) end
  return reduced(op.max(near - far + o.margin, 0.0), o.reduction)
end)

-- ---- of classes -------------------------------------------------------------------------------

-- Of the softmax over an axis, the last by default (PyTorch's is the second); labels are integers,
-- of the shape without it. Rows whose label is ignore_index do not count; weight is a tensor of a
-- number for each class, by which its rows, and their share of the mean, are multiplied.
define([[cross_entropy(x|logits: tensor, labels|target: tensor, {axis: axis = -1,
       label_smoothing: number = 0, ignore_index: whole = -100, weight: tensor = nil,
       reduction: none/mean/sum = mean})]],
       "F.cross_entropy, nn.CrossEntropyLoss", function(x, labels, o)
  if o.axis ~= #shape(x) then x = nn.movedim(x, o.axis, -1) end
  local dims, of = shape(x), shape(labels)
  local rank, wide = #dims, {}
  for i = 1, rank - 1 do wide[i] = dims[i] end
  local fits = #of == rank - 1 and not core.dtype(labels):find("f")
  for i, d in ipairs(of) do fits = fits and d == dims[i] end
  if not fits then
    fail("cross_entropy: wants integer labels of shape (%s) for logits %s, not %s %s",
         table.concat(wide, ", "), tostring(x), core.dtype(labels), tostring(labels))
  end
  if o.label_smoothing < 0 or o.label_smoothing > 1 then
    fail("cross_entropy: label_smoothing = %g: wants 0 to 1", o.label_smoothing)
  end
  wide[rank] = 1
  local counts = op.ne(labels, o.ignore_index)
  local known = op.where(counts, labels, 0)
  local lse = nn.logsumexp(x, rank)
  local chosen = nn.reshape(along(x, nn.reshape(known, wide), rank), of)
  local each, share = lse - chosen, nil
  if o.weight then
    share = nn.gather(o.weight, known, 1)
    each = each * share
  end
  local s = o.label_smoothing
  if s > 0 then -- and a little of every class
    local spread = lse - nn.sum(x, rank) * (1 / dims[rank])
    if o.weight then
      local row = {}
      for i = 1, rank do row[i] = i == rank and dims[rank] or 1 end
      local weights = nn.reshape(o.weight, row)
      spread = (lse * nn.sum(o.weight) - nn.sum(x * weights, rank)) * (1 / dims[rank])
    end
    each = each * (1 - s) + spread * s
  end
  each = op.where(counts, each, 0.0)
  local total = share and op.where(counts, share, 0.0) or counts:to("f32")
  return reduced(each, o.reduction, nn.sum(total))
end)

-- -x[label] for logarithms x of probabilities along an axis, the last by default (PyTorch's is the
-- second).
define([[nll_loss(x: tensor, labels|target: tensor, {axis: axis = -1,
       ignore_index: whole = -100, weight: tensor = nil, reduction: none/mean/sum = mean})]],
       "F.nll_loss, nn.NLLLoss, nn.NLLLoss2d", function(x, labels, o)
  if o.axis ~= #shape(x) then x = nn.movedim(x, o.axis, -1) end
  local wide = shape(labels)
  if table.concat(wide, ",") ~= table.concat(shape(x), ",", 1, #shape(x) - 1) then
    fail("nll_loss: wants labels of the shape of %s without its classes, not %s", tostring(x),
         tostring(labels))
  end
  wide[#wide + 1] = 1
  local counts = op.ne(labels, o.ignore_index)
  local known = op.where(counts, labels, 0)
  local each = -nn.reshape(along(x, nn.reshape(known, wide), #wide), shape(labels))
  local share = o.weight and nn.gather(o.weight, known, 1) or nil
  if share then each = each * share end
  return reduced(op.where(counts, each, 0.0), o.reduction,
                 nn.sum(share and op.where(counts, share, 0.0) or counts:to("f32")))
end)

-- 1 for each row whose largest element, along the last dimension, is at its label, else 0.
define("accuracy(x|logits: tensor, labels: tensor)", "", function(x, labels)
  return op.eq(nn.argmax(x, #shape(x)), labels):to("f32")
end)

-- ---- of sequences -----------------------------------------------------------------------------

-- Connectionist temporal classification (Graves et al., 2006): the negative logarithm of the
-- probability of all alignments of labels (N, S) with x (T, N, C), logarithms of probabilities; of
-- example n the first lengths[n] steps and target_lengths[n] labels count. One step of the forward
-- recursion after another: T is a number of the model. "mean" divides each by its labels first;
-- zero_infinity: what no alignment reaches is 0.
define([[ctc_loss(x|log_probs: tensor, labels|targets: tensor, lengths|input_lengths: tensor,
       target_lengths: tensor, {blank: whole = 0, reduction: none/mean/sum = mean,
       zero_infinity: boolean = false})]], "F.ctc_loss, nn.CTCLoss",
       function(x, labels, lengths, target_lengths, o)
  local T, N, C = table.unpack(shape(x))
  local S = shape(labels)[2]
  if #shape(x) ~= 3 or #shape(labels) ~= 2 or shape(labels)[1] ~= N then
    fail("ctc_loss: wants (T, N, C) and labels (N, S), not %s and %s", tostring(x),
         tostring(labels))
  end
  if o.blank < 0 or o.blank >= C then fail("ctc_loss: blank = %d of %d classes", o.blank, C) end
  local none = -1e30 -- the logarithm of no probability: finite, so that differences are
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
    return nn.custom_gradient(y, {a, b}, function(g) -- without a step where they are equal
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
  return nn.mean(y / op.max(target_lengths, 1):to("f32"))
end)
