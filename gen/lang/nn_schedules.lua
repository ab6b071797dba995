-- nn_schedules.lua: learning rate schedules, of the module `nn` (nn.lua). They are computed on the
-- device from the step, a tensor, so that a replayed CUDA graph does not involve the host.
local core, nn = ...
local op, tools = core.op, core.tools
local fail, options, said = tools.fail, tools.options, tools.said

-- The options of schedules, with their defaults.
tools.schedule_options = {warmup = 0, milestones = {0.5, 0.75}, gamma = 0.1, final = 0, power = 1,
                          cycles = 1}

local function check_options(what, o)
  tools.check_ranges(what, o)
  if math.type(o.cycles) ~= "integer" or o.cycles < 1 then
    fail("%s: cycles = %s: expected an integer, 1 or more", what, said(o.cycles))
  end
  local parts = type(o.milestones) == "table"
  for key, part in pairs(parts and o.milestones or {}) do
    parts = parts and math.type(key) == "integer" and type(part) == "number"
        and part >= 0 and part <= 1
  end
  if not parts then
    fail("%s: milestones = %s: expected fractions of the run, from 0 to 1, as in {0.5, 0.75}",
         what, said(o.milestones))
  end
end

-- ---- one function each: (at, total, options) -> the factor -------------------------------------
-- `at` is the step, from 0, `total` the number of steps, both tensors of one element as f32.

local schedules = {}
local function clamped(x) return op.min(op.max(x, 0.0), 1.0) end
local function cosine_down(x) return (op.cos(x * math.pi) + 1.0) * 0.5 end -- from 1 to 0

-- The fraction of the run after the warm-up that is over, from 0 to 1.
local function done(at, total, o)
  return clamped((at - o.warmup) / op.max(total - o.warmup, 1.0))
end
-- Maps a curve from 1 to 0 to one from 1 to `final`.
local function down_to(final, x) return final == 0 and x or x * (1 - final) + final end

function schedules.constant(at) return at * 0.0 + 1.0 end

function schedules.step(at, total, o)
  local factor = at * 0.0 + 1.0
  for _, part in ipairs(o.milestones) do
    factor = factor * op.where(op.ge(at, op.floor(total * part)), o.gamma, 1.0)
  end
  return factor
end

function schedules.cosine(at, total, o)
  local x = done(at, total, o)
  if o.cycles > 1 then
    local behind, span = op.max(at - o.warmup, 0.0), op.max(total - o.warmup, 1.0) / o.cycles
    local begun = op.floor((behind + 0.5) / span) * span -- start of this cycle; steps are whole
    x = op.where(op.lt(x, 1.0), clamped((behind - begun) / span), 1.0)
  end
  return down_to(o.final, cosine_down(x))
end

function schedules.polynomial(at, total, o)
  local left = 1 - done(at, total, o)
  return down_to(o.final, o.power == 1 and left or op.pow(left, o.power))
end
schedules.linear = function(at, total, o)
  return schedules.polynomial(at, total, {warmup = o.warmup, final = o.final, power = 1})
end

function schedules.exponential(at, total, o)
  if o.gamma == 0 then fail("schedule: exponential: gamma = 0: expected more than 0") end
  return op.exp(done(at, total, o) * math.log(o.gamma))
end

function schedules.inverse_sqrt(at, _, o)
  local warm = math.max(o.warmup, 1)
  return op.rsqrt(op.max((at + 1.0) * (1 / warm), 1.0))
end

-- Smith and Topin 2018, with PyTorch's numbers: up from 1 / 25 for three tenths of the run, then
-- down to 1 / 250 000, by half cosines.
function schedules.one_cycle(at, total)
  local low, last, peak = 1 / 25, 1 / 25e4, total * 0.3 - 1.0
  local up = 1 - cosine_down(clamped(at / op.max(peak, 1.0)))
  local down = cosine_down(clamped((at - peak) / op.max(total - 1.0 - peak, 1.0)))
  return op.where(op.le(at, peak), up * (1 - low) + low, down * (1 - last) + last)
end

-- schedule(name, at, total, {warmup = 0, ...}): the factor of the learning rate at step `at` (from
-- 0) of `total`. During the first `warmup` steps it is multiplied by (at + 1) / warmup. Schedules,
-- with their options:
--   "constant"      1
--   "step"          multiplied by `gamma` (0.1) at each of the `milestones` ({0.5, 0.75}),
--                   fractions of the run
--   "linear"        from 1 after the warm-up down to `final` (0) at the end
--   "polynomial"    the same, as (1 - fraction of the run)^power (1)
--   "cosine"        the same, as half a cosine; `cycles` (1) of them, each from 1
--   "exponential"   from 1 after the warm-up down to `gamma` (0.1) at the end
--   "inverse_sqrt"  sqrt(warmup / (at + 1)) after the warm-up (Vaswani et al. 2017)
--   "one_cycle"     from 1/25 up to 1 and down to 1/250000, as PyTorch's OneCycleLR
--   a function      f(at, total), both tensors of one element; returns the factor
function nn.schedule(name, at, total, given)
  local o = options("schedule", given, tools.schedule_options)
  check_options("schedule", o)
  local f = type(name) == "function" and name or schedules[name]
      or fail("schedule: '%s' is not one of %s", tostring(name),
              table.concat(tools.sorted_keys(schedules), ", "))
  if not core.is_tensor(at) then
    fail("schedule: at = %s: expected a tensor, for example a state that counts steps", said(at))
  end
  if not core.is_tensor(total) then tools.checks.number("schedule: total", total) end
  at, total = at:to("f32"), core.is_tensor(total) and total:to("f32") or total + at:to("f32") * 0.0
  local factor = f(at, total, o)
  if type(name) == "function" and not core.is_tensor(factor) then
    tools.checks.number("schedule: result of the function", factor)
    factor = at * 0.0 + factor
  end
  if o.warmup == 0 then return factor end
  return factor * op.min((at + 1.0) * (1 / o.warmup), 1.0)
end
tools.check_schedule = check_options
