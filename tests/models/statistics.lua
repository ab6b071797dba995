-- What a batch norm keeps: the entry train moves its running statistics, infer normalises by them.
-- --set other=true: so does an entry of another name, where the option says that it trains.
local nn = require "nn"
local cfg = nn.config{other = false}
local x = nn.input("x", {4, 3, 2, 5})
nn.entry(cfg.other and "other" or "train", function()
  nn.output("y", x:batch_norm2d("bn", {training = cfg.other, momentum = 0.3}))
end)
nn.output("z", x:batch_norm2d("bn"))
