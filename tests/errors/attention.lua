local nn = require "nn"
local case = nn.config{case = ""}.case
local function floats(name, ...) return nn.input(name, {...}) end
local q, k, v = floats("q", 2, 6, 5, 8), floats("k", 2, 3, 7, 8), floats("v", 2, 3, 7, 4)
local i, b = nn.input("i", {2}, {dtype = "i32"}), nn.input("b", {2, 6, 5, 7}, {dtype = "bool"})
if case == "tensor" then nn.attention(q, k, 3) end
if case == "rank" then nn.attention(q:reshape{12, 5, 8}, k, v) end
if case == "batch" then nn.attention(q, k, floats("w", 1, 3, 7, 4)) end
if case == "heads" then nn.attention(floats("p", 2, 4, 5, 8), k, v) end
if case == "value heads" then nn.attention(q, k, floats("w", 2, 6, 7, 4)) end
if case == "depth" then nn.attention(floats("p", 2, 6, 5, 4), k, v) end
if case == "keys" then nn.attention(q, k, floats("w", 2, 3, 6, 4)) end
if case == "option" then nn.attention(q, k, v, {casual = true}) end
if case == "scale" then nn.attention(q, k, v, {scale = "sqrt"}) end
if case == "softcap" then nn.attention(q, k, v, {softcap = 0}) end
if case == "window" then nn.attention(q, k, v, {window = 0}) end
if case == "causal" then nn.attention(q, k, v, {causal = 1}) end
if case == "prefix" then nn.attention(q, k, v, {prefix = 3}) end
if case == "prefix dtype" then nn.attention(q, k, v, {causal = true, prefix = 3.5}) end
if case == "lengths" then nn.attention(q, k, v, {lengths = floats("l", 2)}) end
if case == "lengths shape" then nn.attention(q, k, v, {lengths = nn.index({3}, 1)}) end
if case == "documents" then nn.attention(q, k, v, {documents = nn.index({2, 7}, 2)}) end
if case == "documents shape" then nn.attention(q, k, v, {documents = {nn.index({2, 7}, 2), nn.index({2, 7}, 2)}}) end
if case == "documents dtype" then nn.attention(q, k, v, {documents = {i, floats("l", 2, 7)}}) end
if case == "mask" then nn.attention(q, k, v, {mask = floats("m", 5, 7)}) end
if case == "mask shape" then nn.attention(q, k, v, {mask = b:reshape{2, 6, 7, 5}}) end
if case == "bias" then nn.attention(q, k, v, {bias = b}) end
if case == "bias shape" then nn.attention(q, k, v, {bias = floats("m", 3, 5, 7)}) end
if case == "alibi" then nn.attention(q, k, v, {alibi = floats("m", 3)}) end
if case == "keep" then nn.attention(q, k, v, {keep = function(at) return at.key - at.query end}) end
if case == "keep shape" then nn.attention(q, k, v, {keep = function() return b:transpose() end}) end
if case == "score" then nn.attention(q, k, v, {score = function(s) return s:sum(4) end}) end
if case == "score inside" then nn.attention(q, k, v, {score = function(s, at)
  return s + at.column
end}) end
if case == "function" then nn.attention(q, k, v, {score = q}) end
if case == "dropout" then nn.attention(q, k, v, {dropout = {p = 1.5}}) end
if case == "infinite" then nn.attention(q, k, v, {scale = 1 / 0}) end
if case == "none" then nn.attention(q, k:slice(3, 1, 0), v:slice(3, 1, 0)) end
