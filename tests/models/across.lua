-- Rows along an axis that is not the innermost in memory, and maps that read their results.
-- --set case=NAME batch=N channels=N height=N width=N
local nn = require "nn"
local cfg = nn.config{case = "norm", batch = 2, channels = 21, height = 16, width = 10}
local dims = {cfg.batch, cfg.channels, cfg.height, cfg.width}
local x = nn.input("x", dims)
local cases = {}

function cases.softmax() nn.output("y", x:softmax(2)) end
function cases.norm() -- of each pixel over its channels, with the statistics as results
  local m = x:mean(2, true)
  local d = x - m
  local v = (d * d):mean(2, true)
  nn.output("y", d * nn.rsqrt(v + 1e-5)
                 * nn.param("gain", {cfg.channels, 1, 1}, {"uniform", 0.5, 1.5}) + x)
  nn.output("mean", m)
end
function cases.two() -- three sweeps
  local s = nn.exp(x - x:amax(2, true))
  local p = s / s:sum(2, true)
  nn.output("y", p * nn.log(p + 1e-3) - (p * x):sum(2, true))
end
function cases.groups() -- group norm of a convolution, with a weight and an offset for each channel
  local y = x:conv2d("conv", {out = 32, kernel = 3, pad = 1})
  local g = y:reshape{cfg.batch, 4, 8, cfg.height, cfg.width}
  local d = g - g:mean({3, 4, 5}, true)
  local z = (d * nn.rsqrt((d * d):mean({3, 4, 5}, true) + 1e-5))
            :reshape{cfg.batch, 32, cfg.height, cfg.width}
  local gain = nn.param("gain", {32, 1, 1}, {"uniform", 0.5, 1.5})
  nn.output("y", (z * gain + nn.param("offset", {32, 1, 1})):relu())
end
cases[cfg.case]()
