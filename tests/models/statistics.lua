-- What a batch norm keeps: the entry train moves its running statistics, infer normalises by them.
local nn = require "nn"
local x = nn.input("x", {4, 3, 2, 5})
nn.entry("train", function()
  nn.output("y", x:batch_norm2d("bn", {training = true, momentum = 0.3}))
end)
nn.output("z", x:batch_norm2d("bn"))
