-- The pixels themselves as embedding, and darker, larger pictures as reconstruction: what an
-- evaluation makes of them is known.
local nn = require "nn"
local cfg = nn.config{batch = 8, product = false, far = 0.0}
nn.output("y", nn.input("x", {4}):relu())
nn.train(cfg.batch, function()
  local x = nn.images{cfg.batch, 1, 8, 8, classes = 4}
  -- Every batch has its own gradient, a sum of the examples'.
  local d = x:flatten():linear("fc", {out = 1}) - 1.0
  local even = nn.index({88}, 1):to("f32"):mean() -- of no example
  -- A sum, a mean, maxima and a number that is of no example: padding counts in none of them.
  local level = x:sum() / (64 * cfg.batch) + x:square():mean() * 3 + nn.parameters()[1]:mean()
  local peak, spread = x:amax(), x:mean(1):square():sum() + x:amax(1):mean()
  local product = cfg.product and (x:flatten():mean{2} * 0.1 + 1):prod() or nil
  local bright = x:mean{2, 3, 4}:gt(0.33)
  -- What stands behind all examples has the largest of sums of those before.
  local run, rank = x:mean{2, 3, 4}:cumsum(1), (x:mean{2, 3, 4}:gt(0) | bright):to("i32"):cumsum(1)
  return {loss = (d * d):mean(), even = even, level = level, bright = bright, peak = peak, spread = spread,
          run = run:amax() - (-run):amin(), rank = rank:amax(),
          product = product, embedding = x + cfg.far,
          reconstruction = (x * 0.5):interpolate{scale = 2}}
end, {lr = 0.01})
