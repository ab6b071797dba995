local nn = require "nn"
local x, e = nn.input("x", {3, 4}), nn.zeros{0, 4}
local case = nn.config{case = 1}.case
local cases = {
  function() local y = e:amax(1); return y end,
  function() local y = e:argmin(1); return y end,
  function() local y = e:index_select(1, nn.index({3})); return y end,
  function() local y = nn.zeros{2, 3, 0, 5}:max_pool2d(2); return y end,
  function() local y = x + nn.zeros{0, 4}; return y end,
  function() local y = x:narrow(1, 3, 2); return y end,
  function() local y = nn.linear(nn.zeros{2, 0}, "fc", {out = 4}); return y end,
  function() local y = nn.conv2d(nn.zeros{2, 0, 5, 5}, "c", {out = 4, kernel = 3}); return y end,
}
nn.output("y", cases[case]())
