local nn = require "nn"
local case = nn.config{case = ""}.case
local x, p = nn.input("x", {4, 5}), nn.input("p", {2, 3, 6, 7})
local i = nn.input("i", {4}, {dtype = "i32", below = 5})
local function y(...) nn.output("y", (...)) end
if case == "ignored" then y(x:cross_entropy(x:softmax(), {ignore_index = 1})) end
if case == "labels" then y(p:cross_entropy(i)) end
if case == "weight" then y(x:nll_loss(i, {weight = nn.ones(4)})) end
if case == "target" then y(x:mse_loss(p)) end
if case == "batches" then y(p:max_unpool2d(nn.zeros(3, 6, 7):int(), 2)) end
if case == "offsets" then y(nn.functional.embedding_bag(i, x, {0, 3, 2})) end
if case == "bags" then y(nn.functional.embedding_bag(i, x)) end
if case == "sizes" then y(p:adaptive_avg_pool2d{1, 2, 3}) end
if case == "pads" then y(nn.functional.embedding(i, x, 4)) end
local q, k = nn.input("q", {7, 2, 8}), nn.input("k", {5, 2, 8})
if case == "mask" then y(q:multi_head_attention("a", {heads = 2, key = k, mask = x})) end
if case == "kdim" then y(q:multi_head_attention("a", {heads = 2, key = k, kdim = 6})) end
if case == "activation" then
  y(q:transformer_encoder_layer("a", {heads = 2, activation = "tanh"}))
end
if case == "antialias" then y(p:interpolate{size = {3, 3}, antialias = true}) end
if case == "corners" then y(p:interpolate{size = {3, 3}, align_corners = true}) end
if case == "grid" then y(p:grid_sample(nn.zeros(2, 4, 4, 3))) end
if case == "statistics" then y(nn.functional.batch_norm(p)) end
if case == "bits" then y(x & x) end
if case == "not" then y(~x) end
if case == "one hot" then y(x:one_hot(3)) end
if case == "trace" then y(p:trace()) end
if case == "pairs" then y(x:pdist(-1)) end
if case == "circular" then y(p:pad({9, 0}, "circular")) end
if case == "shift" then y(i << 32) end
if case == "bounds" then y(x:hardtanh(2, -2)) end
if case == "no name" then y(x:linear("", {out = 4})) end
if case == "unbiased" then y(x:var{unbiased = false}) end
if case == "start_dim" then y(x:flatten{start_dim = 1}) end
if case == "class" then y(nn.Conv2d(3, 4)) end
if case == "norm" then y(nn.batch_norm(p)) end
if case == "first values" then y(nn.param("w", {3}, {"normall", 0, 1})) end
if case == "first number" then y(nn.param("w", {3}, {"constant", "a"})) end
if case == "options" then y(x:cross_entropy(i, {wt = 1})) end
if case == "far too many" then y(p:pixel_shuffle(1 << 40)) end
if case == "a window far too large" then y(p:max_unpool2d(p:int(), 1e9)) end
if case == "a state of floats" then y(nn.state("s", {1}, {below = 3})) end
if case == "dim1" then y(x:diagonal{dim1 = 0, dim2 = 1}) end
