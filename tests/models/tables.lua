-- Numbers of the model itself: of Lua tables and of a file, floats and integers, beside a layer
-- with weights.
local nn = require "nn"
local cfg = nn.config{file = ""}
local waves, ids, odd = {}, {}, {}
for i = 1, 12 do
  waves[i], odd[i] = {}, {}
  for j = 1, 9 do waves[i][j], odd[i][j] = math.sin(i * j), i * j % 2 == 1 end
end
for i = 1, 80 do ids[i] = i * 7 % 12 end
local x = nn.input("x", {12, 9})
local y = nn.linear(x + nn.tensor(waves), "fc", {out = 9})
nn.output("rows", nn.gather(y, nn.tensor(ids), 1) * 2.0)
nn.output("masked", nn.where(nn.tensor(odd, {dtype = "bool"}), y, nn.tensor(waves)))
if cfg.file ~= "" then nn.output("from_file", nn.gather(x, nn.tensor(cfg.file), 1)) end
