-- nn_moments.lua: variances and norms, of the module `nn` (nn.lua). `axes` is one axis or a list,
-- by default all; the reduced dimensions are dropped unless `keep`.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define = tools.fail, tools.define
local bits_for, count_of = tools.axes_given.bits, tools.axes_given.count
local squeeze, floats = tools.axes_given.squeeze, tools.axes_given.floats

-- sum^(1/p), with derivative 0 at 0, as in torch's norm and std.
local function root(sum, p)
  local y = p == 2 and op.sqrt(sum) or op.pow(sum, 1 / p)
  return nn.custom_gradient(y, {sum}, function(g)
    local zero = op.eq(sum, 0.0)
    return op.where(zero, 0.0, g * y / op.where(zero, 1.0, sum * p))
  end)
end
tools.root = root

-- ---- variances ---------------------------------------------------------------------------------

-- The sum of squared deviations from the mean over count - correction; accurate for a mean that is
-- large relative to the deviation.
local function variance(name, x, bits, correction)
  local n = count_of(x, bits)
  return op.reduce_var(floats(name, x), {axes = bits}) * (n / math.max(n - correction, 0))
end
-- The variance: squared deviations from the mean, summed, over (count - correction); NaN with too
-- few elements.
define("var(x: tensor, axes: axes = nil, keep|keepdim: boolean = false, correction: whole = 1)",
       "torch.var", function(x, axes, keep, correction)
  local bits = bits_for(x, axes)
  return squeeze(variance("var", x, bits, correction), bits, keep)
end)
-- The standard deviation.
define("std(x: tensor, axes: axes = nil, keep|keepdim: boolean = false, correction: whole = 1)",
       "torch.std", function(x, axes, keep, correction)
  local bits = bits_for(x, axes)
  return squeeze(root(variance("std", x, bits, correction), 2), bits, keep)
end)
-- Variance and mean: two results.
define([[var_mean(x: tensor, axes: axes = nil, keep|keepdim: boolean = false,
       correction: whole = 1)]], "torch.var_mean", function(x, axes, keep, correction)
  return nn.var(x, axes, keep, correction), nn.mean(x, axes, keep)
end)
-- Standard deviation and mean: two results.
define([[std_mean(x: tensor, axes: axes = nil, keep|keepdim: boolean = false,
       correction: whole = 1)]], "torch.std_mean", function(x, axes, keep, correction)
  return nn.std(x, axes, keep, correction), nn.mean(x, axes, keep)
end)
-- The weights of observations (N): counts times shares; nil if neither is given.
local function observation_weights(n, o)
  local function wanted(name, floats)
    local v = o[name]
    if v and (#shape(v) ~= 1 or shape(v)[1] ~= n or tools.is_float(v) ~= floats) then
      fail("cov: %s: expected %s (%d), one for each observation, got %s %s", name,
           floats and "floats" or "integers", n, core.dtype(v), tostring(v))
    end
    return v
  end
  local often, share = wanted("fweights", false), wanted("aweights", true)
  return often and share and often * share or often and often:to("f32") or share, share
end
-- The covariance matrix of variables (rows) over observations (columns); for one row, or a vector,
-- its variance. fweights (N): integer count of each observation; aweights (N): its float weight.
define([[cov(x: tensor, {correction: whole = 1, fweights: tensor = nil, aweights: tensor = nil})]],
       "torch.cov", function(x, o)
  if #shape(x) < 2 then return nn.cov(op.reshape(x, {dims = {1, nn.numel(x)}}), o) end
  if #shape(x) ~= 2 then fail("cov: expected (variables, observations), got %s", tostring(x)) end
  local n = shape(x)[2]
  local weights, share = observation_weights(n, o)
  if not weights then
    local d = x - nn.mean(x, 2, true)
    return nn.squeeze(op.matmul(d, nn.transpose(d)) * (1 / math.max(n - o.correction, 0)))
  end
  local total = nn.sum(weights)
  local d = x - nn.sum(x * weights, 2, true) / total
  local less = o.correction + 0.0 -- subtracted from the number of observations
  if share then less = nn.sum(weights * share) / total * less end
  return nn.squeeze(op.matmul(d * weights, nn.transpose(d)) / op.max(total - less, 0.0))
end)
-- The correlation matrix of rows of observations; for one row, or a vector, a number.
define("corrcoef(x: tensor)", "torch.corrcoef", function(x)
  if #shape(x) < 2 then return nn.corrcoef(op.reshape(x, {dims = {1, nn.numel(x)}})) end
  if #shape(x) ~= 2 then
    fail("corrcoef: expected (variables, observations), got %s", tostring(x))
  end
  local d = x - nn.mean(x, 2, true)
  local rows = d * op.rsqrt(nn.sum(d * d, 2, true))
  return nn.squeeze(nn.clamp(op.matmul(rows, nn.transpose(rows)), -1.0, 1.0))
end)

-- ---- norms -------------------------------------------------------------------------------------

-- (sum |x|^p)^(1/p); p = inf: the largest |x|, -inf: the smallest, 0: the number of non-zero
-- elements; "fro" is 2.
define("norm(x: tensor, p: any = 2, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.norm", function(x, p, axes, keep)
  if p == "fro" then p = 2 end
  if type(p) ~= "number" then fail("norm: p = %s: expected a number or \"fro\"", tools.said(p)) end
  local size = op.abs(floats("norm", x))
  if p == math.huge then return nn.amax(size, axes, keep) end
  if p == -math.huge then return nn.amin(size, axes, keep) end
  if p == 0 then return nn.to(nn.sum(op.ne(x, 0), axes, keep), core.dtype(x)) end
  if p == 1 then return nn.sum(size, axes, keep) end
  if p == 2 then return root(nn.sum(x * x, axes, keep), 2) end
  if p < 1 then -- the derivative at 0 is infinite: 0, as in torch
    local zero = op.eq(size, 0.0)
    size = op.where(zero, p > 0 and 0.0 or math.huge, op.pow(op.where(zero, 1.0, size), p))
  else
    size = op.pow(size, p)
  end
  return root(nn.sum(size, axes, keep), p + 0.0)
end)
-- norm, under its name in torch.linalg.
define("vector_norm(x: tensor, p|ord: number = 2, axes: axes = nil, keep|keepdim: boolean = false)",
       "torch.linalg.vector_norm", function(x, p, axes, keep) return nn.norm(x, p, axes, keep) end)
-- Norms of matrices along two axes: "fro" of all elements, 1 and -1: the largest and the smallest
-- column sum of |x|, inf and -inf: row sums.
define([[matrix_norm(x: tensor, p|ord: any = "fro", axes: axes = nil,
       keep|keepdim: boolean = false)]], "torch.linalg.matrix_norm", function(x, p, axes, keep)
  local rank = #shape(floats("matrix_norm", x))
  if rank < 2 then fail("matrix_norm: expected matrices, got %s", tostring(x)) end
  axes = axes or {rank - 1, rank}
  if #axes ~= 2 then fail("matrix_norm: axes: expected two, got %d", #axes) end
  if p == "fro" then return nn.norm(x, 2, axes, keep) end
  local size = type(p) == "number" and math.abs(p)
  if size ~= 1 and size ~= math.huge then
    fail("matrix_norm: p = %s: expected \"fro\", 1, -1, inf or -inf; there are no singular values",
         tools.said(p))
  end
  local over, from = axes[1], axes[2]
  if size ~= 1 then over, from = from, over end
  local sums = nn.sum(op.abs(x), over, true)
  local extreme = p > 0 and nn.amax or nn.amin
  return squeeze(extreme(sums, from, true), bits_for(x, axes), keep)
end)
-- x divided by its norm along an axis, or by eps if that is larger.
define("normalize(x: tensor, p: number = 2, axis: axis = 2, eps: number = 1e-12)",
       "F.normalize", function(x, p, axis, eps)
  return x / op.max(nn.norm(x, p, axis, true), eps)
end)
-- Scales rows along an axis down to a norm of at most `most`.
define("renorm(x: tensor, p: number, axis: axis, most|maxnorm: number)",
       "torch.renorm", function(x, p, axis, most)
  local others = {}
  for i = 1, #shape(x) do if i ~= axis then others[#others + 1] = i end end
  local size = nn.norm(x, p, others, true)
  return op.where(op.gt(size, most), x * (most / (size + 1e-7)), x)
end)
