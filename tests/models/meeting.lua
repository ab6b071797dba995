-- Random maps of halves of a product, or of products of one input, and of what rows of these come
-- to: they meet or do not, and others read some of them. --set seed=N
local nn = require "nn"
local cfg = nn.config{seed = 1}

local state = cfg.seed * 7919 + 17
local function random(n) -- 1 to n
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % n + 1
end
local function one_of(list) return list[random(#list)] end

local rows, depth, width = one_of{8, 24, 33}, one_of{16, 40}, one_of{8, 16, 24, 48}
local x = nn.input("x", {rows, depth})
local pool, reads, count = {}, {}, 0
local function name(prefix) count = count + 1; return prefix .. count end
local function add(y) pool[#pool + 1] = y; reads[#pool] = 0 end
local function take() -- the newer ones more often
  local i = #pool + 1 - math.min(random(#pool), random(#pool))
  reads[i] = reads[i] + 1
  return pool[i]
end

local function halves()
  local h = x:linear(name "h", {out = 2 * width, bias = random(2) == 1})
  if random(3) == 1 then h = h:tanh() end
  add(nn.slice(h, 2, 1, width)); add(nn.slice(h, 2, width + 1, 2 * width))
end
local function products()
  for _ = 1, 1 + random(3) do
    add(x:linear(name "p", {out = width, bias = random(2) == 1}))
  end
end
one_of{halves, products}()

local unary = {nn.sigmoid, nn.tanh, nn.relu, function(h) return h:gelu() end,
               function(h) return h * h:sigmoid() end, function(h) return h * 0.5 + 0.25 end}
local steps = {
  function() add(one_of(unary)(take())) end,
  function() add(take() * take()) end,
  function() add(take() + take()) end,
  function() add(take() - nn.sigmoid(take())) end,
  function() add(take() * nn.param(name "scale", {width})) end,
  function() add(take() + nn.input(name "r", {rows, width})) end,
  function() add(take():rms_norm(name "n")) end,
  function() local y = take(); add(y * nn.rsqrt((y * y):mean(2, true) + 1)) end,
  function() local y = take(); add(take() * nn.tanh((y:sigmoid() * take()):sum(2, true))) end,
  function() nn.output(name "sums", nn.tanh(take()):sum(one_of{1, 2})) end,
  function() add(take():linear(name "l", {out = width})) end,
  function() nn.output(name "kept", take()) end,
}
for _ = 1, 4 + random(7) do one_of(steps)() end
for i, y in ipairs(pool) do
  if reads[i] == 0 then nn.output(name "y", y) end
end
