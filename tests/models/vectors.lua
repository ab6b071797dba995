-- vectors.lua: products of one row, as in decoding: gated layers and norms around them.
local nn = require "nn"
local cfg = nn.config{case = "glu", K = 96, N = 64, rank = 3}
local K, N = cfg.K, cfg.N
local dims = cfg.rank == 2 and {1, K} or {1, 1, K}
local x = nn.input("x", dims)
local last = #dims
local function linear(v, name, out, bias)
  return v:linear(name, {out = out, bias = bias or false})
end
local function part(v, i, width) return nn.slice(v, last, (i - 1) * width + 1, i * width) end

-- A residual stream whose norm the products below read.
local function stream() return x + linear(x:tanh(), "first", K) end

local cases = {}
function cases.glu() return linear(linear(x, "gate", N):silu() * linear(x, "up", N), "down", K) end
function cases.joined() -- both halves by one product with a bias
  local h = linear(x, "both", 2 * N, true)
  return linear(part(h, 1, N):gelu() * part(h, 2, N), "down", K)
end
function cases.thirds()
  local h = linear(x, "all", 3 * N, true):tanh()
  return part(h, 1, N) * part(h, 2, N) + part(h, 3, N)
end
function cases.same() -- a half is read twice
  local h = linear(x, "both", 2 * N)
  return part(h, 1, N):tanh() * part(h, 2, N) + part(h, 2, N)
end
function cases.unequal()
  local h = linear(x, "both", 3 * N)
  return nn.slice(h, last, 1, N) * nn.slice(h, last, N + 1, 3 * N):sum(last, true)
end
function cases.output() -- a half is an output, too
  local h = linear(x, "both", 2 * N)
  nn.output("half", part(h, 1, N))
  return part(h, 1, N):silu() * part(h, 2, N)
end
function cases.whole() -- so is all of it
  local h = linear(x, "both", 2 * N)
  nn.output("both", h)
  return part(h, 1, N):silu() * part(h, 2, N)
end
function cases.before() -- what the halves are a map of is
  local h = linear(x, "both", 2 * N)
  nn.output("both", h)
  h = h:tanh()
  return part(h, 1, N) * part(h, 2, N)
end
function cases.by_hand() -- a gate that several maps read
  local g, u = linear(x, "gate", N), linear(x, "up", N)
  return linear(g * 0.5 * (1 + (0.8 * (g + 0.04 * g * g * g)):tanh()) * u, "down", K)
end
function cases.rms() return linear(stream():rms_norm("norm"), "after", N) end
function cases.layer() return linear(stream():layer_norm("norm"), "after", N, true) end
function cases.rms_glu()
  local h = stream():rms_norm("norm")
  return linear(linear(h, "gate", N):silu() * linear(h, "up", N), "down", K)
end
function cases.read_again() -- the norm itself is an output, and so is its scale
  local h = stream()
  local r = nn.rsqrt((h * h):mean(last, true) + 1e-5)
  nn.output("scale", r)
  return linear(h * r, "after", N)
end
function cases.shared() -- two products read one norm
  local h = stream():rms_norm("norm")
  nn.output("other", linear(h, "other", 2 * N))
  return linear(h, "after", N):tanh()
end
function cases.entries() -- rows of a prompt and a single row share the weights
  nn.entry("rows", function()
    local r = nn.input("r", {1, 16, K})
    nn.output("of_r", linear(linear(r, "gate", N):silu() * linear(r, "up", N), "down", K))
  end)
  nn.entry("again", function()
    local z = nn.input("z", {1, 1, K})
    nn.output("of_z", linear(linear(z, "gate", N):silu() * linear(z, "up", N), "down", K))
  end)
  return cases.glu()
end
function cases.batches() -- sums along a vector; the statistic is of all vectors
  local v, w = nn.input("v", {3, 1, K}), nn.param("w", {3, K, N}, {"normal", 0, 0.1})
  return v:matmul(w) * nn.rsqrt((v * v):mean({1, 2, 3}, true) + 1e-5)
end
function cases.axes() -- the products are summed along another dimension, too
  local v, w = nn.input("v", {6, 16, 1}), nn.param("w", {6, 16, N}, {"normal", 0, 0.1})
  return (w * v):sum({1, 3}, true) * nn.rsqrt((v * v):mean({1, 2, 3}, true) + 1e-5)
end
nn.output("y", assert(cases[cfg.case], "no such case")())
