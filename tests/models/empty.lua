-- Tensors without elements: as inputs, as parts, and as all that a reduction reads.
local nn = require "nn"
local x, e = nn.input("x", {3, 4}), nn.input("e", {2, 0, 4})
nn.output("sums", e:sum(2) + 1)
nn.output("product", e:prod())
nn.output("all", nn.all(e:gt(0), 2))
nn.output("any", nn.any(e:gt(0), 2))
nn.output("mean", e:mean())
nn.output("lse", e:logsumexp({1, 2, 3}))
nn.output("matmul", nn.zeros{3, 0}:matmul(nn.zeros{0, 2}) + x:slice(2, 1, 2))
nn.output("joined", nn.concat({x:slice(1, 1, 0), x, nn.zeros{0, 4}}, 1))
nn.output("none", (x * 2):slice(1, 2, 1))
nn.output("relu", e:relu())
nn.output("linear", nn.zeros{2, 0}:linear("fc", {out = 3}))
