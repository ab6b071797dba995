-- nn_optim.lua: optimizer steps, of the module `nn` (nn.lua): from a loss to the new value of every
-- parameter. Everything, schedules and loss scaling included, is maps and reductions on the device,
-- without the host.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, options, count = tools.fail, tools.options, tools.count
local REQUIRED = tools.REQUIRED

-- A step, or another per-step number given as a tensor, in shape (1).
local function one_element(what, x)
  local n = core.is_tensor(x) and 1
  for _, d in ipairs(n and shape(x) or {}) do n = n * d end
  if n ~= 1 then
    fail("optimize: %s = %s: expected a one-element tensor, for example a state",
         what, tools.said(x))
  end
  return nn.reshape(x, {1})
end

-- Sets a state or parameter to `value` after the step. Products of a one-element value with tensors
-- of shape (1), such as a rate, have shape (1): reshaped to the target's.
local function set(target, value)
  local dims = shape(target)
  if #shape(value) ~= #dims then value = nn.reshape(value, dims) end
  core.update(target, value)
  return value
end
tools.set_state = set

-- ---- valid options ------------------------------------------------------------------------------

local optimizers = tools.optimizers

-- Numbers from `least` up to, but excluding, `below`.
local any_size = {least = 0, below = math.huge, text = "a number >= 0"}
local share = {least = 0, below = 1, text = "a number >= 0 and < 1"}
local flag, pair = {text = "true or false"}, {text = "two numbers, the smaller first"}
local ranges = {momentum = share, beta1 = share, beta2 = share, rho = share, ema = share,
                nesterov = flag, amsgrad = flag, centered = flag, maximize = flag,
                etas = pair, step_sizes = pair}
for _, key in ipairs{"lr", "adamw_lr", "weight_decay", "eps", "gamma", "final", "power", "warmup",
                     "clip_value", "clip_norm", "dampening", "momentum_decay", "alpha", "lr_decay",
                     "initial_accumulator_value", "lambd", "t0"} do
  ranges[key] = any_size
end
local function is_pair(v)
  return type(v) == "table" and #v == 2 and type(v[1]) == "number" and type(v[2]) == "number"
      and v[1] <= v[2]
end
-- Tensors are accepted only by the ops that take them; false: an absent option.
local function check_ranges(what, o)
  for _, key in ipairs(tools.sorted_keys(o)) do
    local v, range, good = o[key], ranges[key], true
    if range == flag then good = type(v) == "boolean"
    elseif range == pair then good = not v or is_pair(v)
    elseif range and v and not core.is_tensor(v) then
      good = type(v) == "number" and v >= range.least and v < range.below
    end
    if not good then fail("%s: %s = %s: expected %s", what, key, tools.said(v), range.text) end
  end
end
tools.check_ranges = check_ranges

tools.of_optimizers = {} -- the options that only some optimizers have, by name
for _, kind in pairs(optimizers) do
  for key in pairs(kind.known) do tools.of_optimizers[key] = true end
end

-- Replaces PyTorch's betas = {0.9, 0.999} by beta1 and beta2.
local function without_betas(what, given)
  if type(given) ~= "table" or given.betas == nil then return given end
  local betas, all = given.betas, {}
  if type(betas) ~= "table" or #betas ~= 2 then
    fail("%s: betas = %s: expected two numbers, as in {0.9, 0.999}", what, tools.said(betas))
  end
  for key, value in pairs(given) do all[key] = value end
  all.betas, all.beta1, all.beta2 = nil, betas[1], betas[2]
  return all
end
tools.without_betas = without_betas

-- ---- one step -----------------------------------------------------------------------------------

-- Does a name, or a layer that contains it, match a pattern in which * stands for anything?
-- train_begin.c implements the same rule (train_fits).
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

-- Dynamic loss scaling for f16 gradients: if a gradient is not finite, the scale is halved and
-- nothing else changes; after 2000 good steps in a row it doubles, up to 2^24: f16's smallest
-- number is 2^-24, so none needs more, and a loss beyond f32's range would not be cured by halving.
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

-- The mean gradient of `steps` steps. Returns whether this step is the last of them, and a function
-- that adds a gradient to the sum: on the last step it returns the mean, before it nothing usable.
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

local made = 0 -- number of optimizers, over all entries

local common = {optimizer = REQUIRED, lr = REQUIRED, factor = false, step = false, clip_norm = 0.0,
                clip_value = 0.0, maximize = false, loss_scaling = false, freeze = {},
                no_decay = {}, groups = {}, accumulate = 1}

-- The options for one parameter: the optimizer's, overridden by the first group that matches.
local function options_of(name, o, known)
  local own = {lr = o.lr, factor = o.factor}
  for key in pairs(known) do own[key] = o[key] end
  if any_fits(o.no_decay, name) then own.weight_decay = 0.0 end
  for _, group in ipairs(o.groups) do
    if any_fits(group.match, name) then
      for key, value in pairs(without_betas("optimize: group", group)) do
        if key ~= "match" and key ~= "lr" and known[key] == nil then
          fail("optimize: group: %s has no option '%s'", o.optimizer, tostring(key))
        end
        own[key] = value
      end
      break
    end
  end
  if own.nesterov and own.momentum == 0 then
    fail("optimize: nesterov = true requires momentum > 0, for example 0.9")
  end
  if own.nesterov and own.dampening and own.dampening ~= 0 then
    fail("optimize: nesterov = true and dampening = %s exclude each other",
         tools.said(own.dampening))
  end
  return own
end

-- Checks that each pattern matches a parameter, frozen ones included.
local function check_patterns(what, patterns, list)
  local each = type(patterns) == "table" and patterns or {patterns}
  for key, pattern in pairs(each) do
    if math.type(key) ~= "integer" or type(pattern) ~= "string" then
      fail("%s: expected a name pattern such as \"*.bias\", or a list of them, got %s", what,
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
-- The parameters of the list that match any of these patterns; each pattern must match one.
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
    fail("optimize: groups = %s: expected a list, %s", tools.said(groups), form)
  end
  for key, group in pairs(groups) do
    if math.type(key) ~= "integer" then
      fail("optimize: groups has '%s', but is a list of groups: %s", tostring(key), form)
    end
    if type(group) ~= "table" or not group.match then
      fail("optimize: groups: expected {match = \"*.bias\", ...} for each")
    end
    check_patterns("optimize: group", group.match, list)
    check_ranges("optimize: group", group)
  end
end

-- The parameters that the loss depends on, their gradients, and the names of the others: these have
-- no gradient and, as in PyTorch, neither decay nor momentum changes them.
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

-- The states of an optimizer (nn_optimizers.lua): slots(p) creates those of a parameter. `of` and
-- `shared` are the prefixes of per-parameter and shared state names.
local function slots_of(of, shared, put)
  local there = {}
  local function state(name, dims, first)
    local s = core.state(name, dims, "f32", "constant", first or 0)
    return s, function(value) put(s, value) end
  end
  local function for_all(what, first) -- set in the first parameter's step
    local is_set = there[what]
    if is_set then return is_set, function() end end
    local s, set_it = state(shared .. "." .. what, {1}, first)
    there[what] = s
    return s, set_it
  end
  return function(p)
    local function own(_, what, first)
      return state(of .. "." .. what .. "." .. core.name(p), shape(p), first)
    end
    return setmetatable({shared = for_all}, {__call = own})
  end
end

-- frozen: patterns of the command line, which checks itself that each matches (train.c).
local function optimize(loss, given, frozen)
  given = without_betas("optimize", given)
  local kind = type(given) == "table" and optimizers[given.optimizer]
  if not kind then
    fail("optimize: optimizer: expected one of %s, got %s",
         table.concat(tools.sorted_keys(optimizers), ", "),
         type(given) == "table" and tostring(given.optimizer) or "nothing")
  end
  local known = {parameters = false}
  for key, value in pairs(common) do known[key] = value end
  for key, value in pairs(kind.known) do known[key] = value end
  for _, key in ipairs(tools.sorted_keys(given)) do
    if tools.of_optimizers[key] and kind.known[key] == nil then
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
  local prefix = made == 1 and "train." or "train." .. made .. "." -- of state names
  local scale, after, last, add
  if o.accumulate > 1 then
    last, add = accumulated(prefix, count("optimize: accumulate", o.accumulate))
  end
  if o.loss_scaling then
    scale, after = loss_scale(prefix, last)
    loss = nn.reshape(loss, {1}) * scale
  end
  if o.maximize then loss = -loss end
  local grads, apart
  list, grads, apart = of_the_loss(loss, list)
  return nn.scope("optimizer_step", function()
    local result = {parameters = list, values = {}, scale = scale, apart = apart}
    -- Of the stored gradients, so that only updates read the unscaled ones.
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
    local own, counts = {}, false -- per parameter; whether any rule reads t
    for i, p in ipairs(list) do
      own[i] = options_of(core.name(p), o, kind.known)
      counts = counts or kind.counts == true or kind.counts and kind.counts(own[i])
    end
    local steps = o.step
    if counts and (scale or not steps) then -- skipped steps are not counted
      steps = core.state(prefix .. "updates", {1}, "i32", "constant", 0)
      put(steps, steps + 1)
    end
    local t = steps and steps:to("f32") + 1.0
    local slots = slots_of(o.optimizer, prefix .. o.optimizer, put)
    for i, p in ipairs(list) do
      local g = grads[i]
      if o.clip_value > 0 then g = nn.clamp(g, -o.clip_value, o.clip_value) end
      local lr = own[i].factor and own[i].factor * own[i].lr or own[i].lr
      result.values[i] = put(p, kind.step(p, g, lr, t, slots(p), own[i]))
    end
    return result
  end)
end
tools.optimize = optimize

-- optimize(loss, {optimizer, lr, ...}): one optimizer step on a loss of one element, for all
-- parameters (of the list `parameters`, if given) that it depends on: the current entry updates
-- them and the optimizer's states. Returns a table: `norm`, the gradients' norm (with clip_norm or
-- loss_scaling), `scale` (of the loss, with loss_scaling), `finite`, `updates` (whether this step
-- updates; nil: always), the lists `parameters` and `values`: the updated parameters and their
-- values after the step, and `apart`, the names of parameters that the loss does not depend on.
--   optimizer  the name of one of those below, whose own options may be given too
--   factor     of lr at this step, a number or a tensor of one element: nn.schedule(...)
--   step       the number of steps so far, a tensor of one element; an optimizer that needs the
--              number of updates and is given no step counts them in a state
--   maximize   true: gradient ascent
--   clip_value, clip_norm   0: not clipped; as torch.nn.utils.clip_grad_value_ and clip_grad_norm_;
--                           with both, the norm is clipped first
--   accumulate              N: every N-th step updates, with the mean of N steps' gradients
--   loss_scaling            true: gradients are computed from a scaled loss; a step that overflows
--                           is skipped and not counted by Adam's bias correction
--   no_decay, freeze        patterns of names, or of layers ("*.bias", "fc"): without weight
--                           decay; not updated
--   groups     {{match = "*.bias", lr = 0.1, weight_decay = 0}, ...}: options per parameter
--              pattern; the first match wins
-- The optimizers, with their options (betas = {0.9, 0.999} sets beta1 and beta2); all except lion
-- and muon are PyTorch's:
--   "sgd"       {momentum = 0, dampening = 0, nesterov = false, weight_decay = 0}
--   "adam"      {beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, amsgrad = false}
--   "adamw"     {beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01, amsgrad = false}
--   "adamax"    {beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0}
--   "nadam"     {beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, momentum_decay = 0.004}
--   "radam"     {beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0}
--   "rmsprop"   {alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0, centered = false}
--   "adagrad"   {lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10}
--   "adadelta"  {rho = 0.9, eps = 1e-6, weight_decay = 0}
--   "rprop"     {etas = {0.5, 1.2}, step_sizes = {1e-6, 50}}
--   "asgd"      {lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0}
--   "lion"      {beta1 = 0.9, beta2 = 0.99, weight_decay = 0}
--   "muon"      {momentum = 0.95, nesterov = true, weight_decay = 0.1, eps = 1e-7, adamw_lr = lr}
function nn.optimize(loss, given) return (optimize(loss, given)) end
