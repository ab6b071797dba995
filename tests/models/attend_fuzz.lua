-- attend_fuzz.lua: attention with a random score: nngen tests/models/attend_fuzz.lua --set seed=17.
-- Scores are maps of products, positions, ids and small tensors; conditions mask some of them, some
-- rows have no key at all. gradients=true: the derivatives of q, k and v are outputs too, each plus
-- what it belongs to: where each row sees one key they are 0, which no relative error is measured
-- by. learned=true: and those of biases and of factors of the weights.
local nn = require "nn"
local cfg = nn.config{seed = 1, gradients = false, learned = false}

local state = cfg.seed * 7919 + 104729
local function random(n) -- 1 to n
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % n + 1
end
local function pick(list) return list[random(#list)] end
local function sometimes(n) return random(n) == 1 end

local B, G, R = random(2), random(3), pick{1, 1, 2, 3}
local N, M = pick{1, 2, 7, 16, 17, 33, 64, 65, 100, 130}, pick{2, 5, 16, 31, 64, 77, 128, 129, 200}
local D, W = pick{8, 16, 24, 40, 64}, pick{8, 16, 32, 48}
local H = G * R
local q, k, v = nn.input("q", {B, H, N, D}), nn.input("k", {B, G, M, D}),
  nn.input("v", {B, G, M, W})
local wanted, lead = {q, k, v}, {B, H}
if R > 1 then
  q, k, v = q:reshape{B, G, R, N, D}, k:reshape{B, G, 1, M, D}, v:reshape{B, G, 1, M, W}
  lead = {B, G, R}
end

-- A shape that broadcasts to the scores: each leading dimension kept or 1.
local function shape(rows, columns)
  local dims = {}
  for i, d in ipairs(lead) do dims[i] = sometimes(2) and d or 1 end
  dims[#dims + 1], dims[#dims + 2] = rows, columns
  return dims
end
local count = 0
local function name(kind)
  count = count + 1
  return kind .. count
end
local function factor(kind, dims) -- of scores or weights, maybe one that is learned
  local x = nn.input(name(kind), dims)
  if cfg.learned then wanted[#wanted + 1] = x end
  return x
end
local row, key = nn.index({N, 1}, 1), nn.index({1, M}, 2)
local function position() -- an integer of a row or a key
  local x = pick{row, key}
  for _ = 1, random(3) - 1 do
    x = pick{function() return x + random(40) - 20 end, function() return x * random(3) end,
             function() return x // pick{2, 7, 16, 32} end,
             function() return x % pick{3, 16, 50} end,
             function() return nn.abs(x - random(60)) end,
             function() return nn.max(x, random(50)) end}()
  end
  return x
end
local function id() -- of a row, a key, or a batch
  local rows, columns = table.unpack(pick{{N, 1}, {1, M}, {1, 1}})
  local below = pick{2, 3, M + 1}
  return nn.input(name("ids"), shape(rows, columns), {dtype = "i32", below = below})
end
local function operand() return sometimes(4) and id() or position() end
local function compared()
  local a, b = operand(), pick{operand, operand, function() return random(M) end}()
  return pick{function() return a:lt(b) end, function() return a:le(b) end,
              function() return a:gt(b) end,
              function() return a:ge(b) end, function() return a:eq(b) end,
              function() return a:ne(b) end}()
end
local function condition(depth)
  if depth == 0 or sometimes(2) then return compared() end
  local a, b = condition(depth - 1), condition(depth - 1)
  return pick{function() return a:logical_and(b) end, function() return a:logical_or(b) end,
              function() return a:logical_not() end, function() return a:logical_xor(b) end}()
end

local s = q:matmul(k:transpose())
if not sometimes(4) then s = s * (1 / D ^ 0.5) end
for _ = 1, random(4) do
  s = pick{
    function() return s * pick{0.5, 2, -1} end,
    function() return (s * 0.25):tanh() * 4 end,
    function() return s + (key - row):to("f32") * 0.03125 end,
    function() return s + factor("bias", shape(pick{1, N}, pick{1, M})) end,
    function() return nn.where(condition(2), s, -math.huge) end,
    function() return nn.where(condition(1), -math.huge, s) end,
    function() return nn.where(condition(1), s, s * 0.5) end,
    function() return s + nn.where(condition(2), 0, -math.huge) end,
  }()
end
local most = s:amax(-1, true)
local shift = nn.stop_gradient(nn.where(most:eq(-math.huge), 0, most))
local e = (s - shift):exp()
local sum = e:sum(-1, true)
local p = e / nn.where(sum:eq(0), 1, sum)
if sometimes(3) then p = p * factor("share", shape(pick{1, N}, pick{1, M})) end
if sometimes(4) then
  p = nn.where(nn.random({N, M}, {kind = "bernoulli", p = 0.75, seed = cfg.seed}), p, 0) * (4 / 3)
end
local y = p:matmul(v)
if sometimes(3) then y = y * nn.input(name("gate"), {N, 1}) + 1 end
if sometimes(2) then y = cfg.gradients and y:tanh() or y:relu() end
if R == 1 and sometimes(2) then y = y:permute{1, 3, 2, 4}:reshape{B, N, H * W} end
if sometimes(2) then nn.output("lse", shift + sum:log()) end
nn.output("y", y)
if cfg.gradients then
  local loss = (y * nn.input("dy", y.shape)):sum()
  for i, g in ipairs(nn.grad(loss, wanted)) do
    nn.output("d" .. (i > 3 and i or ("qkv"):sub(i, i)), g + wanted[i])
  end
end
