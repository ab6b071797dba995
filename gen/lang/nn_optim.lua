-- nn_optim.lua: steps of optimizers, of the module `nn` (nn.lua): from a loss to what every
-- parameter holds after the step. All is made of maps and reductions on the device: schedules and
-- loss scaling need no host.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, options, count = tools.fail, tools.options, tools.count
local REQUIRED = tools.REQUIRED

-- A step, or another number of this step that is a tensor: as one of shape (1).
local function one_element(what, x)
  local n = core.is_tensor(x) and 1
  for _, d in ipairs(n and shape(x) or {}) do n = n * d end
  if n ~= 1 then
    fail("optimize: %s = %s: wants a tensor of one element, as a state is that an entry updates",
         what, tools.said(x))
  end
  return nn.reshape(x, {1})
end

-- A state, or a parameter, holds `value` after the step. What is of one element and was multiplied
-- by tensors of shape (1), a rate say, has that shape: it is given the target's.
local function set(target, value)
  local dims = shape(target)
  if #shape(value) ~= #dims then value = nn.reshape(value, dims) end
  core.update(target, value)
  return value
end
tools.set_state = set

-- ---- schedules: what the learning rate is multiplied by at a step, from 0 -----------------------
-- `at` is the step, `total` the number of steps, both tensors of one element as f32.

local schedules = {}
local function clamped(x) return op.min(op.max(x, 0.0), 1.0) end
local function cosine_down(x) return (op.cos(x * math.pi) + 1.0) * 0.5 end -- from 1 to 0

function schedules.constant(at) return at * 0.0 + 1.0 end
-- down by `gamma` at each of the milestones, parts of the whole run
function schedules.step(at, total, o)
  local factor = at * 0.0 + 1.0
  for _, part in ipairs(o.milestones) do
    factor = factor * op.where(op.ge(at, op.floor(total * part)), o.gamma, 1.0)
  end
  return factor
end
-- half a cosine from 1 to 0, behind the warm-up
function schedules.cosine(at, total, o)
  return cosine_down(clamped((at - o.warmup) / op.max(total - o.warmup, 1.0)))
end
-- up from 1 / 25 for three tenths of the run, then down to 1 / 250 000, by half cosines (torch's
-- OneCycleLR)
function schedules.one_cycle(at, total)
  local low, last, peak = 1 / 25, 1 / 25e4, total * 0.3 - 1.0
  local up = 1 - cosine_down(clamped(at / op.max(peak, 1.0)))
  local down = cosine_down(clamped((at - peak) / op.max(total - 1.0 - peak, 1.0)))
  return op.where(op.le(at, peak), up * (1 - low) + low, down * (1 - last) + last)
end

-- schedule(name, at, total, {warmup = 0, milestones = {0.5, 0.75}, gamma = 0.1}): the factor of the
-- learning rate at step `at` (from 0) of `total`: "constant", "step", "cosine" or "one_cycle". The
-- first `warmup` steps rise in a straight line, step t by (t + 1) / warmup.
function nn.schedule(name, at, total, given)
  local o = options("schedule", given, {warmup = 0, milestones = {0.5, 0.75}, gamma = 0.1})
  tools.check_ranges("schedule", o)
  tools.check_milestones("schedule", o.milestones)
  local f = schedules[name]
      or fail("schedule: '%s' is none of constant, step, cosine, one_cycle", tostring(name))
  if not core.is_tensor(at) then
    fail("schedule: at = %s: wants the step as a tensor, a state that an entry updates",
         tools.said(at))
  end
  if not core.is_tensor(total) then tools.checks.number("schedule: total", total) end
  at, total = at:to("f32"), core.is_tensor(total) and total:to("f32") or total + at:to("f32") * 0.0
  local factor = f(at, total, o)
  if o.warmup == 0 then return factor end
  return factor * op.min((at + 1.0) * (1 / o.warmup), 1.0)
end

-- ---- optimizers: (p, g, lr, t, slot, options) -> the parameter after the step -------------------
-- g: its gradient; lr: the rate of this step; t: the step from 1, as f32; slot(name): a state of
-- p's shape and the function that sets it. counts: t is how many steps there were that it made.

local optimizers = {}

-- 1 - decay^t, to the last bit where t is small too: by the series of exp(x) - 1 near 0.
local function debias(decay, t)
  local x = t * math.log(decay)
  local near = x * (x * (x * (x * (x * (1 / 120) + 1 / 24) + 1 / 6) + 0.5) + 1.0)
  return -op.where(op.gt(x, -0.1), near, op.exp(x) - 1.0)
end

-- A rate at this step, of an optimizer's options.
local function rate_now(o, rate) return o.factor and o.factor * rate or rate end

local function sign(x) return op.where(op.gt(x, 0.0), 1.0, op.where(op.lt(x, 0.0), -1.0, 0.0)) end

optimizers.sgd = {
  known = {momentum = 0.0, nesterov = false, weight_decay = 0.0},
  step = function(p, g, lr, t, slot, o)
    if o.weight_decay ~= 0 then g = g + p * o.weight_decay end
    if o.momentum == 0 then return p - g * lr end
    local speed, put = slot("momentum")
    local now = speed * o.momentum + g
    put(now)
    return p - (o.nesterov and g + now * o.momentum or now) * lr
  end}

local function adam(decoupled)
  return function(p, g, lr, t, slot, o)
    if o.weight_decay ~= 0 then
      if decoupled then p = p - p * (lr * o.weight_decay) else g = g + p * o.weight_decay end
    end
    local mean, put_mean = slot("exp_avg")
    local square, put_square = slot("exp_avg_sq")
    local m = mean + (g - mean) * (1 - o.beta1)
    local v = square * o.beta2 + (1 - o.beta2) * g * g
    put_mean(m)
    put_square(v)
    local scale = op.rsqrt(debias(o.beta2, t))
    return p - m * (lr / debias(o.beta1, t)) / (op.sqrt(v) * scale + o.eps)
  end
end
optimizers.adam = {known = {beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.0},
                   counts = true, step = adam(false)}
optimizers.adamw = {known = {beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01},
                    counts = true, step = adam(true)}

-- Chen et al. 2023: the sign of a mix of momentum and gradient.
optimizers.lion = {
  known = {beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0},
  step = function(p, g, lr, t, slot, o)
    local mean, put = slot("exp_avg")
    put(mean * o.beta2 + g * (1 - o.beta2))
    if o.weight_decay ~= 0 then p = p - p * (lr * o.weight_decay) end
    return p - sign(mean * o.beta1 + g * (1 - o.beta1)) * lr
  end}

-- The orthogonal matrix nearest to g, about: five steps of Newton and Schulz's iteration (Jordan
-- 2024).
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

-- Matrices by momentum made orthogonal; what is no matrix by AdamW, of the rate `adamw_lr`.
optimizers.muon = {
  known = {momentum = 0.95, nesterov = true, weight_decay = 0.1, eps = 1e-7, adamw_lr = false},
  counts = true,
  step = function(p, g, lr, t, slot, o)
    if #shape(p) ~= 2 then
      local rate = o.adamw_lr and rate_now(o, o.adamw_lr) or lr
      return optimizers.adamw.step(p, g, rate, t, slot,
                                   {beta1 = 0.9, beta2 = 0.999, eps = 1e-8,
                                    weight_decay = o.weight_decay})
    end
    local speed, put = slot("momentum")
    local now = speed * o.momentum + g * (1 - o.momentum)
    put(now)
    local ahead = o.nesterov and g * (1 - o.momentum) + now * o.momentum or now
    local dims = shape(p)
    local size = math.sqrt(math.max(1, dims[1] / dims[2]))
    return p * (1 - lr * o.weight_decay) - orthogonal(ahead, o.eps) * (lr * size)
  end}

-- ---- what options may be ------------------------------------------------------------------------

-- The weight decay of an optimizer whose options do not say it.
function tools.own_decay(name)
  local kind = optimizers[name]
  return kind and kind.known.weight_decay or 0
end

-- The numbers from `least` up to, but not, `below`.
local any_size = {least = 0, below = math.huge, text = "a number, 0 or more"}
local share = {least = 0, below = 1, text = "a number from 0 up to, but not, 1"}
local ranges = {lr = any_size, adamw_lr = any_size, weight_decay = any_size, eps = any_size,
                gamma = any_size, clip_value = any_size, clip_norm = any_size, warmup = any_size,
                momentum = share, beta1 = share, beta2 = share, ema = share}
-- Tensors are for the ops that take them.
local function check_range(what, key, v)
  local range = ranges[key]
  if not range or core.is_tensor(v) then return end
  if type(v) ~= "number" or not (v >= range.least and v < range.below) then
    fail("%s: %s = %s: wants %s", what, key, tools.said(v), range.text)
  end
end
local function check_ranges(what, o) -- false: an option that is not there
  for _, key in ipairs(tools.sorted_keys(o)) do
    if o[key] ~= false then check_range(what, key, o[key]) end
  end
  if o.nesterov ~= nil and type(o.nesterov) ~= "boolean" then
    fail("%s: nesterov = %s: wants true or false", what, tools.said(o.nesterov))
  end
end
tools.check_ranges = check_ranges

local function check_milestones(what, list)
  local parts = type(list) == "table"
  for key, part in pairs(parts and list or {}) do
    parts = parts and math.type(key) == "integer" and type(part) == "number"
        and part >= 0 and part <= 1
  end
  if not parts then
    fail("%s: milestones = %s: wants parts of the run, each from 0 to 1, as in {0.5, 0.75}", what,
         tools.said(list))
  end
end
tools.check_milestones = check_milestones

-- ---- one step -----------------------------------------------------------------------------------

-- Does a name, or a layer that contains it, fit a pattern in which * stands for anything?
-- train_begin.c has the same rule (train_fits).
local function fits(pattern, name)
  local star = pattern:find("*", 1, true)
  if not star then return pattern == name or name:sub(1, #pattern + 1) == pattern .. "." end
  if name:sub(1, star - 1) ~= pattern:sub(1, star - 1) then return false end
  local rest = pattern:sub(star + 1)
  for at = star, #name + 1 do
    if fits(rest, name:sub(at)) then return true end
  end
  return false
end
local function any_fits(list, name)
  for _, pattern in ipairs(type(list) == "table" and list or {list}) do
    if fits(pattern, name) then return true end
  end
  return false
end

-- A dynamic scale of the loss, for gradients in f16: halved where a gradient is not finite, and
-- then nothing else changes; doubled after 2000 good steps in a row, up to 2^24: no f16 gradient
-- is so small that it needs more (2^-24 is the least there is), and beyond f32's range halving
-- would not help.
local most_scale = 2.0^24
local function loss_scale(prefix, now)
  local scale = core.state(prefix .. "loss_scale", {1}, "f32", "constant", 65536)
  local good = core.state(prefix .. "good_steps", {1}, "i32", "constant", 0)
  return scale, function(finite)
    local enough = op.ge(good, 1999)
    local size = op.where(finite, op.where(enough, op.min(scale * 2.0, most_scale), scale),
                          scale * 0.5)
    local count = op.where(finite, op.where(enough, 0, good + 1), 0)
    core.update(scale, now and op.where(now, size, scale) or size)
    core.update(good, now and op.where(now, count, good) or count)
  end
end

-- Gradients of `steps` steps as their mean. Returns whether this step is the last of them, and the
-- function that adds a gradient to what there is: at the last step a whole mean, before it none
-- yet.
local function accumulated(prefix, steps)
  local count = core.state(prefix .. "accumulated", {1}, "i32", "constant", 0)
  local last = op.ge(count, steps - 1)
  core.update(count, op.where(last, 0, count + 1))
  return last, function(g, p)
    local sum = core.state("accumulated." .. core.name(p), shape(p), "f32", "constant", 0)
    local whole = sum + g
    set(sum, op.where(last, 0.0, whole))
    return whole * (1 / steps)
  end
end

local function sum_of_squares(list)
  local total
  for _, g in ipairs(list) do
    local part = nn.sum(g * g)
    total = total and total + part or part
  end
  return nn.reshape(total, {1})
end

local made = 0 -- optimizers, of all entries

local of_some = {} -- the options that some optimizers have
for _, kind in pairs(optimizers) do
  for key in pairs(kind.known) do of_some[key] = true end
end

local common = {optimizer = REQUIRED, lr = REQUIRED, factor = false, step = false, clip_norm = 0.0,
                clip_value = 0.0,
                loss_scaling = false, freeze = {}, no_decay = {}, groups = {}, accumulate = 1}

-- What one parameter is updated with: the optimizer's own options, with those of the first group
-- that fits.
local function options_of(name, o, known)
  local own = {lr = o.lr, factor = o.factor}
  for key in pairs(known) do own[key] = o[key] end
  if any_fits(o.no_decay, name) then own.weight_decay = 0.0 end
  for _, group in ipairs(o.groups) do
    if any_fits(group.match, name) then
      for key, value in pairs(group) do
        if key ~= "match" and key ~= "lr" and known[key] == nil then
          fail("optimize: group: %s has no option '%s'", o.optimizer, tostring(key))
        end
        own[key] = value
      end
      break
    end
  end
  if own.nesterov and own.momentum == 0 then
    fail("optimize: nesterov = true looks ahead by momentum: wants a momentum, as 0.9")
  end
  return own
end

-- Each pattern is of some of these parameters, frozen ones too.
local function check_patterns(what, patterns, list)
  local each = type(patterns) == "table" and patterns or {patterns}
  for key, pattern in pairs(each) do
    if math.type(key) ~= "integer" or type(pattern) ~= "string" then
      fail("%s: wants a pattern of names, as \"*.bias\", or a list of them, not %s", what,
           tools.said(math.type(key) == "integer" and pattern or patterns))
    end
  end
  for _, pattern in ipairs(each) do
    local found, names = false, {}
    for i, p in ipairs(list) do
      names[i] = i < 12 and core.name(p) or i == 12 and "..." or nil
      found = found or fits(pattern, core.name(p))
    end
    if not found then
      fail("%s: '%s' matches no parameter of %s", what, pattern,
           table.concat(names, ", "))
    end
  end
end
-- Those parameters of the list that fit any of these patterns, all of which fit some.
function tools.matching(what, patterns, list)
  local kept = {}
  check_patterns(what, patterns, list)
  for _, p in ipairs(list) do
    local found = false
    for _, pattern in ipairs(type(patterns) == "table" and patterns or {patterns}) do
      found = found or fits(pattern, core.name(p))
    end
    if found then kept[#kept + 1] = p end
  end
  return kept
end
local function check_groups(groups, list)
  local form = "{{match = \"*.bias\", lr = 0.1}, ...}"
  if type(groups) ~= "table" then
    fail("optimize: groups = %s: wants a list, %s", tools.said(groups), form)
  end
  for key, group in pairs(groups) do
    if math.type(key) ~= "integer" then
      fail("optimize: groups has '%s', but is a list of groups: %s", tostring(key), form)
    end
    if type(group) ~= "table" or not group.match then
      fail("optimize: a group wants {match = \"*.bias\", ...}")
    end
    check_patterns("optimize: group", group.match, list)
    check_ranges("optimize: group", group)
  end
end

-- Parameters that the loss depends on, their gradients, and the names of the others: as in PyTorch,
-- where these have no gradient, neither decay nor momentum changes them.
local function of_the_loss(loss, list)
  local grads, depends = tools.gradients(loss, list)
  local kept, of_kept, apart = {}, {}, {}
  for i, p in ipairs(list) do
    if depends[i] then kept[#kept + 1], of_kept[#of_kept + 1] = p, grads[i]
    else apart[#apart + 1] = core.name(p) end
  end
  if #kept == 0 then fail("optimize: the loss depends on no parameter") end
  return kept, of_kept, apart
end

-- frozen: patterns that come from the command line, which sees to it that each fits (train.c).
local function optimize(loss, given, frozen)
  local kind = type(given) == "table" and optimizers[given.optimizer]
  if not kind then
    local names = {}
    for name in pairs(optimizers) do names[#names + 1] = name end
    table.sort(names)
    fail("optimize: optimizer is one of %s, not %s", table.concat(names, ", "),
         type(given) == "table" and tostring(given.optimizer) or "nothing")
  end
  local known = {parameters = false}
  for key, value in pairs(common) do known[key] = value end
  for key, value in pairs(kind.known) do known[key] = value end
  for _, key in ipairs(tools.sorted_keys(given)) do
    if of_some[key] and kind.known[key] == nil then
      fail("optimize: %s has no option '%s'; it has: %s", given.optimizer, key,
           table.concat(tools.sorted_keys(kind.known), ", "))
    end
  end
  local o = options("optimize", given, known)
  local list, all = {}, o.parameters or nn.parameters()
  check_ranges("optimize", o)
  if o.step then o.step = one_element("step", o.step) end
  if o.factor and type(o.factor) ~= "number" then o.factor = one_element("factor", o.factor) end
  check_groups(o.groups, all)
  check_patterns("optimize: no_decay", o.no_decay, all)
  if not frozen then check_patterns("optimize: freeze", o.freeze, all) end
  for _, p in ipairs(all) do
    if not any_fits(frozen or o.freeze, core.name(p)) then list[#list + 1] = p end
  end
  if #list == 0 then fail("optimize: the model has no parameter to train") end
  made = made + 1
  local prefix = made == 1 and "train." or "train." .. made .. "." -- of this one's own states
  local scale, after, last, add
  if o.accumulate > 1 then
    last, add = accumulated(prefix, count("optimize: accumulate", o.accumulate))
  end
  if o.loss_scaling then
    scale, after = loss_scale(prefix, last)
    loss = nn.reshape(loss, {1}) * scale
  end
  local grads, apart
  list, grads, apart = of_the_loss(loss, list)
  return nn.scope("optimizer_step", function()
    local result = {parameters = list, values = {}, scale = scale, apart = apart}
    -- The squares of gradients as they are in memory: what divides them is read by updates alone.
    local squares = scale and not add and sum_of_squares(grads)
    if scale then for i, g in ipairs(grads) do grads[i] = g / scale end end
    if add then for i, g in ipairs(grads) do grads[i] = add(g, list[i]) end end
    if o.clip_norm > 0 or scale then
      local by = squares and scale or 1.0
      squares = squares or sum_of_squares(grads)
      result.norm, result.finite = op.sqrt(squares) / by, op.le(squares, 3e38)
    end
    if o.clip_norm > 0 then
      local factor = op.min(o.clip_norm / (result.norm + 1e-6), 1.0)
      for i, g in ipairs(grads) do grads[i] = g * factor end
    end
    if after then after(result.finite) end
    local good = scale and result.finite
    result.updates = good and last and good & last or good or last
    local function put(target, value)
      return set(target, result.updates and op.where(result.updates, value, target) or value)
    end
    local steps = o.step
    if kind.counts and (scale or not steps) then -- without those that were left out
      steps = core.state(prefix .. "updates", {1}, "i32", "constant", 0)
      put(steps, steps + 1)
    end
    local t = steps and steps:to("f32") + 1.0
    for i, p in ipairs(list) do
      local g, name = grads[i], core.name(p)
      if o.clip_value > 0 then g = nn.clamp(g, -o.clip_value, o.clip_value) end
      local own = options_of(name, o, kind.known)
      local lr = rate_now(own, own.lr)
      local function slot(what)
        local state = core.state(o.optimizer .. "." .. what .. "." .. name, shape(p), "f32",
                                 "constant", 0)
        return state, function(value) put(state, value) end
      end
      result.values[i] = put(p, kind.step(p, g, lr, t, slot, own))
    end
    return result
  end)
end
tools.optimize = optimize

-- optimize(loss, {optimizer, lr, ...}): one step down the gradient of a loss of one element, of all
-- parameters (of the list `parameters`, if given) that it depends on: in the entry at hand they,
-- and the optimizer's states, are updated. Returns a table: `norm`, the gradients' norm (with
-- clip_norm or loss_scaling), `scale` (the loss's, with loss_scaling), `finite`, `updates` (whether
-- this step does; nil: all do), the lists `parameters` and `values`: what was updated, and what it
-- holds after the step, and `apart`, the names of what the loss does not depend on.
--   optimizer  "sgd" {momentum = 0, nesterov = false, weight_decay = 0},
--              "adam", "adamw" {beta1 = 0.9, beta2 = 0.999, eps = 1e-8,
--              weight_decay = 0 (adamw: 0.01)},
--              "lion" {beta1 = 0.9, beta2 = 0.99, weight_decay = 0},
--              "muon" {momentum = 0.95, nesterov = true, weight_decay = 0.1, eps = 1e-7,
--              adamw_lr = lr}
--   factor     of lr at this step, a number or a tensor of one element: nn.schedule(...)
--   step       how many steps there were before, a tensor of one element; where Adam, AdamW or Muon
--              is given none, it counts its updates in a state of its own
--   clip_value, clip_norm   0: not clipped; as torch.nn.utils.clip_grad_value_ and clip_grad_norm_,
--                           of both that of the norm first
--   accumulate              N: updates are made at every N-th step, of the mean of N steps'
--                           gradients
--   loss_scaling            true: gradients are made of a scaled loss, and a step that overflows is
--                           left out, and is none to Adam, whose corrections count steps
--   no_decay, freeze        patterns of names, or of layers ("*.bias", "fc"): without weight
--                           decay; not updated
--   groups     {{match = "*.bias", lr = 0.1, weight_decay = 0}, ...}: options of the parameters
--              that fit, the first counts
function nn.optimize(loss, given) return (optimize(loss, given)) end
