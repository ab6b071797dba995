-- Graphs that show what is fused, with the kernels of `infer` that each may have. --set case=NAME
local nn = require "nn"
local cfg = nn.config{case = "siblings", rows = 24, width = 48}
local function at_most(count) print("kernels expected " .. count) end
local cases = require "fusion_places"(at_most)

-- Maps and reductions of one input: those along its rows are one kernel.
function cases.siblings()
  local x = nn.input("x", {64, 256})
  nn.output("a", x:relu()); nn.output("b", x:sigmoid()); nn.output("c", x:sum(2))
  nn.output("d", x:amax(2)); nn.output("e", (x * x):sum(1))
  at_most(2)
end
-- A reduced dimension that is dropped is no kernel.
function cases.dropped()
  local x = nn.input("x", {6, 5, 7, 9})
  nn.output("sums", (x * x):sum({1, 3, 4}))
  nn.output("mean", x:mean())
  at_most(2)
end
-- And what maps combine with it takes its shape: a moving average, a mean of losses.
function cases.beside_dropped()
  local x, y = nn.input("x", {64, 200}), nn.input("y", {64})
  local columns, number = nn.input("columns", {200}), nn.input("number", {})
  local average = nn.state("average", {200})
  nn.update(average, average * 0.9 + x:mean(1) * 0.1)
  nn.output("rows", (x:sum(2) + (y * 2):exp()):sqrt())
  nn.output("chosen", nn.where(y:gt(0), x:mean(2), y))
  nn.output("product", x:amax(1) * columns)
  nn.output("quotient", columns:sum() / number)
  at_most(3)
end
function cases.projections() -- of one input, each with an activation that reads it twice
  local x = nn.input("x", {24, 40})
  nn.output("a", x:linear("a", {out = 64}):gelu())
  nn.output("b", x:linear("b", {out = 32}):silu())
  at_most(1)
end
-- Sums of one value are one kernel, whatever is made of their results.
function cases.meeting()
  local p, m = nn.input("p", {300, 400}):sigmoid(), nn.input("m", {300, 400})
  local a, b, c = (p * m):sum(), (p * (1 - m)):sum(), ((1 - p) * m):sum()
  nn.output("tversky", 1 - (a + 1) / (a + 0.3 * b + 0.7 * c + 1))
  nn.output("dice", 1 - (2 * a + 1) / (p:sum() + m:sum() + 1))
  at_most(2) -- what a sum of numbers alone comes to is the second
end
-- A filter of a pixel is a sum of channels, of an image as it lies: its products are in no memory.
function cases.one_filter()
  local x = nn.input("x", {2, 24, 9, 13}):conv2d("c", {out = 24, kernel = 3, pad = 1}):relu()
  nn.output("head", x:conv2d("head", {out = 1, kernel = 1}):sigmoid())
  local z, w = nn.input("z", {2, 24, 9, 13}), nn.param("w", {1, 24, 1, 1})
  local g = nn.grad(nn.functional.conv2d(z, w):square():sum(), {z, w})
  nn.output("by_image", g[1]); nn.output("by_filter", g[2])
  at_most(5)
end
function cases.numbers() -- of several tensors: one launch makes them for one reader
  local sums = {}
  for i = 1, 5 do sums[i] = nn.input("z" .. i, {50, 40}):sum() end
  nn.output("numbers", nn.stack(sums, 1))
  at_most(2)
end
function cases.shared_keys() -- of an input: two attentions read them where they are
  local k, v = nn.input("k", {1, 2, 70, 32}), nn.input("v", {1, 2, 70, 32})
  nn.output("a", nn.input("q", {1, 2, 40, 32}):attention(k, v, {causal = true}))
  nn.output("b", nn.input("p", {1, 2, 33, 32}):attention(k, v))
  at_most(2)
end
-- Of rows of two tensors by one product; of each two of one tensor, and their gradient.
function cases.distances()
  local x, y = nn.input("x", {40, 16}), nn.input("y", {30, 16})
  nn.output("codes", nn.cdist(x, y))
  local pairs = nn.pdist(y)
  nn.output("pairs", pairs)
  nn.output("dy", nn.grad((pairs * pairs * pairs):sum(), y))
  at_most(6)
end
function cases.repeated() -- the gradient of what is repeated for a product: one sum
  local q, k = nn.input("q", {2, 8, 32, 16}), nn.input("k", {2, 2, 64, 16})
  local scores = q:matmul(k:repeat_interleave(4, 2):transpose())
  nn.output("dk", nn.grad((scores * nn.input("g", {2, 8, 32, 64})):sum(), k))
  at_most(2)
end
function cases.loss() -- of labels, of which some do not count: rows, and their mean
  local x, labels = nn.input("x", {40, 300}), nn.input("labels", {40}, {dtype = "i32", below = 300})
  nn.output("loss", x:cross_entropy(labels, {ignore_index = 3}))
  at_most(2)
end
function cases.maps() -- of classes: read where they lie, by the loss, its gradient and the places
  local x = nn.input("x", {2, 21, 24, 24})
  local labels = nn.input("labels", {2, 24, 24}, {dtype = "i32", below = 21})
  local loss = x:cross_entropy(labels, {axis = 2})
  nn.output("loss", loss)
  nn.output("gradient", nn.grad(loss, x))
  nn.output("hits", x:argmax(2):eq(labels):float():sum())
  at_most(3)
end
function cases.map_of_concat() -- computed by the products whose results the concat has
  local x = nn.input("x", {2, 8, 12, 12})
  local a = x:conv2d("a", {out = 8, kernel = 3, pad = 1})
  local b = x:conv2d("b", {out = 16, kernel = 5, pad = 2})
  nn.output("y", nn.concat({a, b}, 2):relu():conv2d("c", {out = 8, kernel = 1}))
  at_most(4) -- one copies x
end
function cases.transposed() -- stored along rows: the order of outputs, not that of the products
  local x = nn.input("x", {2, 16, 9, 13})
  local y = x:conv2d("c", {out = 40, kernel = 3, pad = 1}):relu()
  nn.output("y", y + nn.param("shift", {40, 1, 1}))
  local a = nn.input("a", {70, 48})
  nn.output("t", nn.gelu(a:linear("fc", {out = 24}):t()))
  nn.output("heads", a:linear("qkv", {out = 32}):reshape{70, 4, 8}:permute{2, 3, 1})
  at_most(3)
end

function cases.transposed_and_read() -- also read in the product's order: a copy
  local x = nn.input("x", {4, 16, 32, 32})
  local y = x:conv2d("c", {out = 64, kernel = 3, pad = 1}):relu()
  nn.output("y", y)
  nn.output("z", y:conv2d("d", {out = 8, kernel = 1}))
  at_most(3)
end

function cases.rotary_transposed() -- heads last, as some caches of keys have them
  local n, heads, depth = 40, 4, 32
  local x = nn.input("x", {n, 64})
  local c, s = nn.input("c", {depth // 2, 1}), nn.input("s", {depth // 2, 1})
  local k = x:linear("k", {out = heads * depth}):reshape{n, heads, depth}:permute{2, 3, 1}
  local a, b = k:slice(2, 1, depth // 2), k:slice(2, depth // 2 + 1, depth)
  local cache = nn.state("cache", {heads, depth, n})
  nn.update(cache, nn.concat({a * c - b * s, b * c + a * s}, 2))
  nn.output("before", cache * 2)
  at_most(3)
end

function cases.joined_output() -- parts are stored in the output, in its order
  local x = nn.input("x", {2, 16, 9, 11})
  local a = x:conv2d("a", {out = 24, kernel = 3, pad = 1}):relu()
  local b, c = x:conv2d("b", {out = 13, kernel = 5, pad = 2}), nn.tanh(nn.input("c", {2, 5, 9, 11}))
  nn.output("y", nn.concat({a, c, b}, 2))
  at_most(3)
end

function cases.flattened() -- the weights' rows are permuted by init, not the images
  local x = nn.input("x", {5, 8, 9, 7})
  local y = x:conv2d("c", {out = 24, kernel = 3}):relu()
  nn.output("y", y:flatten():linear("fc", {out = 40}):relu())
  nn.output("one", y:narrow(1, 2, 1):flatten():linear("last", {out = 33}))
  at_most(4)
end

function cases.cut_convolution() -- causal, as Mamba has it: padded on both sides, then cut
  local x = nn.input("x", {2, 40, 8}):transpose(2, 3)
  local y = x:conv1d("c", {out = 8, kernel = 4, pad = 3, groups = 8}):slice(3, 1, 40)
  nn.output("y", y:silu():transpose(2, 3))
  at_most(1)
end
function cases.maps_of_product() -- labels, beside them, are read by each kernel that wants some
  local x = nn.input("x", {2, 32, 24, 24})
  local labels = nn.input("labels", {2, 24, 24}, {dtype = "i32", below = 21})
  local y = x:conv2d("head", {out = 21, kernel = 1})
  local loss = y:cross_entropy(labels, {axis = 2})
  local gradients = nn.grad(loss, nn.parameters())
  nn.output("loss", loss)
  nn.output("weight", gradients[1]); nn.output("bias", gradients[2])
  at_most(7)
end
function cases.permuted_maps() -- by the model, as pixels and as they are: read where they lie
  local x, scale = nn.input("x", {2, 21, 24, 24}), nn.input("scale", {21})
  local labels = nn.input("labels", {2 * 24 * 24}, {dtype = "i32", below = 21})
  local loss = x:permute(1, 3, 4, 2):reshape{2 * 24 * 24, 21}:cross_entropy(labels)
  nn.output("loss", loss)
  nn.output("gradient", nn.grad(loss, x))
  nn.output("places", (x:permute(1, 3, 4, 2) * scale):argmax(4))
  nn.output("turned", nn.input("y", {60, 40}):t():layer_norm("n"):amax(2))
  at_most(4)
end
-- Nor are maps of what is left, with numbers or with others that were reduced so.
function cases.behind_dropped()
  local x, y = nn.input("x", {64, 2000}), nn.input("y", {64, 32})
  nn.output("opposite", -(x:sum(-1)))
  nn.output("difference", x:logsumexp(-1) - x:mean(-1))
  nn.output("length", (x * x):sum(-1):sqrt():clamp(1e-3))
  nn.output("place", x:argmax(-1) + 1)
  nn.output("columns", x:amax(1):relu() * 2) -- one kernel more
  nn.output("all", -(y:sum() * 0.5) + 1)      -- and one
  at_most(3)
end
-- Maps that pair columns of one product, as rotary embeddings do, each of a size of its own: one
-- launch.
function cases.beside()
  local h = nn.input("x", {4, 32}):matmul(nn.param("w", {32, 96}))
  local function paired(from, to)
    local half = (to - from + 1) // 2
    return h:slice(2, from, from + half - 1) * nn.exp(h:slice(2, from + half, to))
  end
  local q, k = paired(1, 64), paired(65, 96)
  nn.output("y", q:matmul(nn.param("u", {32, 8})) + k:matmul(nn.param("v", {16, 8})))
  at_most(4)
end
-- Norms of each head, of slices that the kernel of their rows reads where they lie.
function cases.head_norms()
  local N, H, D = cfg.rows + 3, 3, 16
  local h = nn.input("x", {2, N, 48}):linear("qkv", {out = 2 * H * D})
  local function head(name, from)
    local x = h:slice(3, from, from + H * D - 1):reshape{2, N, H, D}
    return x:rms_norm(name):permute{1, 3, 2, 4}
  end
  nn.output("scores", head("q", 1):matmul(head("k", H * D + 1):permute{1, 2, 4, 3}))
  at_most(3)
end
-- Rotary positions: a product's tile holds both halves of a head, biased, which its epilogue
-- combines; it stores the third part beside them.
function cases.rotary()
  local N, H, D, C = cfg.rows + 3, 3, 16, 48
  local h = nn.input("x", {2, N, C}):linear("qkv", {out = 2 * C + 40, bias = true})
  local angle = nn.index({N, 1}, 1) * nn.pow(100.0, nn.index({1, D // 2}, 2) * (-2.0 / D))
  local function turned(from)
    local x = h:slice(3, from, from + C - 1):reshape{2, N, H, D}:permute{1, 3, 2, 4}
    local a, b = x:slice(4, 1, D // 2), x:slice(4, D // 2 + 1)
    local cos, sin = nn.cos(angle), nn.sin(angle)
    return nn.concat({a * cos - b * sin, b * cos + a * sin}, 4)
  end
  nn.output("scores", turned(1):matmul(turned(C + 1):permute{1, 2, 4, 3}))
  nn.output("rest", h:slice(3, 2 * C + 1))
  at_most(2)
end
-- The same as it is often written, of whole heads and their halves exchanged.
function cases.rotary_exchanged()
  local N, H, D, C = cfg.rows + 3, 3, 16, 48
  local x = nn.input("x", {2, N, C})
  local angle = nn.index({N, 1}, 1) * nn.pow(100.0, nn.index({1, D // 2}, 2) * (-2.0 / D))
  local both = nn.concat({angle, angle}, 2)
  local function turned(name)
    local h = x:linear(name, {out = C, bias = true}):reshape{2, N, H, D}:permute{1, 3, 2, 4}
    local exchanged = nn.concat({-h:slice(4, D // 2 + 1), h:slice(4, 1, D // 2)}, 4)
    return h * nn.cos(both) + exchanged * nn.sin(both)
  end
  nn.output("scores", turned("q"):matmul(turned("k"):permute{1, 2, 4, 3}))
  at_most(2)
end
-- A part of each head alone is turned, the first or the last, and all of it is scaled.
function cases.rotary_partial()
  local N, H, D, C, R = cfg.rows + 3, 3, 16, 48, 8
  local x = nn.input("x", {2, N, C})
  local angle = nn.index({N, 1}, 1) * nn.pow(100.0, nn.index({1, R // 2}, 2) * (-2.0 / R))
  local both = nn.concat({angle, angle}, 2)
  local function turned(name, from, last)
    local h = x:linear(name, {out = C}):reshape{2, N, H, D}:permute{1, 3, 2, 4}
    local r = h:slice(4, from, from + R - 1)
    local rest = last and h:slice(4, 1, from - 1) or h:slice(4, R + 1)
    local exchanged = nn.concat({-r:slice(4, R // 2 + 1), r:slice(4, 1, R // 2)}, 4)
    r = r * nn.cos(both) + exchanged * nn.sin(both)
    return nn.concat(last and {rest, r} or {r, rest}, 4) * 0.5
  end
  nn.output("scores", turned("q", 1):matmul(turned("k", D - R + 1, true):permute{1, 2, 4, 3}))
  at_most(2)
end
-- 216 windows, some 1500 operations, of which a kernel takes 160: they are compiled in a moment.
function cases.windows()
  local x = nn.input("x", {1, 1, 6, 6, 6})
  nn.output("y", nn.max_unpool3d(x, nn.to(x, "i32"), 6, {stride = 1, size = 6}))
  at_most(13)
end
-- A map read by a reduction across rows and by a product: the reduction computes it again.
function cases.diamond()
  local x = nn.input("x", {64, 256})
  local h = nn.exp(x)
  nn.output("a", h / h:sum(1, true))
  nn.output("b", h:matmul(nn.param("w", {256, 64})))
  at_most(3)
end
-- What one kernel reads of several whole tensors is reduced by one launch for each monoid.
function cases.norms()
  local sizes = {{40, 30}, {7}, {2, 3, 100, 9}, {1}, {50000}}
  local squares, most
  for i, size in ipairs(sizes) do
    local x, y = nn.input("x" .. i, size), nn.input("y" .. i, size)
    local square, largest = (x * x):sum(), y:amax()
    squares = squares and squares + square or square
    most = most and nn.maximum(most, largest) or largest
  end
  nn.output("norm", squares:sqrt())
  nn.output("most", most)
  at_most(3) -- and the map that adds up
end
-- Updates of many tensors, clipped by a norm of all of them: those that are alike share text.
function cases.updates()
  local sizes, squares = {4, 1024, 3072, 60, 7000, 1, 2049, 35, 3, {40, 30}}, nil
  local given, states = {}, {}
  for i, size in ipairs(sizes) do
    local flat = type(size) == "number"
    given[i] = flat and nn.input("x" .. i, {size}) or nn.input("x" .. i, size):t()
    states[i] = nn.state("s" .. i, given[i].shape, {dtype = i == 5 and "f16" or "f32"})
    local square = given[i]:square():sum()
    squares = squares and squares + square or square
  end
  local scale = nn.minimum(1 / squares:sqrt(), 1)
  for i, x in ipairs(given) do nn.update(states[i], states[i] * 0.9 + x * scale) end
  nn.output("norm", squares)
  at_most(4) -- the tensor of one element has no part in the sums, and the matrix its own
end
-- Heads that are normalised, seen as channels again and gated: one kernel.
function cases.gated_heads()
  local N, H, D = cfg.rows, 3, 16
  local x, g = nn.input("x", {2, N, H, D}), nn.input("g", {2, N, H * D})
  local w = nn.param("w", {H * D})
  nn.output("rms", nn.functional.rms_norm(x, {D}):reshape{2, N, H * D} * g:silu() * w)
  nn.output("layer", nn.functional.layer_norm(x - 1, {D}):reshape{2, N, H * D} + g)
  local of = x:reshape{2 * N, H * D}
  nn.output("group", nn.functional.group_norm(of, H):view(2, N, H * D) * g:sigmoid())
  at_most(2)
end
-- The factors of GELU do not make two convolutions of one, whatever is between.
function cases.stem()
  local x = nn.input("x", {2, 12, 50})
  nn.output("y", x:conv1d("a", {out = 16, kernel = 3, pad = 1}):gelu())
  nn.output("z", x:conv1d("b", {out = 16, kernel = 3, groups = 2, bias = false}):gelu("tanh"))
  nn.output("w", x:conv_transpose1d("c", {out = 8, kernel = 4, stride = 2}):gelu())
  at_most(4)
end
-- A gated unit: halves of one product, or two products of one input, in one epilogue.
function cases.gated()
  local x = nn.input("x", {24, 40})
  local h = x:linear("up", {out = 96})
  nn.output("y", nn.slice(h, 2, 1, 48) * nn.slice(h, 2, 49, 96):sigmoid())
  nn.output("z", x:linear("gate", {out = 64, bias = false}):silu() * x:linear("value", {out = 64}))
  local c = nn.input("c", {1, 16, 6, 5}):conv2d("c", {out = 32, kernel = 3, pad = 1})
  nn.output("w", nn.slice(c, 2, 1, 16):tanh() + nn.slice(c, 2, 17, 32))
  at_most(5) -- a copy of the image and, in 16 bits, of x among them
end
function cases.gated_behind_norm() -- of whose kernel a factor and a bias come first
  local x = nn.input("x", {2, 24, 64})
  x = x + x:linear("o", {out = 64})
  local a, g = x:layer_norm("norm"):linear("f1", {out = 512}):chunk(2, -1)
  nn.output("y", x + (a * g:gelu()):linear("f2", {out = 64}))
  at_most(4) -- and, in 16 bits, a copy of x
end
-- Activations that read their half in several places, one half that is an output too, and two
-- products among others of one input.
function cases.activations()
  local rows, width = cfg.rows, cfg.width
  local acts = {function(h) return h:gelu() end, function(h) return h:gelu("tanh") end,
                function(h) return h * h:sigmoid() end, nn.mish,
                function(h) return h * nn.tanh(nn.softplus(h)) end}
  for i, act in ipairs(acts) do
    local h = nn.input("x" .. i, {rows, 40}):linear("up" .. i, {out = 2 * width})
    local a, b = nn.slice(h, 2, 1, width), nn.slice(h, 2, width + 1, 2 * width)
    nn.output("y" .. i, i % 2 == 0 and a * act(b) or act(a) * b)
    if i == 3 then nn.output("kept", a) end
  end
  local x = nn.input("x", {rows, 40})
  local function product(name) return x:linear(name, {out = width}) end
  nn.output("z", product("gate"):gelu() * product("value") * product("scale"))
  nn.output("k", product("k")); nn.output("v", product("v"))
  at_most(9) -- in 16 bits, copies of the inputs among them
end
-- Products of one input are one, whose parts are stored where each of them leads.
function cases.heads()
  local x = nn.input("x", {2, 12, 32})
  local function heads(t) return t:reshape{2, 12, 4, 8}:permute{1, 3, 2, 4} end
  local q, k, v = heads(x:linear("q", {out = 32})), heads(x:linear("k", {out = 32})),
    heads(x:linear("v", {out = 32}))
  nn.output("scores", q:matmul(nn.transpose(k)))
  nn.output("values", v)
  at_most(3)
end
function cases.branches() -- convolutions of one input; one part is read in two ways
  local x = nn.input("x", {1, 16, 9, 8})
  local a = x:conv2d("a", {out = 24, kernel = 1}):relu()
  local b = x:conv2d("b", {out = 16, kernel = 1})
  nn.output("a", a)
  nn.output("ab", nn.concat({a, b}, 2):conv2d("c", {out = 8, kernel = 3, pad = 1}))
  nn.output("b", nn.slice(b, 2, 3, 9) * 2)
  at_most(4)
end
function cases.statistics() -- mean and variance in one sweep
  local y = nn.input("x", {4, 16, 12, 12}):max_pool2d{kernel = 2}
  local d = y - y:mean({1, 3, 4}, true)
  nn.output("y", d * nn.rsqrt((d * d):mean({1, 3, 4}, true) + 1e-5))
  at_most(3)
end
function cases.squares() -- two reductions over rows, the second of a map
  local x = nn.input("x", {64, 256})
  local m = x:mean(2, true)
  nn.output("y", (x - m) * nn.rsqrt((x * x):mean(2, true) - m * m + 1e-5))
  at_most(1)
end
-- A product and what is added to it, which norms read and other kernels too: what each norm sums up
-- it computes itself.
function cases.residual()
  local x = nn.input("x", {64, 256})
  local y = x:linear("a", {out = 256}) + x
  nn.output("y", y + y:rms_norm("n"):linear("b", {out = 256}):rms_norm("m"))
  nn.output("energy", (y * y):sum(2))
  at_most(5) -- in 16 bits, a copy of x among them
end
function cases.groups() -- a group norm: its reshapes are no kernels
  local g = nn.input("x", {2, 32, 14, 14}):relu():reshape{2, 4, 8, 14, 14}
  local d = g - g:mean({3, 4, 5}, true)
  nn.output("y", (d * nn.rsqrt((d * d):mean({3, 4, 5}, true) + 1e-5)):reshape{2, 32, 14, 14}:relu())
  at_most(2)
end
function cases.group_layer() -- the layer, its weight, its bias and what follows
  local x = nn.input("x", {2, 16, 14, 14}):conv2d("c", {out = 32, kernel = 3, pad = 1})
  nn.output("y", x:group_norm("g", {groups = 4}):relu())
  at_most(2)
end
-- What a convolution makes is added up for each image where it is made: squeeze and excitation, and
-- the mean and variance of an instance norm; of a product, for each sequence and each position.
function cases.images()
  local x = nn.input("x", {3, 16, 9, 10})
  local y = x:conv2d("c", {out = 24, kernel = 3, pad = 1}):relu()
  local s = y:global_avg_pool():conv2d("f1", {out = 8, kernel = 1}):relu()
  nn.output("y", y * s:conv2d("f2", {out = 24, kernel = 1}):sigmoid())
  local z = x:conv2d("d", {out = 40, kernel = 3, stride = 2})
  local m = z:mean({3, 4}, true)
  nn.output("z", (z - m) * nn.rsqrt((z * z):mean({3, 4}, true) - m * m + 1e-5))
  local t = nn.input("t", {4, 6, 33, 32}):linear("l", {out = 48}):tanh()
  nn.output("tokens", t)
  nn.output("over", t:mean(3))
  nn.output("across", nn.input("u", {4, 70, 5, 32}):linear("k", {out = 20}):square():sum(2))
  at_most(8)
end
-- What a convolution makes is reduced where it is made, by groups of neighbouring channels too,
-- which tiles cut or not: moments for norms of groups and of instances, the largest pixel,
-- log-sum-exp.
function cases.channels()
  local function conv(name, out)
    return nn.input("of_" .. name, {3, 16, 9, 10}):conv2d(name, {out = out, kernel = 3, pad = 1})
  end
  nn.output("groups", conv("a", 40):group_norm("gn", {groups = 4}):relu())
  nn.output("many", conv("b", 144):group_norm("gm", {groups = 2}))
  nn.output("odd", conv("c", 33):group_norm("go", {groups = 11, affine = false}))
  nn.output("instances", conv("d", 24):instance_norm2d("in", {affine = true}):relu())
  nn.output("largest", conv("e", 20):amax({3, 4}))
  nn.output("most_of_pairs", conv("f", 20):reshape{3, 10, 2, 9, 10}:logsumexp({3, 4, 5}))
  nn.output("positions", nn.input("t", {4, 33, 32}):linear("l", {out = 48}):reshape{4, 33, 6, 8}
    :sum({2, 4}))
  at_most(9)
end
-- Far from zero, with one pixel far from all others: the moments are exact nevertheless.
function cases.far()
  local x = nn.input("x", {2, 8, 12, 12}) * 0.01 + 100.0
  local first = nn.index({2, 8, 12, 12}, 4):eq(0):logical_and(nn.index({2, 8, 12, 12}, 3):eq(0))
  local y = nn.where(first, 0.0, x):conv2d("c", {out = 16, kernel = 1, bias = false})
  local groups = y:reshape{2, 4, 4, 12, 12}
  nn.output("var", groups:var({3, 4, 5}))
  nn.output("mean", groups:mean({3, 4, 5}))
  at_most(2)
end
-- Integers keep all of their digits where products reduce them, and beside moments.
function cases.integers()
  local function bits(name, dims) return (nn.input(name, dims, {dtype = "i32"}) % 2):to("f32") end
  local y = bits("x", {64, 32}):matmul(bits("w", {32, 16})):to("i32") + 16777217
  nn.output("most", y:amax(1))
  nn.output("sum", (y % 3 + 16777217):sum(1))
  local z = nn.input("z", {5000, 40}, {dtype = "i32"})
  nn.output("var", z:to("f32"):var(1))
  nn.output("beside", (z % 4 + 16777217):sum(1))
  at_most(4)
end
-- A concat is no kernel: those that make its parts write them where it lies, and a part is read
-- there.
function cases.concat()
  local x = nn.input("x", {1, 16, 16, 16})
  local a = x:conv2d("c1", {out = 24, kernel = 3, pad = 1}):relu()
  local b = a:max_pool2d{kernel = 2}:conv2d("c2", {out = 32, kernel = 3, pad = 1}):relu()
    :conv_transpose2d("up", {out = 8, kernel = 2, stride = 2})
  nn.output("y", nn.concat({a, b}, 2):conv2d("c3", {out = 16, kernel = 3, pad = 1}))
  at_most(6)
end
function cases.parts() -- of odd sizes, along several axes, one of them an output too
  local x, y = nn.input("x", {3, 5, 7}), nn.input("y", {3, 5, 6})
  local a, b = nn.tanh(x) * 2, nn.sigmoid(y) + 1
  local all = nn.concat({a, b}, 3)
  nn.output("scaled", all:matmul(nn.param("w", {13, 8})))
  nn.output("stacked", nn.concat({nn.exp(x), nn.relu(x), -x}, 1):linear("l", {out = 4}))
  nn.output("b", b)
  at_most(4)
end
function cases.adam() -- several outputs of one domain
  local p, g, m, v = nn.input("p", {1024}), nn.input("g", {1024}), nn.input("m", {1024}),
    nn.input("v", {1024})
  local m2, v2 = m * 0.9 + g * 0.1, v * 0.999 + nn.abs(g) * 0.001
  nn.output("m2", m2)
  nn.output("v2", v2)
  nn.output("p2", p - 0.001 * m2 / (nn.sqrt(nn.abs(v2)) + 1e-2))
  at_most(1)
end
function cases.cycle() -- siblings that would wait for themselves
  local x = nn.input("x", {32, 48})
  local s = nn.exp(x):sum(1, true)
  nn.output("a", x:relu()); nn.output("b", x * s); nn.output("c", (x * s):sum(1))
  at_most(3)
end
function cases.turned() -- rows beside what other rows make: their own transpose, sums of others
  local x, z = nn.input("x", {6, 6}), nn.input("z", {5, 5, 5})
  local s = x:softmax(2)
  nn.output("both", s + s:transpose(1, 2))
  local sums = z:sum(3)
  nn.output("others", z * sums:reshape{5, 1, 5})
  nn.output("own", z * sums:reshape{5, 5, 1})
  nn.output("turned", z + z:softmax(3):permute{1, 3, 2})
  at_most(4)
end
function cases.ordered() -- a reshaped vector, stored beside a map of it in another memory order
  local x, q = nn.input("x", {2, 3, 7, 5}), nn.input("q", {2, 3, 7, 5})
  local by = nn.arange(72):float():sin():reshape{2, 3, 4, 3}
  local mean = x:avg_pool2d({3, 2}, {stride = 2, pad = 1, ceil_mode = true,
                                     count_include_pad = false})
  nn.output("most", nn.grad((q:max_pool2d(2, {ceil_mode = true}) * by):sum(), q))
  nn.output("mean", nn.grad((mean * by):sum(), x))
  at_most(4)
end
function cases.recursion() -- each step reads the one before at three places: 3^24 of the first
  local a = nn.input("x", {4, 40})
  for _ = 1, 24 do
    local function behind(by) return nn.pad(a:slice(2, 1, 40 - by), {by, 0}) end
    a = (a + behind(1) * 0.5 + behind(2) * 0.25):tanh()
  end
  nn.output("a", a)
  at_most(16)
end
function cases.reshaped_rows() -- of inputs, with dimensions of 1 added and dropped
  nn.output("squeezed", nn.input("a", {40, 1, 24}):squeeze(2):softmax())
  nn.output("added", nn.input("b", {40, 24}):unsqueeze(1):layer_norm("b"))
  nn.output("flat", nn.input("c", {40, 24, 1, 1}):flatten():layer_norm("c"))
  nn.output("joined", nn.input("d", {4, 10, 24}):reshape{40, 24}:layer_norm("d"))
  at_most(4)
end
function cases.mean_rows() -- a mean that a norm of it reads is reduced once
  nn.output("y", nn.input("x", {32, 48, 7, 7}):mean({3, 4}):layer_norm("n"))
  at_most(2)
end
cases[cfg.case]()
