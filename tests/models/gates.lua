-- Maps with one value for each row of a reduction, or fewer, of inputs: they depend on no
-- reduction, and are computed before the first one.
local nn = require "nn"
local cfg = nn.config{batch = 2}

local image = nn.input("image", {cfg.batch, 16, 8, 6})
nn.output("pooled", (image * nn.sigmoid(nn.input("gate", {cfg.batch, 16, 1, 1}))):global_avg_pool())

local x = nn.input("x", {40, 300})
nn.output("scores", nn.softmax(x * nn.exp(-nn.abs(nn.input("a", {40, 1})))))
nn.output("shared", nn.softmax(x + nn.tanh(nn.input("b", {1, 1}))))
nn.output("columns", nn.softmax(x * nn.relu(nn.input("c", {300})))) -- no value per row
nn.output("some",
          nn.softmax(nn.input("s", {cfg.batch, 20, 30}) * nn.sigmoid(nn.input("d", {20, 1}))))

local g = nn.sigmoid(nn.input("g", {40, 1})) -- read before, and after
nn.output("twice", nn.sum(nn.relu(x) * g, 2, true) * nn.exp(g) + g)

local rows, column = nn.input("rows", {20, 64}), nn.input("column", {64, 1})
nn.output("product", nn.matmul(rows * nn.sigmoid(nn.input("h", {20, 1})), column))
nn.output("normed", nn.matmul(nn.relu(nn.input("u", {20, 1})),
                              nn.relu(nn.input("v", {1, 30}))):layer_norm("ln"))
