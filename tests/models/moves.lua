-- Results of contractions that are moved before they are stored: each case says how many kernels it
-- takes, and prints the sum, which test_moves.sh compares. --set only=NAME: one case.
local nn = require "nn"
local cfg = nn.config{only = ""}
local x = nn.relu(nn.input("x", {2, 16, 7, 6})) -- images
local t = nn.relu(nn.input("t", {2, 24, 48}))   -- tokens
local sum = 0
local function case(kernels, name, make)
  if cfg.only ~= "" and cfg.only ~= name then return end
  sum = sum + kernels
  nn.output(name, make(name))
end
local function up(name, given, from) return (from or x):conv_transpose2d(name, given) end
local function heads(y, count) -- (B, T, C) -> (B, heads, T, C / heads)
  local b, n, c = table.unpack(y.shape)
  return y:reshape{b, n, count, c // count}:permute{1, 3, 2, 4}
end
local function merged(y) -- and back
  local b, h, n, d = table.unpack(y.shape)
  return y:permute{1, 3, 2, 4}:reshape{b, n, h * d}
end

-- Transposed convolutions: K of 16 to 1, so vectors of 8 to 1; what is cut, and what is not.
case(1, "k16", function(n) return up(n, {out = 16, kernel = 4, stride = 2, pad = 1}) end)
case(1, "k12", function(n)
  return up(n, {out = 12, kernel = 3, stride = 2, pad = 1, output_pad = 1})
end)
case(1, "k6", function(n) return up(n, {out = 6, kernel = 2, stride = 2}) end)
case(1, "k5", function(n) return up(n, {out = 5, kernel = 3, stride = {2, 3}, pad = {0, 2}}) end)
case(1, "k1", function(n) return up(n, {out = 1, kernel = 4, stride = 2, pad = 1}) end)
case(1, "dilated", function(n)
  return up(n, {out = 8, kernel = 3, stride = 2, pad = 1, dilation = 2})
end)
case(1, "gaps", function(n) return up(n, {out = 8, kernel = 1, stride = 3, output_pad = 2}) end)
case(1, "groups", function(n)
  return up(n, {out = 32, kernel = 4, stride = 2, pad = 1, groups = 2})
end)
case(1, "odd_groups", function(n)
  return up(n, {out = 20, kernel = 3, stride = 2, pad = 1, groups = 4})
end)
case(1, "stride1", function(n) return up(n, {out = 8, kernel = 3, pad = 2}) end) -- a slice at most

-- What comes before and after the moves.
case(1, "bn_relu", function(n)
  return up(n, {out = 16, kernel = 4, stride = 2, pad = 1}):batch_norm2d(n .. "_bn"):relu()
end)
case(2, "residual", function(n) -- the sum joins the later of its two convolutions
  return (up(n, {out = 8, kernel = 2, stride = 2})
          + up(n .. "_b", {out = 8, kernel = 4, stride = 2, pad = 1})):relu()
end)
case(2, "two_readers", function(n) -- of the moved value, channels last for the convolution
  local y = up(n, {out = 16, kernel = 4, stride = 2, pad = 1}):relu()
  return y:conv2d(n .. "_conv", {out = 16, kernel = 1}) + y
end)
case(1, "twice", function(n)
  local y = up(n, {out = 8, kernel = 2, stride = 2})
  return y * y + y
end)
case(1, "rolled", function(n) -- windows back to where they were in the picture
  local y = t:linear(n, {out = 12}):reshape(2, 2, 3, 2, 2, 12):permute{1, 2, 4, 3, 5, 6}
  return y:reshape(2, 4, 6, 12):roll({1, 2}, {2, 3}) + nn.input("picture", {2, 4, 6, 12})
end)
case(1, "rolled_columns", function(n)
  return t:linear(n, {out = 40}):roll({3, 5, 4}, {3, 2, 3}):relu()
end)
case(1, "rolled_by_words", function(n) return t:linear(n, {out = 40}):roll(-8, 3):relu() end)
case(1, "shuffle", function(n) -- maps, moves, maps, moves, maps
  local y = x:conv2d(n, {out = 32, kernel = 3, pad = 1}):relu()
  y = y:reshape{2, 2, 2, 8, 7, 6}:permute{1, 4, 5, 2, 6, 3}:reshape{2, 8, 14, 12} * 2 + 1
  return nn.slice(nn.slice(y, 3, 2, 13), 4, 1, 11):tanh()
end)
case(1, "channels_8_of_24", function(n)
  return nn.slice(x:conv2d(n, {out = 24, kernel = 1, bias = false}), 2, 9, 16)
end)
case(1, "channels_5_of_24", function(n)
  return nn.slice(x:conv2d(n, {out = 24, kernel = 1, bias = false}), 2, 8, 12)
end)
case(1, "parts_of_k", function(n) -- and one pixel is left
  return nn.slice(nn.slice(x:conv2d(n, {out = 8, kernel = {7, 6}, pad = 1}), 3, 2, 2), 4, 2, 2)
         :relu()
end)
case(2, "rows", function(n)
  return x:conv2d(n, {out = 16, kernel = 1}):permute{1, 3, 4, 2}:reshape{84, 16}:softmax()
end)

-- Matrix products.
case(1, "split", function(n) return heads(t:linear(n, {out = 48}), 3):relu() end)
case(1, "split_odd", function(n) return heads(t:linear(n, {out = 45}), 5) end)
case(6, "attention", function(n)
  local q, k, v = heads(t:linear(n .. "_q", {out = 48}), 3),
    heads(t:linear(n .. "_k", {out = 48}), 3), heads(t:linear(n .. "_v", {out = 48}), 3)
  return merged(nn.softmax(q:matmul(k:transpose()) * 0.25):matmul(v)) + t
end)
case(1, "merged", function(n)
  return merged(heads(t, 3):matmul(nn.param(n .. "_w", {3, 16, 16}, {"normal", 0, 0.3}))):tanh()
end)
case(1, "batch_rows", function(n)
  return nn.slice(t:matmul(nn.param(n .. "_w", {48, 40}, {"normal", 0, 0.3})):permute{2, 1, 3}
                  :reshape{24, 80}, 1, 3, 20)
end)

-- Not stored in place: read unmoved too, written with zeros besides, or one element of each sector.
case(2, "unmoved_too", function(n)
  local y = t:linear(n, {out = 48})
  nn.output(n .. "_plain", y)
  return heads(y, 3):relu()
end)
case(2, "padded", function(n)
  return nn.op.pad(t:linear(n, {out = 48}), {dims = {0, 1, 0}, ends = {0, 0, 2}})
end)
case(2, "turned", function(n)
  return nn.relu(t:matmul(nn.param(n .. "_w", {48, 1024}, {"normal", 0, 0.3})):permute{3, 1, 2})
end)
case(2, "sums", function(n) -- of columns that are phases, over the rows that are kept: a kernel
  local y = up(n, {out = 8, kernel = 4, stride = 2, pad = 1})
  nn.output(n .. "_of", nn.sum(y * y * (1 / 64), {1, 3, 4}))
  return y
end)
case(2, "square", function(n) -- of what would be rows, had it not been turned
  local y = t:reshape{48, 48}:matmul(nn.param(n .. "_w", {48, 48}, {"normal", 0, 0.3})):transpose()
  nn.output(n .. "_sums", nn.sum(y * y * (1 / 64), {1}))
  return y
end)

print("kernels expected", sum + 2) -- of x and t
