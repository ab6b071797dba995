-- nn_loss.lua: losses and metrics, of the module `nn` (nn.lua): compositions of maps and
-- reductions, which are fused and which nn.grad differentiates. Names and definitions are
-- PyTorch's.
-- Every loss takes `reduction`: "mean" (the default) and "sum" return one number, "none" a value
-- per element, or per row of classes.
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

-- `shares`: the weight of each value in the mean's divisor; nil: 1.
local function reduced(values, how, shares)
  if how == "none" then return values end
  if how == "sum" then return nn.sum(values) end
  return shares and nn.sum(values) / nn.sum(shares) or nn.mean(values)
end
tools.reduced = reduced

local function broadcasting(what, x, y)
  local a, b = shape(x), shape(y)
  for i = 0, math.min(#a, #b) - 1 do
    local m, n = a[#a - i], b[#b - i]
    if m ~= n and m ~= 1 and n ~= 1 then
      fail("%s: prediction and target do not broadcast: %s and %s", what, tostring(x), tostring(y))
    end
  end
end

-- f(x, y, o): a value for each element of two tensors, which broadcast, or have one shape.
local function elementwise(name, f, wants)
  return function(x, y, o)
    (wants or broadcasting)(name, x, y)
    return reduced(f(x, y, o), o.reduction)
  end
end

-- ---- regression ---------------------------------------------------------------------------------

-- Squared differences.
define("mse_loss(x: tensor, y|target: tensor, {reduction: none/mean/sum = mean})",
       "F.mse_loss, nn.MSELoss",
       elementwise("mse_loss", function(x, y) return (x - y) * (x - y) end))
-- Absolute differences.
define("l1_loss(x: tensor, y|target: tensor, {reduction: none/mean/sum = mean})",
       "F.l1_loss, nn.L1Loss",
       elementwise("l1_loss", function(x, y) return op.abs(x - y) end))
-- Half the squared difference up to delta, linear beyond it.
define([[huber_loss(x: tensor, y|target: tensor, {delta: number = 1,
       reduction: none/mean/sum = mean})]],
       "F.huber_loss, nn.HuberLoss", elementwise("huber_loss", function(x, y, o)
  if o.delta <= 0 then fail("huber_loss: delta = %g: expected a number above 0", o.delta) end
  local d = op.abs(x - y)
  local far = op.gt(d, o.delta)
  local near = op.where(far, 0, x - y) -- so that the gradient is finite for an infinite d
  return op.where(far, (d - o.delta * 0.5) * o.delta, near * near * 0.5)
end))
-- huber_loss / beta; l1_loss if beta is 0.
define([[smooth_l1_loss(x: tensor, y|target: tensor, {beta: number = 1,
       reduction: none/mean/sum = mean})]],
       "F.smooth_l1_loss, nn.SmoothL1Loss", elementwise("smooth_l1_loss", function(x, y, o)
  if o.beta < 0 then fail("smooth_l1_loss: beta = %g: expected at least 0", o.beta) end
  local d = op.abs(x - y)
  if o.beta == 0 then return d end
  local far = op.ge(d, o.beta)
  local near = op.where(far, 0, x - y)
  return op.where(far, d - o.beta * 0.5, near * near * (0.5 / o.beta))
end))

-- ---- of probabilities -------------------------------------------------------------------------

local softplus = tools.softplus -- log(1 + exp(x))

-- Binary cross-entropy of sigmoid(x) with y from 0 to 1; finite for every finite x. pos_weight: a
-- number or a tensor.
define([[bce_with_logits|binary_cross_entropy_with_logits(x: tensor, y|target: tensor,
       {weight: tensor = nil, pos_weight: value = 1, reduction: none/mean/sum = mean})]],
       "F.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss",
       elementwise("bce_with_logits", function(x, y, o)
  local each = (1.0 - y) * x + softplus(-x) * (y * (o.pos_weight - 1.0) + 1.0)
  return o.weight and each * o.weight or each
end, same_shape))
-- Binary cross-entropy of probabilities x; logarithms are clamped to at least -100.
define([[binary_cross_entropy|bce_loss(x: tensor, y|target: tensor, {weight: tensor = nil,
       reduction: none/mean/sum = mean})]],
       "F.binary_cross_entropy, nn.BCELoss", elementwise("binary_cross_entropy", function(x, y, o)
  local on, off = op.max(op.log(x), -100.0), op.max(op.log1p(-x), -100.0)
  -- 1 / x is infinite at 0; PyTorch's derivative, which is finite at 0 and at 1.
  local each = nn.custom_gradient((y - 1.0) * off - y * on, {x, y}, function(g)
    return g * (x - y) / op.max((1.0 - x) * x, 1e-12), g * (off - on)
  end)
  return o.weight and each * o.weight or each
end, same_shape))
-- y * (log(y) - x) for log-probabilities x; with log_target y is a logarithm, too. "batchmean"
-- divides by the number of examples.
define([[kl_div(x: tensor, y|target: tensor, {log_target: boolean = false,
       reduction: none/mean/sum/batchmean = mean})]], "F.kl_div, nn.KLDivLoss", function(x, y, o)
  broadcasting("kl_div", x, y)
  local each = o.log_target and op.exp(y) * (y - x) or nn.xlogy(y, y) - y * x
  if o.reduction == "batchmean" then return nn.sum(each) * (1 / (shape(x)[1] or 1)) end
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
-- Negative log-likelihood of y under a normal distribution of mean x and variance var, which has
-- the shape of x, or 1 as the last dimension, or lacks it.
define([[gaussian_nll_loss(x: tensor, y|target: tensor, var: tensor, {full: boolean = false,
       eps: number = 1e-6, reduction: none/mean/sum = mean})]],
       "F.gaussian_nll_loss, nn.GaussianNLLLoss", function(x, y, var, o)
  broadcasting("gaussian_nll_loss", x, y)
  local wide = tools.with(shape(x), #shape(x), 1)
  local of, lead = table.concat(shape(var), ","), table.concat(wide, ",", 1, #wide - 1)
  if of == lead and #wide > 0 then var = nn.unsqueeze(var, -1)
  elseif of ~= table.concat(wide, ",") and of ~= table.concat(shape(x), ",") then
    fail("gaussian_nll_loss: var: expected the shape of %s, got %s", tostring(x), tostring(var))
  end
  -- As PyTorch's, the derivative passes through the clamp at eps, so that small variances grow
  -- again
  var = nn.custom_gradient(op.max(var, o.eps), {var}, function(g) return g end)
  local each = (op.log(var) + (x - y) * (x - y) / var) * 0.5
  return reduced(o.full and each + 0.5 * math.log(2 * math.pi) or each, o.reduction)
end)

-- ---- of margins: y is 1 or -1 -----------------------------------------------------------------

-- log(1 + exp(-y x)).
define("soft_margin_loss(x: tensor, y|target: tensor, {reduction: none/mean/sum = mean})",
       "F.soft_margin_loss, nn.SoftMarginLoss",
       elementwise("soft_margin_loss", function(x, y) return softplus(-y * x) end))
-- x where y is 1, max(0, margin - x) where it is -1; for any other y their sum.
define([[hinge_embedding_loss(x: tensor, y|target: tensor, {margin: number = 1,
       reduction: none/mean/sum = mean})]],
       "F.hinge_embedding_loss, nn.HingeEmbeddingLoss",
       elementwise("hinge_embedding_loss", function(x, y, o)
         local over = op.max(o.margin - x, 0.0)
         return op.where(op.ne(y, -1), x, 0.0) + op.where(op.ne(y, 1), over, 0.0)
       end))
-- max(0, -y (a - b) + margin).
define([[margin_ranking_loss(a: tensor, b: tensor, y|target: tensor, {margin: number = 0,
       reduction: none/mean/sum = mean})]],
       "F.margin_ranking_loss, nn.MarginRankingLoss", function(a, b, y, o)
  return reduced(op.max(-y * (a - b) + o.margin, 0.0), o.reduction)
end)
-- 1 - cos where y is 1, max(0, cos - margin) where it is -1; for rows (N, D).
define([[cosine_embedding_loss(a: tensor, b: tensor, y|target: tensor, {margin: number = 0,
       reduction: none/mean/sum = mean})]],
       "F.cosine_embedding_loss, nn.CosineEmbeddingLoss", function(a, b, y, o)
  local function size(v) return nn.sum(v * v, -1) + 1e-12 end
  local cosine = nn.sum(a * b, -1) / op.sqrt(size(a) * size(b))
  return reduced(op.where(op.eq(y, 1), 1.0 - cosine, op.max(cosine - o.margin, 0.0)), o.reduction)
end)
-- max(0, |anchor - positive| - |anchor - negative| + margin) of rows; swap: the negative's distance
-- is the smaller of those to anchor and positive.
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
-- triplet_margin_loss with a custom distance: f(x, y) of rows.
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
