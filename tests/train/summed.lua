-- Rows of a batch that are added up by their ids, and the same by comparing: evaluations leave the
-- padding of a last short batch out of both.
local nn = require "nn"
nn.train(8, function()
  local x, y = nn.images{8, 1, 8, 8, classes = 10}
  local e = x:flatten(2):linear("l", {out = 10})
  local v, count = nn.scatter_add(y, e, 10), nn.bincount(y, 10):to("f32")
  local hits = nn.index({10, 1}, 1):eq(y:reshape{1, 8})
  local v2 = nn.sum(nn.where(nn.unsqueeze(hits, 3), e:reshape{1, 8, 10}, 0.0), 2)
  local count2 = nn.sum(hits, 2):to("f32")
  return {loss = e:cross_entropy(y), rows = (v * v):sum(), rows_compared = (v2 * v2):sum(),
          count = (count * count):sum(), count_compared = (count2 * count2):sum()}
end, {lr = 0.1})
