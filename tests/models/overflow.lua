-- Values beyond f16 on the way to results within it: whatever is fused, and which kernels read
-- them, these are right. (What is beyond f16 in the end, too, may be infinite: "beyond".)
local nn = require "nn"
local cfg = nn.config{case = "product"}
local x = nn.input("x", {64, 32})
local w = nn.param("w", {32, 32})
if cfg.case == "product" then -- one kernel stores what others sum and scale
  local h = (x * 300):matmul(w * 300)
  nn.output("scaled", h * 1e-4)
  nn.output("sums", (h * 1e-4):sum(2))
  nn.output("tenths", (h / 1e5):relu():mean(1))
elseif cfg.case == "squares" then
  local q = (x * 300) * (x * 300)
  nn.output("sums", q:sum(1) * 1e-4)
  nn.output("scaled", (q - 5) * 1e-4)
elseif cfg.case == "gathered" then
  local q = (x * 300) * (x * 300)
  nn.output("rows", q:gather(nn.index({3}, 1), 1) * 1e-4)
  nn.output("best", (q:topk(3, 2)) * 1e-4)
  nn.output("sums", q:take_along(nn.index({64, 2}, 2), 2):sum(2) * 1e-4)
elseif cfg.case == "statistic" then
  local v = ((x * 1000) * (x * 1000)):mean(1, true)
  nn.output("scaled", x:matmul(w) * v * 1e-6)
elseif cfg.case == "mixed" then -- one reader sums, the other does not
  local q = (x * 300) * (x * 300)
  nn.output("sums", q:sum(1) * 1e-4)
  nn.output("bounded", nn.tanh(q))
elseif cfg.case == "readers" then -- of a product: bounded, and small after another map
  local h = (x * 300):matmul(w * 300)
  nn.output("bounded", nn.tanh(h))
  nn.output("positive", nn.relu(h) * 1e-4)
  nn.output("gated", nn.gelu(h):mean(2) * 1e-4)
elseif cfg.case == "shared" then -- a product reads what others sum and scale
  local u = x:max_pool1d{kernel = 2} * 30000
  nn.output("scaled", u * 1e-4)
  nn.output("sums", u:sum(2) * 1e-4)
  nn.output("shares", (u * 1e-4):softmax())
  nn.output("nothing", u:matmul(nn.param("v", {16, 8})):eq(0))
elseif cfg.case == "positions" then -- numbers that f16 rounds to whole ones
  local angle = nn.index({3000, 1}, 1) * nn.exp(nn.index({1, 4}, 2) * -0.5)
  nn.output("turned", nn.input("rows", {3000, 8}) * nn.cos(nn.concat({angle, angle}, 2)))
elseif cfg.case == "root" then
  local h = x:matmul(w) * 300
  nn.output("root", nn.sqrt(h * h + 1))
elseif cfg.case == "beyond" then -- read in 16 bits, where it is infinite, as its reader's result is
  local h = (nn.abs(x) * 1e4):matmul(nn.abs(w) * 1e4)
  nn.output("product", h:matmul(nn.abs(w) * 10))
elseif cfg.case == "scores" then -- of which softmax takes the largest
  local heads, i, j = x:reshape{1, 2, 32, 32} * 300, nn.index({32, 32}, 1), nn.index({32, 32}, 2)
  local scores = heads:matmul(heads:transpose(3, 4))
  nn.output("attention", nn.softmax(scores):matmul(nn.input("v", {1, 2, 32, 32})))
  nn.output("masked", nn.log_softmax(nn.where(j:le(i), scores, -1e9)) * 1e-4)
elseif cfg.case == "window" then
  nn.output("pooled", (x * 3e4):reshape{1, 2, 32, 32}:avg_pool2d{kernel = 8})
elseif cfg.case == "outputs" then -- in fp32; a product reads none of it
  local q = (x * 300) * (x * 300)
  local s = nn.state("s", {64, 32})
  nn.output("positive", nn.relu(q - 5))
  nn.output("turned", q:reshape{32, 64}:transpose(1, 2) - q)
  nn.output("joined", nn.concat({q, x}, 2):slice(2, 17, 48) + 1)
  nn.output("most", nn.abs(q):reshape{1, 1, 64, 32}:max_pool2d{kernel = 2})
  nn.output("whole", (q * 0.25):to("i32"))
  nn.update(s, s * 0.5 + q)
elseif cfg.case == "gates" then -- bounded, of what is not a number if it is made of an infinity
  nn.output("gate", nn.sigmoid(nn.gelu((x * 300):matmul(w * 300))))
elseif cfg.case == "ratio" then
  local h = (x * 300):matmul(w * 300)
  nn.output("product", (h / (h:amax(2, true) + 1)):matmul(w))
elseif cfg.case == "rows" then -- beyond f16 by a sum
  local y = x:sum(2, true) * 3e4 + x
  nn.output("largest", y:amax(1))
  nn.output("minus", y - x)
elseif cfg.case == "factor" then -- weights times it are beyond f16
  nn.output("scaled", nn.relu(x:matmul(w) * 4e4) * 1e-5)
end
