local nn = require "nn"
local case = nn.config{case = 1}.case
local x, v = nn.input("x", {3, 4, 5}), nn.input("v", {8})
local i = nn.input("i", {8}, {dtype = "i32", below = 3})
local cases = {
  function() local y = x:vector_norm("2"); return y end,
  function() local y = x:matrix_norm("nuc"); return y end,
  function() local y = v:matrix_norm(); return y end,
  function() local y = x:matrix_norm(1, 2); return y end,
  function() local y = x:vecdot(v); return y end,
  function() local y = x:gradient{edge_order = 3}; return y end,
  function() local y = x:gradient{spacing = {1, 2}}; return y end,
  function() local y = x:gradient{axes = 2, spacing = v}; return y end,
  function() local y = v:slice(1, 1, 2):gradient{edge_order = 2}; return y end,
  function() local y = i:gradient(); return y end,
  function() local y = v:histogram(0); return y end,
  function() local y = v:histogram(4, {range = {2, 1}}); return y end,
  function() local y = v:histogram(v:slice(1, 1, 1)); return y end,
  function() local y = v:histogram(4, {weight = x}); return y end,
  function() local y = x:index_put({i:bool()}, 1); return y end,
  function() local y = x:index_put({i, i, i, i}, 1); return y end,
  function() local y = x:index_put({i}, v); return y end,
  function() local y = v:multinomial(9); return y end,
  function() local y = x:multinomial(2); return y end,
  function() local y = i:multinomial(2, true); return y end,
  function() local y = x:select(1, 1):cov{fweights = i}; return y end,
  function() local y = v:cov{aweights = i}; return y end,
  function() local y = i:frexp(); return y end,
  function() local y = i:nextafter(2); return y end,
  function() local y = x:ctc_loss(i, {1, 1, 1, 1}, {2, 2, 3, 3}); return y end,
  function() local y = x:ctc_loss(i, {1, 1, 1, 1}, i); return y end,
  function() local y = x:ctc_loss(i, {1, 1, 1, -1}, {2, 2, 3, 1}); return y end,
  function() local y = x:matrix_exp(); return y end,
  function() local y = x:trapezoid(nn.input("places", {4, 0}), 3); return y end,
}
nn.output("y", cases[case]())
