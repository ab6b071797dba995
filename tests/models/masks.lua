-- masks.lua: one causal mask, as it is written in several ways (form=...): of all of them the
-- compiler knows which tiles of scores it hides, and which it leaves alone.
local nn = require "nn"
local c = nn.config{form = "chosen", tokens = 300}
local N, dims = c.tokens, {1, 2, c.tokens, 32}
local q, k, v = nn.input("q", dims), nn.input("k", dims), nn.input("v", dims)
local s = q:matmul(k:transpose()) * 32 ^ -0.5
local row, key = nn.index({N, 1}, 1), nn.index({1, N}, 2)
local ones, lowest = nn.ones{N, N}, nn.full({N, N}, -math.huge)
local min = -3.4028234663852886e38 -- torch.finfo(torch.float).min
local forms = {
  chosen = function() return nn.where(key:le(row), s, -math.huge) end,
  added = function() return s + nn.triu(lowest, 1) end,
  filled = function() return s:masked_fill(nn.tril(ones):eq(0), -math.huge) end,
  not_zero = function()
    return s:masked_fill(nn.triu(lowest, 1):eq(0):logical_not(), -math.huge)
  end,
  lowest = function() return nn.where(key:le(row), s, min) end,
  lowest_added = function() return (s / 50):tanh() * 50 + nn.triu(nn.full({N, N}, min), 1) end,
  lowest_by_batch = function() return s + nn.where(key:le(row), 0, min):reshape{1, 1, N, N} end,
  lowest_filled = function() -- as models of Hugging Face have it
    local at = nn.arange(N)
    return s:masked_fill(at:unsqueeze(1):gt(at:unsqueeze(-1)):view(1, 1, N, N), min)
  end,
  lowest_scaled = function() -- GPT-J
    return nn.where(key:le(row), s * 32 ^ 0.5, min) / 32 ^ 0.5
  end,
  lowest_alibi = function() -- MPT: a bias of constants
    local slopes = nn.arange(1 - N, 1):view(1, 1, N) / nn.pow(2, nn.arange(1, 3) * 4):view(2, 1, 1)
    return (s + slopes):masked_fill(nn.triu(nn.ones({N, N}, {dtype = "bool"}), 1), min)
  end,
  lowest_biased = function() -- T5's decoder
    return s + (nn.param("bias", {2, N, N}) + nn.triu(nn.full({N, N}, min), 1))
  end,
  lowest_joined = function()
    return s:reshape{2, N, N}:masked_fill(key:gt(row), min):view(1, 2, N, N)
  end,
  lowest_window = function() -- Gemma 2, Mistral: of 256 keys
    local outside = nn.tril(nn.ones({N, N}, {dtype = "bool"}), -256)
    return s + nn.where(outside, min, nn.triu(nn.full({N, N}, min), 1))
  end,
  by_head = function() -- all keys are hidden from the second one
    return nn.where(key:le(row):logical_and(nn.index({2, 1, 1}, 1):lt(1)), s, min)
  end,
  lowered = function() -- the first row sees none, though what hides its keys is scaled
    return s + nn.where(row:ge(1), (row - key):to("f32"), min) * 0.125
  end,
  padding = function() -- an input hides all keys that the positions show
    local seen = nn.input("of", {N}, {dtype = "i32", below = 4}):gt(3):reshape{1, N}
    return s + nn.where(key:le(row), nn.where(seen, 0, min), min)
  end,
  strict = function() return nn.where(key:lt(row), s, min) end, -- the first row sees none
  cut = function()
    return nn.where(((row - key):to("f32") / 50):to("i32"):eq(0), s, -math.huge)
  end,
  half = function() -- of positions; the first row sees none, as 0.5 is cut to 0
    return nn.where((row:to("f32") * 0.5 + 0.5):to("i32"):gt(key), s, min)
  end,
  twice = function() -- some rows see none
    return nn.where(key:le(row), s, min) + nn.where(key:gt(row + 5), 0, min)
  end,
  documents = function() -- sees those of its own
    local of = nn.input("of", {N}, {dtype = "i32", below = 4})
    return nn.where(of:reshape{N, 1}:eq(of:reshape{1, N}), s, -math.huge)
  end,
  gathered = function()
    local of = nn.input("of", {N}, {dtype = "i32", below = 4})
    return nn.where(of:gather(row):eq(of:gather(key)), s, -math.huge)
  end,
  -- conditions of positions that are converted or leave 32 bits, which wraps or rounds them
  bytes = function() return nn.where((row - key):to("u8"):lt(20), s, -math.huge) end,
  halves = function() return nn.where((row * 1000):to("f16"):ge(key * 1000), s, -math.huge) end,
  brain = function()
    return nn.where((row * 9):bfloat16():eq((key * 9):bfloat16()), s, -math.huge)
  end,
  wrapped = function()
    return nn.where((row * 100000000):gt(key):logical_or(key:eq(row)), s, -math.huge)
  end,
  logarithm = function() return s + nn.log(nn.tril(ones)) end,
}
nn.output("y", forms[c.form]():softmax():matmul(v))
