-- nn_optimizers.lua: the update rules of optimizers, of the module `nn` (nn.lua): a parameter's new
-- value from its gradient. nn_optim.lua calls and documents them. Those of PyTorch have its
-- options, defaults and results.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools

-- Per optimizer: known, its options with defaults; step(p, g, lr, t, slot, o) returns the parameter
-- after the step, given its gradient g, this step's rate lr, the step t from 1, as f32, and the
-- options o; slot(name, first = 0) is a state of p's shape, initially `first`, and the function
-- that sets it (slot.shared(name, first): one of one element, shared by all parameters). counts, or
-- counts(o): true if it reads t, which does not count skipped updates.
local optimizers = {}
tools.optimizers = optimizers

-- 1 - decay^t, accurate for small t too: by the series of exp(x) - 1 near 0.
local function debias(decay, t)
  local x = t * math.log(decay)
  local near = x * (x * (x * (x * (x * (1 / 120) + 1 / 24) + 1 / 6) + 0.5) + 1.0)
  return -op.where(op.gt(x, -0.1), near, op.exp(x) - 1.0)
end

local function sign(x) return op.where(op.gt(x, 0.0), 1.0, op.where(op.lt(x, 0.0), -1.0, 0.0)) end

-- The gradient of the loss plus decay / 2 times the parameter's square.
local function with_decay(g, p, o) return o.weight_decay ~= 0 and g + p * o.weight_decay or g end
-- Decoupled weight decay: the parameter minus a fraction of itself.
local function decayed(p, lr, o)
  return o.weight_decay ~= 0 and p - p * (lr * o.weight_decay) or p
end

-- An exponential moving average of x: state = decay * state + (1 - decay) * x.
local function mean_of(x, what, decay, slot)
  local mean, put = slot(what)
  local now = mean + (x - mean) * (1 - decay)
  put(now)
  return now
end
local function mean_square(g, what, decay, slot) -- the square may overflow, its share not
  local mean, put = slot(what)
  local now = mean * decay + (1 - decay) * g * g
  put(now)
  return now
end

optimizers.sgd = {
  known = {momentum = 0.0, dampening = 0.0, nesterov = false, weight_decay = 0.0},
  counts = function(o) return o.dampening ~= 0 end,
  step = function(p, g, lr, t, slot, o)
    g = with_decay(g, p, o)
    if o.momentum == 0 then return p - g * lr end
    local speed, put = slot("momentum")
    local new = g
    if o.dampening ~= 0 then new = g * op.where(op.eq(t, 1.0), 1.0, 1 - o.dampening) end
    local now = speed * o.momentum + new
    put(now)
    return p - (o.nesterov and g + now * o.momentum or now) * lr
  end}

-- ---- Adam and its relatives --------------------------------------------------------------------

local function adam(decoupled)
  return function(p, g, lr, t, slot, o)
    if decoupled then p = decayed(p, lr, o) else g = with_decay(g, p, o) end
    local m = mean_of(g, "exp_avg", o.beta1, slot)
    local v = mean_square(g, "exp_avg_sq", o.beta2, slot)
    if o.amsgrad then
      local most, put = slot("max_exp_avg_sq")
      v = op.max(most, v)
      put(v)
    end
    local scale = op.rsqrt(debias(o.beta2, t))
    return p - m * (lr / debias(o.beta1, t)) / (op.sqrt(v) * scale + o.eps)
  end
end
local function of_adam(weight_decay)
  return {beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = weight_decay}
end
optimizers.adam = {known = of_adam(0.0), counts = true, step = adam(false)}
optimizers.adamw = {known = of_adam(0.01), counts = true, step = adam(true)}
optimizers.adam.known.amsgrad, optimizers.adamw.known.amsgrad = false, false

-- Kingma and Ba 2014, section 7: by the largest gradient in place of a mean square.
optimizers.adamax = {
  known = of_adam(0.0), counts = true,
  step = function(p, g, lr, t, slot, o)
    g = with_decay(g, p, o)
    local m = mean_of(g, "exp_avg", o.beta1, slot)
    local most, put = slot("exp_inf")
    local u = op.max(most * o.beta2, op.abs(g) + o.eps)
    put(u)
    return p - m * (lr / debias(o.beta1, t)) / u
  end}

-- Dozat 2016: Adam with Nesterov momentum, which grows over the steps.
optimizers.nadam = {
  known = of_adam(0.0), counts = true,
  step = function(p, g, lr, t, slot, o)
    g = with_decay(g, p, o)
    local function momentum(step)
      local part = op.exp(step * (o.momentum_decay * math.log(0.96))) * 0.5
      return (1.0 - part) * o.beta1
    end
    local now, ahead = momentum(t), momentum(t + 1.0)
    local name = string.format("mu_product_%g_%g", o.beta1, o.momentum_decay)
    local product, put = slot.shared(name, 1)
    local all = product * now
    put(all)
    local m = mean_of(g, "exp_avg", o.beta1, slot)
    local v = mean_square(g, "exp_avg_sq", o.beta2, slot)
    local by = op.sqrt(v) * op.rsqrt(debias(o.beta2, t)) + o.eps
    return p - (g * (lr * (1.0 - now) / (1.0 - all)) + m * (lr * ahead / (1.0 - all * ahead))) / by
  end}
optimizers.nadam.known.momentum_decay = 4e-3

-- Liu et al. 2019: Adam that uses momentum alone while the variance of the mean square is too high.
optimizers.radam = {
  known = of_adam(0.0), counts = true,
  step = function(p, g, lr, t, slot, o)
    g = with_decay(g, p, o)
    local m = mean_of(g, "exp_avg", o.beta1, slot) * (lr / debias(o.beta1, t))
    local v = mean_square(g, "exp_avg_sq", o.beta2, slot)
    -- rho = most - 2 t b^t / (1 - b^t), b = beta2, is a difference of two large, nearly equal
    -- numbers, while x = -t log(b) is small: there computed by the series of x / (e^x - 1)
    local rate, most = -math.log(o.beta2), 2 / (1 - o.beta2) - 1
    local x = t * rate
    local near = t * (1 - x * (1 / 6) + x * x * x * (1 / 360)) + (most - 2 / rate)
    local rho = op.where(op.lt(x, 0.5), near, most - 2 * t / (op.exp(x) - 1.0))
    local safe = op.max(rho, 5.0)
    local scale = most / ((most - 4) * (most - 2))
    local rectified = op.sqrt((safe - 4.0) * (safe - 2.0) / safe * scale)
    local by = op.sqrt(debias(o.beta2, t)) / (op.sqrt(v) + o.eps)
    return p - m * op.where(op.gt(rho, 5.0), rectified * by, 1.0)
  end}

-- ---- by the squares of gradients ---------------------------------------------------------------

optimizers.rmsprop = {
  known = {alpha = 0.99, eps = 1e-8, weight_decay = 0.0, momentum = 0.0, centered = false},
  step = function(p, g, lr, t, slot, o)
    g = with_decay(g, p, o)
    local v = mean_square(g, "square_avg", o.alpha, slot)
    if o.centered then
      local mean = mean_of(g, "grad_avg", o.alpha, slot)
      v = op.max(v - mean * mean, 0.0)
    end
    local move = g / (op.sqrt(v) + o.eps)
    if o.momentum ~= 0 then
      local speed, put = slot("momentum")
      move = speed * o.momentum + move
      put(move)
    end
    return p - move * lr
  end}

optimizers.adagrad = {
  known = {lr_decay = 0.0, weight_decay = 0.0, initial_accumulator_value = 0.0, eps = 1e-10},
  counts = function(o) return o.lr_decay ~= 0 end,
  step = function(p, g, lr, t, slot, o)
    g = with_decay(g, p, o)
    local sum, put = slot("sum", o.initial_accumulator_value)
    local now = sum + g * g
    put(now)
    if o.lr_decay ~= 0 then lr = lr / ((t - 1.0) * o.lr_decay + 1.0) end
    return p - g * lr / (op.sqrt(now) + o.eps)
  end}

optimizers.adadelta = {
  known = {rho = 0.9, eps = 1e-6, weight_decay = 0.0},
  step = function(p, g, lr, t, slot, o)
    g = with_decay(g, p, o)
    local v = mean_square(g, "square_avg", o.rho, slot)
    local moved, put = slot("acc_delta")
    local delta = op.sqrt(moved + o.eps) / op.sqrt(v + o.eps) * g
    put(moved * o.rho + (1 - o.rho) * delta * delta)
    return p - delta * lr
  end}

-- ---- by signs ----------------------------------------------------------------------------------

-- Chen et al. 2023: the sign of a mix of momentum and gradient.
optimizers.lion = {
  known = {beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0},
  step = function(p, g, lr, t, slot, o)
    local mean, put = slot("exp_avg")
    put(mean * o.beta2 + g * (1 - o.beta2))
    return decayed(p, lr, o) - sign(mean * o.beta1 + g * (1 - o.beta1)) * lr
  end}

-- Riedmiller and Braun 1993: each weight has its own step size, initially `lr`, which grows while
-- its gradient keeps its sign.
optimizers.rprop = {
  known = {etas = {0.5, 1.2}, step_sizes = {1e-6, 50}}, counts = true,
  step = function(p, g, lr, t, slot, o)
    local before, put_before = slot("prev")
    local size, put_size = slot("step_size")
    local same = sign(g) * sign(before)
    local by = op.where(op.gt(same, 0.0), o.etas[2], op.where(op.lt(same, 0.0), o.etas[1], 1.0))
    size = op.where(op.eq(t, 1.0), lr, size) * by
    size = op.min(op.max(size, o.step_sizes[1]), o.step_sizes[2])
    put_size(size)
    g = op.where(op.lt(same, 0.0), 0.0, g)
    put_before(g)
    return p - sign(g) * size
  end}

-- ---- others ------------------------------------------------------------------------------------

-- Polyak and Juditsky 1992: a falling rate; the state `ax` is the parameter's mean from step t0 on.
optimizers.asgd = {
  known = {lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0.0}, counts = true,
  step = function(p, g, lr, t, slot, o)
    g = with_decay(g, p, o)
    local eta = lr / op.pow((t - 1.0) * (lr * o.lambd) + 1.0, o.alpha)
    local now = p * (1.0 - eta * o.lambd) - g * eta
    local mean, put = slot("ax")
    put(mean + (now - mean) / op.max(t - 1.0 - o.t0, 1.0))
    return now
  end}

-- Approximately the orthogonal matrix nearest to g: five Newton-Schulz iterations (Jordan 2024).
local function orthogonal(g, eps)
  local dims = shape(g)
  local tall = dims[1] > dims[2]
  local x = tall and nn.transpose(g) or g
  x = x / op.max(op.sqrt(nn.sum(x * x)), eps)
  for _ = 1, 5 do
    local a = op.matmul(x, nn.transpose(x))
    x = x * 3.4445 + op.matmul(a * -4.7750 + op.matmul(a, a) * 2.0315, x)
  end
  return tall and nn.transpose(x) or x
end

-- Orthogonalised momentum for matrices; AdamW with the rate `adamw_lr` for other parameters.
optimizers.muon = {
  known = {momentum = 0.95, nesterov = true, weight_decay = 0.1, eps = 1e-7, adamw_lr = false},
  counts = true,
  step = function(p, g, lr, t, slot, o)
    if #shape(p) ~= 2 then
      local rate = o.adamw_lr and (o.factor and o.factor * o.adamw_lr or o.adamw_lr) or lr
      return optimizers.adamw.step(p, g, rate, t, slot, of_adam(o.weight_decay))
    end
    local speed, put = slot("momentum")
    local now = speed * o.momentum + g * (1 - o.momentum)
    put(now)
    local ahead = o.nesterov and g * (1 - o.momentum) + now * o.momentum or now
    local dims = shape(p)
    local size = math.sqrt(math.max(1, dims[1] / dims[2]))
    return p * (1 - lr * o.weight_decay) - orthogonal(ahead, o.eps) * (lr * size)
  end}

-- The default weight decay of an optimizer, or nil if it has none.
function tools.own_decay(name)
  local kind = optimizers[name]
  return kind and kind.known.weight_decay
end
