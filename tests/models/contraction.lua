-- Contractions of random shapes, each an output of its own:
--   nngen tests/models/contraction.lua --set seed=17 count=20
-- or of given shapes, as a failing run prints them:
--   nngen tests/models/contraction.lua --set 'shapes=conv 2 3 9 7 5 3 3 2 1 1 0 1 1 1; matmul 2 5 7 3 0 1'
-- conv, data, filter: a convolution, its gradients by the image and by the filter, all of: images,
-- channels, height, width, outputs, kernel (2), stride (2), pad (2), dilation (2), groups; of conv
-- then the padding below and on the right, if it is another. matmul: batch, m, n, k, whether a and
-- b are given transposed (2: and were made by another kernel, whose output is read as it lies;
-- inputs of 16 bits are converted, and turned on the way)
local nn = require "nn"
local cfg = nn.config{seed = 1, count = 16, most = 160, shapes = "", exact = 0}

local state = cfg.seed * 6007 + 104729
local function random(n) -- 1 to n
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % n + 1
end
-- Mostly small; now and then near a tile's edge or beyond.
local function size(most)
  local kind = random(4)
  if kind == 1 then return random(math.min(4, most)) end
  if kind == 2 then return random(most) end
  return math.min(most, math.max(1, (random(4) * 16) + random(3) - 2))
end

local function random_conv()
  local groups = random(4) == 1 and random(4) or 1
  local c, out = size(40) * groups, size(70) * groups
  if random(6) == 1 then groups, out = c, c end -- depthwise
  local r, s, dh, dw = random(5), random(5), random(2), random(2)
  local ph, pw = random(r * dh) - 1, random(s * dw) - 1
  local h = math.max(1, (r - 1) * dh + 1 - 2 * ph) + random(16) - 1
  local w = math.max(1, (s - 1) * dw + 1 - 2 * pw) + random(16) - 1
  local kinds = {"conv", "conv", "data", "filter"}
  return string.format("%s %d %d %d %d %d %d %d %d %d %d %d %d %d %d", kinds[random(4)], random(3),
                       c, h, w, out, r, s,
                       random(3), random(3), ph, pw, dh, dw, groups)
end
local function random_matmul()
  return string.format("matmul %d %d %d %d %d %d", random(3), size(cfg.most), size(cfg.most),
                       size(cfg.most * 2),
                       random(3) - 1, random(3) - 1)
end

local function source(name, dims)
  local x = nn.input(name, dims)
  return cfg.exact == 1 and nn.floor(x * 4) or x -- whole numbers: their products and sums are exact
end
local function weight(name, dims)
  local w = nn.param(name, dims, {"normal", 0, cfg.exact == 1 and 1 or 0.5})
  return cfg.exact == 1 and nn.floor(w * 2) or w
end

local function split(text, separator) -- empty parts left out
  local parts, at = {}, 1
  while at <= #text + 1 do
    local stop = text:find(separator, at, true) or #text + 1
    if stop > at then parts[#parts + 1] = text:sub(at, stop - 1) end
    at = stop + 1
  end
  return parts
end

local function divisor(n) -- the smallest but 1
  for d = 2, n do if n % d == 0 then return d end end
  return 1
end
-- Phases of channels to rows, or columns in batches; then a part of it: stored where it leads.
local function moved(y)
  local n, d = y.shape, divisor(y.shape[#y.shape == 4 and 2 or 3])
  if #n == 4 then
    y = y:reshape{n[1], d, n[2] // d, n[3], n[4]}:permute{1, 3, 4, 2, 5}
         :reshape{n[1], n[2] // d, n[3] * d, n[4]}
    return nn.slice(y, 3, math.min(2, n[3] * d), n[3] * d)
  end
  y = y:reshape{n[1], n[2], n[3] // d, d}:permute{2, 1, 4, 3}:reshape{n[2], n[1] * d, n[3] // d}
  return nn.slice(y, 1, 1, (n[2] + 1) // 2)
end

local make = {}
function make.conv(i, n, c, h, w, out, r, s, sh, sw, ph, pw, dh, dw, g, bottom, right)
  local x = source("x" .. i, {n, c, h, w})
  local f = weight("w" .. i, {out, c // g, r, s})
  local pad = {ph, pw, bottom or ph, right or pw}
  local y = nn.op.conv2d(x, f, {stride = {sh, sw}, pad = pad, dilation = {dh, dw}, groups = g})
  if i % 3 == 1 then y = nn.relu(y + 1) end
  return y
end
-- A convolution's shapes, and numbers where its result has elements.
local function gradient(i, n, c, h, w, out, r, s, sh, sw, ph, pw, dh, dw, g)
  local p, q = (h + 2 * ph - dh * (r - 1) - 1) // sh + 1, (w + 2 * pw - dw * (s - 1) - 1) // sw + 1
  return source("g" .. i, {n, out, p, q}),
    {stride = {sh, sw}, pad = {ph, pw, ph, pw}, dilation = {dh, dw}, groups = g}
end
function make.data(i, n, c, h, w, out, r, s, ...)
  local dy, o = gradient(i, n, c, h, w, out, r, s, ...)
  o.size = {h, w}
  local y = nn.op.conv2d_data(dy, weight("w" .. i, {out, c // o.groups, r, s}), o)
  if i % 3 == 1 then y = nn.relu(y + 1) end
  return y
end
function make.filter(i, n, c, h, w, out, r, s, ...)
  local dy, o = gradient(i, n, c, h, w, out, r, s, ...)
  o.size = {r, s}
  local x = source("x" .. i, {n, c, h, w})
  return nn.op.conv2d_filter(dy, i % 3 == 2 and nn.abs(x) or x, o)
end
local function matrix(name, batch, rows, columns, turned)
  if turned == 0 then return source(name, {batch, rows, columns}) end
  if turned == 1 then return nn.transpose(source(name, {batch, columns, rows})) end
  return nn.transpose(nn.matmul(source(name, {batch, columns, 4}),
                                source(name .. "_row", {batch, 4, rows})))
end
function make.matmul(i, batch, m, n, k, ta, tb)
  local a = matrix("a" .. i, batch, m, k, ta)
  local b = i % 2 == 0 and weight("w" .. i, {k, n}) or matrix("b" .. i, batch, k, n, tb)
  -- All of a few outputs may cancel: no scale is left.
  if m * n < 64 then a, b = nn.abs(a), nn.abs(b) end
  return nn.matmul(a, b)
end

local function add(i, spec)
  print("y" .. i, spec)
  local words, numbers = split(spec, " "), {}
  for w = 2, #words do numbers[w - 1] = tonumber(words[w]) // 1 end
  local y = make[words[1]](i, table.unpack(numbers))
  nn.output("y" .. i, i % 5 == 3 and moved(y) or y)
  if i % 4 == 2 then -- sums of columns, in the epilogue where that is possible
    local axes = words[1] == "matmul" and {1, 2} or {1, 3, 4}
    if i % 8 == 6 then axes = words[1] == "matmul" and {2} or {3, 4} end -- of each image
    nn.output("sum" .. i, nn.sum(nn.abs(y) * (1 / 64), axes)) -- of one sign: nothing cancels
  end
end

local given = split(cfg.shapes, ";")
for i = 1, #given > 0 and #given or cfg.count do
  add(i, given[i] or (random(2) == 1 and random_conv() or random_matmul()))
end
