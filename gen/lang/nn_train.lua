-- nn_train.lua: training of a whole model, of the module `nn` (nn.lua): the entries `train` and
-- `eval` that `nngen train` runs, built from the model's loss and data.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, options, tensor = tools.fail, tools.define, tools.options, tools.tensor
local count, amount = tools.count, tools.amount
local REQUIRED = tools.REQUIRED

local mode = tools.training
-- {active = in the entry train, step = the number of steps so far, counted if a state counts them,
-- scaled = the loss is scaled}

-- trains(): true if this compilation is for training: by `nngen train`, or of the entry train or
-- eval.
function nn.trains() return core.trains() end

-- in_training(): true while layers are built in training mode: batch statistics, dropout.
function nn.in_training() return mode.active end

-- training_step(): the number of training steps so far, an i32 tensor (1), for values that differ
-- from step to step, such as random numbers; outside of the entry train a constant 0.
function nn.training_step() return tools.step_counted() or nn.index({1}, 1) end
-- The same for nn.random, which accepts a number, too.
local function step_now() return tools.step_counted() or 0 end
tools.step_now = step_now

-- The state that counts steps in the entry train. In a hand-written entry train it exists, and
-- counts, only if something reads it.
function tools.step_counted()
  if not mode.active then return nil end
  if not mode.step then
    mode.step = core.state("train.step", {1}, "i32", "constant", 0)
    core.update(mode.step, mode.step + 1)
  end
  return mode.step
end

-- Runs f(...) to build entry `name`; in the entry train, layers are built in training mode.
function tools.run_entry(name, f, ...)
  local active, scaled, outer, within = mode.active, mode.scaled, core.entry(name), tools.entry
  tools.entry = name
  mode.active = name == "train"
  mode.scaled = mode.active and tools.settings.loss_scaling == true
  if mode.active and not mode.seeded then
    mode.seeded, mode.seed = true, tools.config({seed = 0}, "of the run").seed
  end
  local before = core.results()
  local result = table.pack(f(...))
  if core.results() == before then
    fail("entry: '%s' has neither nn.output nor nn.update: there is nothing to run", name)
  end
  mode.active, mode.scaled, tools.entry = active, scaled, within
  core.entry(outer)
  return table.unpack(result, 1, result.n)
end

-- Dropout mask: true (keep) with probability 1 - p, shared along dimensions `whole`, `whole` + 1,
-- ...; nil if nothing is dropped.
local function kept(x, p, whole)
  if not mode.active or p == 0 then return nil end
  local dims = shape(x)
  for i = whole or #dims + 1, #dims do dims[i] = 1 end
  return nn.random(dims, {kind = "bernoulli", p = 1 - p, seed = mode.seed, step = step_now()})
end
local function dropped(x, p, whole)
  local stays = kept(x, p, whole)
  return stays and op.where(stays, x * (p < 1 and 1 / (1 - p) or 0.0), 0.0) or x
end
local channels = 3 -- from this dimension on, elements belong to one channel
-- In training, sets each element to 0 with probability p and divides the others by 1 - p; else
-- returns x. The mask depends only on seed, step and position: the gradient reads it, one byte per
-- element, or regenerates it if --memory or --recompute asks for less memory.
define("dropout(x: tensor, p: chance = 0.5)", "F.dropout, nn.Dropout", dropped)
-- Dropout of whole channels of (N, C, ...).
define("dropout{1,2,3}d(x: tensor, p: chance = 0.5)", "F.dropout#d, nn.Dropout#d",
       function() return function(x, p) return dropped(x, p, channels) end end)
-- Drops the residual branch x per example ("row") or for the whole batch.
define("stochastic_depth|drop_path(x: tensor, p|drop_prob: chance, mode: row/batch = row)",
       "torchvision.ops.stochastic_depth, torchvision.ops.StochasticDepth",
       function(x, p, batch_or_row) return dropped(x, p, batch_or_row == "row" and 2 or 1) end)

local function alpha_dropout(whole)
  return function(x, p)
    local stays = kept(x, p, whole)
    if not stays then return x end
    if p == 1 then return x * 0.0 end
    local low = -1.7580993408473766
    local a = 1 / math.sqrt((1 - p) * (1 + p * low * low))
    return op.where(stays, x, low) * a - a * p * low
  end
end
-- Dropout for SELU: dropped elements get the limit of SELU at minus infinity, and the result is
-- scaled to keep mean and deviation.
define("alpha_dropout(x: tensor, p: chance = 0.5)", "F.alpha_dropout, nn.AlphaDropout",
       alpha_dropout())
-- alpha_dropout of whole channels of (N, C, ...).
define("feature_alpha_dropout(x: tensor, p: chance = 0.5)",
       "F.feature_alpha_dropout, nn.FeatureAlphaDropout",
       alpha_dropout(channels))

-- ---- data ---------------------------------------------------------------------------------------

-- A random number from 0 to n - 1 for each example, i32 {B, 1, 1, 1}.
local function any_below(n, batch)
  local u = nn.random({batch, 1, 1, 1}, {seed = mode.seed, step = step_now()})
  return op.min(op.floor(u * n), n - 1):to("i32")
end

-- The source position of each pixel of an augmented image, and whether it is inside the image.
local function moved(x, crop, flip)
  local B, C, H, W = table.unpack(shape(x))
  local row, column = nn.index({1, 1, H, 1}, 3), nn.index({1, 1, 1, W}, 4)
  if flip then column = op.where(op.eq(any_below(2, B), 1), W - 1 - column, column) end
  if crop > 0 then
    row = row + any_below(2 * crop + 1, B) - crop
    column = column + any_below(2 * crop + 1, B) - crop
  end
  local inside = (op.ge(row, 0) & op.lt(row, H)) & (op.ge(column, 0) & op.lt(column, W))
  local from = op.min(op.max(row, 0), H - 1) * W + op.min(op.max(column, 0), W - 1)
  local ids = nn.reshape(from + nn.index({1, C, 1, 1}, 2) * 0, {B, C, H * W})
  local y = nn.take_along(nn.reshape(x, {B, C, H * W}), ids, 3)
  return op.where(inside, nn.reshape(y, {B, C, H, W}), 0.0)
end

-- Sets a square of `size` pixels at a random position of each image to 0.
local function cut_out(x, size)
  local B, _, H, W = table.unpack(shape(x))
  local top, left = any_below(H, B) - size // 2, any_below(W, B) - size // 2
  local row, column = nn.index({1, 1, H, 1}, 3), nn.index({1, 1, 1, W}, 4)
  local cut = (op.ge(row, top) & op.lt(row, top + size)) &
      (op.ge(column, left) & op.lt(column, left + size))
  return op.where(cut, 0.0, x)
end

-- images{batch, channels, height, width, classes = 10, mean = 0, std = 1, crop = 0, flip = false,
-- cutout = 0}: creates the inputs `images`, u8 (batch, channels, height, width), and `labels`, i32
-- (batch); returns the images as floats (x / 255 - mean) / std, and the labels. mean and std are
-- numbers, or lists with one per channel. In training, images are shifted by up to `crop` pixels
-- (padding is 0 before normalisation), half of them are mirrored (`flip`), and a random square of
-- `cutout` pixels is set to 0.
function nn.images(given)
  if type(given) ~= "table" or #given ~= 4 then
    fail("images: expected {batch, channels, height, width, ...}")
  end
  local dims, named = {}, {}
  for i = 1, 4 do dims[i] = count("images: size " .. i, given[i]) end
  for key, value in pairs(given) do if type(key) ~= "number" then named[key] = value end end
  local o = options("images", named,
                    {classes = 10, mean = 0.0, std = 1.0, crop = 0, flip = false, cutout = 0})
  local crop, cutout = amount("images: crop", o.crop), amount("images: cutout", o.cutout)
  for _, v in ipairs{{"crop", crop}, {"cutout", cutout}} do
    if v[2] > math.min(dims[3], dims[4]) then
      fail("images: %s = %d: pictures of %dx%d are smaller", v[1], v[2], dims[3], dims[4])
    end
  end
  for _, v in ipairs(type(o.std) == "table" and o.std or {o.std}) do
    if v == 0 then fail("images: std = 0: pictures are divided by it") end
  end
  local x = nn.input("images", dims, {dtype = "u8"}):to("f32") * (1 / 255)
  local labels = nn.input("labels", {dims[1]},
                          {dtype = "i32", below = count("images: classes", o.classes)})
  if mode.active and (crop > 0 or o.flip) then x = moved(x, crop, o.flip) end
  local function each(v) -- a number, or one for each channel
    if type(v) == "number" then return v end
    if #v ~= dims[2] then fail("images: mean and std are numbers, or %d of them", dims[2]) end
    local channel, all = nn.index({1, dims[2], 1, 1}, 2), nil
    for i = #v, 1, -1 do all = all and op.where(op.eq(channel, i - 1), v[i], all) or v[i] end
    return all
  end
  x = (x - each(o.mean)) / each(o.std)
  if mode.active and cutout > 0 then x = cut_out(x, cutout) end
  return x, labels
end

-- ---- the entries --------------------------------------------------------------------------------

local recipe = {epochs = 1, optimizer = "sgd", lr = REQUIRED, schedule = "constant", warmup = 0,
                clip_norm = 0.0, clip_value = 0.0, maximize = false, no_decay = {}, freeze = {},
                groups = {}, ema = 0.0, accumulate = 1}
for key, value in pairs(tools.schedule_options) do recipe[key] = value end

-- Name patterns as --freeze lists them.
local function joined(patterns)
  if type(patterns) ~= "table" then patterns = {patterns} end
  for _, pattern in pairs(patterns) do
    if type(pattern) ~= "string" or pattern:find(",", 1, true) then
      fail("train: freeze: expected a name pattern such as \"*.bias\", or a list of them, got %s",
           tools.said(pattern))
    end
  end
  return table.concat(patterns, ",")
end

local function listed(text) -- the items between commas
  local list, at = {}, 1
  while at <= #text do
    local comma = text:find(",", at, true) or #text + 1
    if comma > at then list[#list + 1] = text:sub(at, comma - 1) end
    at = comma + 1
  end
  return list
end

-- ---- moving averages of the weights -------------------------------------------------------------

-- In the entry train: states ema.NAME follow the parameters, ema = d * ema + (1 - d) * value, at
-- each update. d grows from 0 in the first updates, so that the initial values of the states do not
-- count.
local function follow(made, decay)
  local steps = core.state("ema.steps", {1}, "i32", "constant", 0)
  local t = steps:to("f32")
  local d = op.min(t / (t + 9.0), decay)
  local counts = made.updates
  local takes = counts and counts | op.eq(steps, 0)
  for i, p in ipairs(made.parameters) do
    local mean = core.state("ema." .. core.name(p), shape(p), "f32", "constant", 0)
    local value = mean * d + made.values[i] * (1.0 - d)
    tools.set_state(mean, takes and op.where(takes, value, mean) or value)
  end
  core.update(steps, counts and op.where(counts, steps + 1, steps) or steps + 1)
end

-- In this entry the averages are read in place of the parameters `list`.
local function read_averages(list)
  for _, p in ipairs(list) do
    core.instead(p, core.state("ema." .. core.name(p), shape(p), "f32", "constant", 0))
  end
end

-- ---- embeddings and pictures --------------------------------------------------------------------

-- Results of an evaluation other than numbers: per example an embedding or a reconstructed image.
local function keep_example(name, x, batch)
  local dims, n = shape(tensor("train: " .. name, x)), 1
  for i = 2, #dims do n = n * dims[i] end
  if dims[1] ~= batch then
    fail("train: %s is %s; expected one for each of the %d examples", name, tostring(x), batch)
  end
  if name == "embedding" then return nn.reshape(x, {batch, n}):to("f32"), n end
  if #dims ~= 4 then
    fail("train: %s is %s; expected (batch, channels, height, width)", name, tostring(x))
  end
  for _, of in ipairs{x, tools.inputs.images} do
    local channels = shape(of)[2]
    if channels ~= 1 and channels ~= 3 then
      fail("train: %s: %s has %d channels; expected 1 or 3", name, tostring(of),
           channels)
    end
  end
  return op.min(op.max(x * 255.0 + 0.5, 0.0), 255.0):to("u8")
end
local kept = {embedding = true, reconstruction = true}

-- Names of the run's numbers, reserved in its log.
local of_the_run = {step = true, steps = true, lr = true, grad_norm = true, scale = true,
                    epoch = true, seconds = true, examples_s = true}
-- The names of what the function of nn.train returned, in order.
local function numbers_of(made)
  local names = {}
  for name in pairs(made) do
    if type(name) ~= "string" then
      fail("train: the function returns {loss = ..., accuracy = ...}: each value has a name, " ..
           "not the number %s", tostring(name))
    end
    if of_the_run[name] then
      fail("train: '%s' is reserved; rename the value",
           name)
    end
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

-- The batch of nn.train must be that of the images.
local function check_pictures(batch)
  local images = tools.inputs.images
  local has = images and shape(images)[1]
  if images and has ~= batch then
    fail("train: the batch is %d, but the input 'images' is %s: expected equal sizes", batch,
         tostring(images))
  end
end

-- The entry `neighbours`, for blocks of `batch` examples: the fraction of the five nearest other
-- examples by embedding (Euclidean, fp32; ties: the earlier) that share the example's class, summed
-- over the block. With fewer than five others: the fraction of those; NaN if an embedding is not
-- finite.
local function find_neighbours(batch, examples, width)
  local K = 5
  local all = core.state("neighbours.embeddings", {examples, width}, "f32", "constant", 0)
  local classes = core.state("neighbours.classes", {examples}, "i32", "constant", 0)
  local first = core.state("neighbours.first", {1}, "i32", "constant", 0)
  local count = core.state("neighbours.count", {1}, "i32", "constant", 0)
  local rows = first + nn.index({batch}, 1)
  local taken = op.lt(nn.index({examples, 1}, 1), count)
  -- subtract the mean embedding, which would cost the products significant digits
  all = all - nn.sum(op.where(taken, all, 0.0), 1) / op.max(count, 1):to("f32")
  local products = op.matmul(nn.gather(all, rows, 1), nn.transpose(all))
  local squares = nn.sum(all * all, 2)
  local nearness = products * 2.0 - nn.reshape(squares, {1, examples})
  local column = nn.index({1, examples}, 2)
  local out = op.eq(column, nn.reshape(rows, {batch, 1})) | op.ge(column, count)
  local near, places = nn.topk(op.where(out, -3e38, nearness), math.min(K, examples), 2)
  local same = op.eq(nn.gather(classes, places, 1),
                     nn.reshape(nn.gather(classes, rows, 1), {batch, 1})) & op.gt(near, -1e38)
  local others = op.max(op.min(count - 1, K), 1):to("f32")
  local share = op.where(op.lt(rows, count), nn.sum(same:to("f32"), 2) / others, 0.0)
  local sum = op.where(nn.isfinite(nn.sum(squares)), nn.sum(share), 0 / 0)
  nn.output("neighbours.mar_at_5", nn.reshape(sum, {1}))
  core.update(first, first + batch)
end

-- train(batch, f, {lr, optimizer = "sgd", schedule = "constant", warmup = 0, epochs = 1, ...}): how
-- the model is trained. f computes loss and metrics from its inputs and returns them as {loss =
-- ..., accuracy = ...}: each one number, or one for each of the `batch` examples. Padding of a
-- short last batch in an evaluation is excluded from per-example values and from sums, means and
-- maxima over examples; where it cannot be excluded, as when examples are compared with each other,
-- a warning says so. f is called twice: for the entry `train`, which updates all parameters that
-- the loss depends on, and for `eval`; inputs, parameters and states of equal names are shared.
-- Options are those of nn.optimize and nn.schedule. `accumulate` = N: every N-th step updates, with
-- the mean of N gradients; schedules count updates. `ema`, for example 0.999: evaluations and the
-- final weights use a moving average of the weights with decay min(ema, t / (t + 9)) at update t
-- (from 0). A returned `embedding` (several numbers per example) is used for mar_at_5: the fraction
-- of an example's five nearest neighbours in the test split that share its class; a returned
-- `reconstruction` (images from 0 to 1) for a PNG of some next to the originals. Options of the
-- command line, --lr, --warmup, --epochs and so on, take precedence; --label-smoothing applies to
-- each cross_entropy that sets none. Without training (nn.trains) nothing is built.
function nn.train(batch, f, given)
  if math.type(batch) ~= "integer" or type(f) ~= "function" then
    fail("train: expected the batch, a function that returns {loss = ...}, and options")
  end
  count("train: batch", batch)
  local known = {}
  given = tools.without_betas("train", given)
  for key in pairs(tools.of_optimizers) do known[key] = false end
  for key, value in pairs(recipe) do known[key] = value end
  local o = options("train", given, known)
  tools.checks.number("train: lr", o.lr)
  o.epochs = count("train: epochs", o.epochs)
  o.accumulate = count("train: accumulate", o.accumulate)
  tools.check_ranges("train", o)
  tools.check_schedule("train", o)
  local own_schedule = type(o.schedule) == "function" and "of the model"
  local frozen = joined(o.freeze)
  if mode.declared then
    fail("train: nn.train was called before: a model is trained in one way, of one loss, which " ..
         "may be a sum")
  end
  mode.declared = true
  if not core.trains() then return end
  local set = tools.config({optimizer = o.optimizer, lr = o.lr + 0.0,
                            schedule = own_schedule or o.schedule, warmup = o.warmup,
                            epochs = o.epochs, clip_norm = o.clip_norm + 0.0, freeze = frozen,
                            seed = 0, ema = o.ema + 0.0, accumulate = o.accumulate,
                            label_smoothing = 0.0}, "of the run")
  -- the model's; another optimizer has it, too, if it has such an option
  local own_decay = tools.own_decay(set.optimizer)
  local the_models = (own_decay and given.weight_decay or own_decay or 0) + 0.0
  local decay = tools.config({weight_decay = the_models}, "of the run").weight_decay
  local verb = tools.config({loss_scaling = false, eval_examples = 0, train_batch = batch},
                            "of the verb")
  if set.lr < 0 then fail("train: lr = %g: expected 0 or more", set.lr) end
  if set.epochs < 1 or set.epochs > 1000000000 then
    fail("train: epochs = %d: expected 1 or more, at most 10^9", set.epochs)
  end
  if set.warmup < 0 then fail("train: warmup = %g: expected 0 or more steps", set.warmup) end
  if set.clip_norm < 0 then
    fail("train: clip_norm = %g: expected 0 (not clipped) or more", set.clip_norm)
  end
  if set.ema < 0 or set.ema >= 1 then
    fail("train: ema = %g: expected 0 <= ema < 1", set.ema)
  end
  if set.accumulate < 1 then
    fail("train: accumulate = %s: expected 1 or more steps", tostring(set.accumulate))
  end
  local width, averaged -- width of an embedding; parameters that have an average
  local padded = {} -- values of an evaluation that padding affects
  local function values(entry, valid)
    local made = f()
    if type(made) ~= "table" or not core.is_tensor(made.loss) then
      fail("train: the function returns {loss = a tensor, ...}")
    end
    check_pictures(batch)
    for _, name in ipairs(numbers_of(made)) do
      if kept[name] then
        if entry == "eval" then
          local x, n = keep_example(name, made[name], batch)
          if tools.place_of(x, batch, {}) == "mixed" then padded[#padded + 1] = name end
          nn.output("eval." .. name, x)
          width = n or width
        end
        goto continue
      end
      local counts
      made[name], counts = nn.scope(name, tools.over_batch, name, made[name], valid, batch)
      if counts then padded[#padded + 1] = name end
      nn.output(entry .. "." .. name, made[name])
      ::continue::
    end
    return made.loss
  end
  mode.smoothing, mode.smooths = set.label_smoothing, set.label_smoothing == 0
  mode.seeded, mode.seed = true, set.seed
  nn.entry("train", function()
    local counted = mode.step -- counted by another part of the entry
    local step = counted or core.state("train.step", {1}, "i32", "constant", 0)
    local total = core.state("train.steps", {1}, "i32", "constant", 1000)
    mode.step = step
    local loss = values("train")
    local updates, all = step, total -- of parameters
    if set.accumulate > 1 then updates, all = step // set.accumulate, total // set.accumulate end
    local falls = {} -- the options of the schedule
    for key in pairs(tools.schedule_options) do falls[key] = o[key] end
    falls.warmup = set.warmup
    local schedule = set.schedule == own_schedule and o.schedule or set.schedule
    local factor = nn.schedule(schedule, updates, all, falls)
    local how = {optimizer = set.optimizer, lr = set.lr, factor = factor, step = updates,
                 accumulate = set.accumulate, clip_norm = set.clip_norm, clip_value = o.clip_value,
                 loss_scaling = verb.loss_scaling, maximize = o.maximize,
                 no_decay = o.no_decay, groups = o.groups}
    -- another optimizer, chosen by --optimizer, has its own defaults
    for key in pairs(set.optimizer == o.optimizer and tools.of_optimizers or {}) do
      how[key] = given[key]
    end
    how.weight_decay = (own_decay or decay ~= the_models) and decay or nil
    local made = tools.optimize(loss, how, listed(set.freeze))
    if made.apart[1] then
      local few, more = table.concat(made.apart, ", ", 1, math.min(#made.apart, 5)), #made.apart - 5
      local text = few .. (more > 0 and string.format(" and %d more", more) or "")
      tools.config({apart_from_loss = text}, "of the verb")
    end
    nn.output("train.lr", factor * set.lr)
    if set.ema > 0 then
      averaged = made.parameters
      nn.scope("optimizer_step", follow, made, set.ema)
    end
    if made.norm then nn.output("train.grad_norm", made.norm) end
    if made.scale then nn.output("train.scale", made.scale) end
    if not counted then nn.update(step, step + 1) end
  end)
  nn.entry("eval", function()
    local valid = nn.input("valid", {1}, {dtype = "i32", below = batch + 1})
    read_averages(averaged or {})
    values("eval", op.max(valid, 1))
  end)
  if not mode.smooths then fail("--label-smoothing: the model's loss has no cross_entropy") end
  mode.smoothing = nil
  if padded[1] then
    tools.config({counts_padding = table.concat(padded, ", ")}, "of the verb")
  end
  if width and verb.eval_examples > 0 then
    nn.entry("neighbours", function()
      nn.precision("fp32", find_neighbours, batch, verb.eval_examples, width)
    end)
  end
end
