local nn = require "nn"
local case = nn.config{case = ""}.case
local x, i = nn.input("x", {3, 4, 5}), nn.input("i", {3, 4, 5}, {dtype = "i32", below = 3})
local y
if case == "counts" then y = x:repeat_interleave(i:select(1, 1):select(2, 1), 2) end
if case == "section" then y = x:tensor_split({1, 1.5}, 2) end
if case == "unfold" then y = x:unfold(2, 5, 1) end
if case == "gather axis" then y = x:gather(4, i) end
if case == "scatter" then y = x:scatter(1, i, nn.zeros{2, 4, 5}) end
if case == "index_add" then y = x:index_add(2, nn.tensor{1, 2}, x) end
if case == "select" then y = x:select(2, 5) end
if case == "product" then y = i:matmul(i) end
if case == "lists" then y = x:tensordot(x, {{1, 3}, {2}}) end
-- Names that the line calls, not those of what it is made of.
if case == "view" then y = x:view(7, -1) end
if case == "zeros" then y = nn.zeros{-1} end
if case == "place" then y = x:at(1, 9) end
if case == "loss" then y = x:nll_loss(nn.zeros({7, 4}, {dtype = "i32"})) end
if case == "alias" then y = x:std({2, 2}) end
if case == "swapped" then y = x:swapaxes(1, 4) end
if case == "entry" then nn.entry("e", function() return x:view(7) end) end
if case == "sequence" then y = x:sequential("s", {{"relu"}, {"linear", {}}}) end
if case == "features" then y = nn.multi_head_attention(nn.zeros{1, 4, 0}, "m", {heads = 2}) end
if case == "pictures" then y = nn.adaptive_max_pool2d(nn.zeros{2, 4, 0, 6}, -1) end
if case == "inplace" then y = x:relu{inplace = true} end
if case == "training" then y = x:dropout{p = 0.1, training = false} end
if case == "converted" then y = x:sum{axes = 1, dtype = "f32"} end
if case == "absent" then y = x:conv1d("c", {in_channels = 4, out = 3, kernel = 1}) end
if case == "chance" then y = x:dropout(1.5) end
if case == "projection" then y = (x:lstm("l", {hidden = 4, proj_size = 4})) end
if case == "norm weight" then y = nn.functional.layer_norm(x, {5}, nn.ones(4)) end
if case == "bilinear" then y = x:bilinear("b", {x2 = nn.ones{3, 5, 2}, out = 2}) end
if case == "bilinear weight" then y = nn.functional.bilinear(x, x, nn.ones{2, 5, 4}) end
if case == "sorter" then y = nn.arange(5):searchsorted(x, {sorter = nn.arange(4)}) end
if case == "several" then y = nn.relu(x:sort()) end
if case == "number" then y = x:clamp(0, "one") end
if case == "no list" then y = nn.zeros{2, 4, 6, 6}:interpolate{} end
if case == "bare word" then y = x:pad({1, 1}, reflect) end
if case == "python" then y = x:sum(1, True) end
if case == "short name" then y = x:foo() end
if case == "divisor" then y = nn.zeros{1, 1, 4, 4}:avg_pool2d(2, {divisor_override = 0}) end
if case == "power" then y = x:lp_pool1d(0, 2) end
if case == "unpool" then y = x:max_unpool1d(x, 2) end
if case == "put" then y = x:put(i, nn.ones{5}) end
if case == "one" then y = x:select_scatter(nn.ones{5}, 2, 1) end
if case == "distances" then y = x:cdist(nn.ones{5}) end
if case == "rows" then y = x:searchsorted(nn.ones{5}) end
if case == "celu" then y = x:celu(0) end
if case == "dtype" then y = nn.zeros({2}, {dtype = "f99"}) end
if case == "setting" then y = x:dropout(nn.config{p = 0.1, rate = 0.2}.raet) end
if case == "huber" then y = x:huber_loss(x, {delta = 0}) end
if case == "bias" then y = nn.functional.conv1d(x, nn.ones{2, 4, 1}, nn.ones{1}) end
if case == "statistics" then y = nn.functional.batch_norm(x, nn.zeros{4}, nn.ones{3}) end
if case == "scale" then y = nn.functional.group_norm(x, 2, nn.ones{2, 2}) end
if case == "bytes" then y = i:byte() end
if case == "linalg" then y = nn.linalg.norm(x) end
if case == "seed" then y = nn.random({4}, {seed = 2^64}) end
if case == "step" then y = nn.random({4}, {step = 2^31}) end
if case == "draw" then y = nn.op.uniform(nn.index({4}), 0, 1 << 31, 1) end
local four = nn.zeros{2, 4, 8, 16}
if case == "batches" then y = nn.functional.scaled_dot_product_attention(nn.zeros{2, 3, 4, 9, 8}, nn.zeros{5, 4, 9, 8}, nn.zeros{4, 9, 8}) end
if case == "places" then y = four:attention(four, four, {keep = function(at) return at.kye:lt(3) end}) end
if case == "scales" then y = four:attention(four, four, {scale = {1, 2}}) end
nn.output("y", y)
