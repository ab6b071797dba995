-- Small graphs, each with the number of kernels that a careful engineer would write for it by hand.
-- launches.txt has the numbers that they are. --set case=NAME
local nn = require "nn"
local cfg = nn.config{case = "softmax"}
local cases, wanted = {}, {
  adam = 1, attention_naive = 3, batch_statistics = 3, diamond = 3, filter_gradient = 1, gated = 4,
  group_norm = 3, large_sums = 2, layer_norm = 1, prenorm_mlp = 6, siblings = 2, softmax = 1,
  softmax_channels = 1, softmax_wide = 1, squeeze_excite = 4, two_convs = 5, unet = 7,
  variance_of_squares = 1,
}
local function conv(x, name, out, kernel) -- of the same size
  return x:conv2d(name, {out = out, kernel = kernel, pad = kernel // 2})
end
-- x less its mean along axes, over its deviation.
local function standard(x, axes)
  local d = x - x:mean(axes, true)
  return d * nn.rsqrt((d * d):mean(axes, true) + 1e-5)
end

function cases.adam() -- several results over one domain
  local function tensor(name) return nn.input(name, {1024}) end
  local p, g = tensor("p"), tensor("g")
  local m = tensor("m") * 0.9 + g * 0.1
  local v = tensor("v") * 0.999 + g * g * 0.001
  nn.output("m2", m); nn.output("v2", v)
  nn.output("p2", p - 0.001 * m / (nn.sqrt(v) + 1e-8))
end
function cases.attention_naive() -- products, a mask and a softmax, written out
  local B, T, H, D = 2, 128, 4, 32
  local x = nn.input("x", {B, T, H * D})
  local function heads(name)
    return x:linear(name, {out = H * D}):reshape{B, T, H, D}:permute{1, 3, 2, 4}
  end
  local q, k, v = heads("q"), heads("k"), heads("v")
  local scores = q:matmul(k:transpose()) * (1 / math.sqrt(D)) + nn.input("mask", {T, T})
  local o = scores:softmax():matmul(v):permute{1, 3, 2, 4}:reshape{B, T, H * D}
  nn.output("y", x + o:linear("o", {out = H * D}))
end
function cases.batch_statistics()
  nn.output("y", standard(nn.input("x", {32, 64, 56, 56}):max_pool2d{kernel = 2}, {1, 3, 4}))
end
function cases.diamond() -- a cheap map before a reduction and before a product
  local h = nn.exp(nn.input("x", {64, 256}))
  nn.output("a", h / h:sum(1, true))
  nn.output("b", h:matmul(nn.param("w", {256, 64})))
end
function cases.filter_gradient() -- written as a convolution
  local function turned(name, channels)
    return nn.input(name, {8, channels, 28, 28}):permute{2, 1, 3, 4}
  end
  local dw = nn.op.conv2d(turned("x", 16), turned("dy", 32), {pad = {1, 1, 1, 1}})
  nn.output("dw", dw:permute{2, 1, 3, 4})
end
function cases.gated() -- halves of one product, and two products
  local x = nn.input("x", {128, 256})
  local h = x:linear("up", {out = 1024})
  local y = nn.slice(h, 2, 1, 512) * nn.slice(h, 2, 513, 1024):sigmoid()
  nn.output("y", y:linear("down", {out = 256}))
  local g = x:linear("w1", {out = 512}):silu() * x:linear("w2", {out = 512})
  nn.output("z", g:linear("w3", {out = 256}))
end
function cases.group_norm()
  local x = nn.input("x", {2, 16, 28, 28})
  local y = x:conv2d("c1", {out = 32, kernel = 3, pad = 1, bias = false})
  nn.output("y", standard(y:reshape{2, 4, 8, 28, 28}, {3, 4, 5}):reshape{2, 32, 28, 28}:relu())
end
function cases.large_sums() -- of 205 million elements
  local x = nn.input("x", {256, 64, 112, 112})
  nn.output("y", (x * x):sum({1, 3, 4}))
  nn.output("l", x:mean())
end
function cases.layer_norm()
  local r = nn.input("r", {64, 256})
  local h = nn.input("x", {64, 256}) + r
  nn.output("y", standard(h, 2) * nn.param("gamma", {256}) + nn.param("beta", {256}) + r)
  nn.output("h", h)
end
function cases.prenorm_mlp()
  local h = nn.input("x", {4, 128, 256})
  for i = 1, 2 do
    local up = h:layer_norm("n" .. i):linear("a" .. i, {out = 1024}):gelu()
    h = h + up:linear("b" .. i, {out = 256})
  end
  nn.output("y", h)
end
function cases.siblings() -- maps and reductions of one input
  local x = nn.input("x", {64, 256})
  nn.output("a", x:relu()); nn.output("b", x:sigmoid())
  nn.output("c", x:sum(2)); nn.output("d", x:amax(2)); nn.output("e", (x * x):sum(1))
end
function cases.softmax()
  local x = nn.input("x", {64, 256})
  local e = nn.exp(x - x:amax(2, true))
  nn.output("y", e / e:sum(2, true))
end
function cases.softmax_channels() nn.output("y", nn.input("x", {2, 21, 32, 32}):softmax(2)) end
function cases.softmax_wide() nn.output("y", nn.input("x", {64, 32000}):softmax()) end
function cases.squeeze_excite()
  local x = nn.input("x", {8, 64, 56, 56})
  local y = conv(x, "c1", 64, 3):relu()
  local s = conv(conv(y:global_avg_pool(), "f1", 16, 1):relu(), "f2", 64, 1):sigmoid()
  nn.output("y", (y * s + x):relu())
end
function cases.two_convs() -- of one input, added and side by side
  local x = nn.input("x", {1, 64, 32, 32})
  local a, b = conv(x, "a1", 64, 1):relu(), conv(x, "b1", 64, 1):relu()
  nn.output("y", a + b)
  nn.output("z", conv(nn.concat({a, b}, 2), "c1", 64, 3))
end
function cases.unet() -- a skip beside what was made smaller and larger again
  local a = conv(nn.input("x", {1, 16, 64, 64}), "c1", 32, 3):relu()
  local b = conv(a:max_pool2d{kernel = 2}, "c2", 32, 3):relu()
  b = b:conv_transpose2d("up", {out = 32, kernel = 2, stride = 2})
  nn.output("y", conv(nn.concat({a, b}, 2), "c3", 16, 3))
end
function cases.variance_of_squares()
  local x = nn.input("x", {64, 256})
  local m = x:mean(2, true)
  nn.output("y", (x - m) * nn.rsqrt((x * x):mean(2, true) - m * m + 1e-5))
end
cases[cfg.case]()
print("kernels wanted " .. wanted[cfg.case])
