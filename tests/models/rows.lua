-- Products whose right operand lacks batch dimensions of the left one: which of those become rows.
local nn = require "nn"

local x = nn.input("x", {3, 4, 5, 24})
nn.output("computed", nn.relu(x * 2 + nn.input("place", {5, 24})):linear("computed1", {out = 20}))
nn.output("one_row", nn.input("x1", {7, 1, 24}):linear("one_row1", {out = 20}))
nn.output("turned", nn.input("x2", {7, 24, 3}):transpose():linear("turned1", {out = 20}))
nn.output("partly", x:matmul(nn.input("w3", {3, 1, 24, 16})))
nn.output("no_batch", nn.input("x4", {5, 24}):matmul(nn.input("w4", {2, 24, 16})))
local y = x:linear("inner", {out = 24})
nn.output("scaled", y:linear("scaled1", {out = 20}) * nn.input("scale", {3, 1, 1, 1}))
nn.output("permuted", y:permute{3, 1, 2, 4}:linear("permuted1", {out = 20}))
nn.output("odd", nn.input("x5", {3, 4, 5, 7}):linear("odd1", {out = 9}))
nn.output("odd_part", nn.relu(nn.input("x6", {3, 4, 5, 7})):matmul(nn.input("w6", {3, 1, 7, 16})))
