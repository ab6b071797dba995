-- Reductions along any axes: inner, outer, both ends, all; of few elements and many.
local nn = require "nn"
local x = nn.sigmoid(nn.input("x", {6, 40, 30})) -- of one sign: nothing cancels
nn.output("outer", nn.sum(x, 1))
nn.output("middle", nn.sum(x, 2))
nn.output("inner", nn.sum(x, 3))
nn.output("ends", nn.sum(x, {1, 3}))
nn.output("all", nn.sum(x))
nn.output("largest", x:amax({1, 2}))
nn.output("smallest", x:amin({1, 2}))
nn.output("mean", x:mean({1, 2}, true) * 2)
