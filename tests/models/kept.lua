-- Products whose outputs lanes can keep, as `case` says: images with channels last, sums of columns
-- beside them, halves of a gated unit, statistics of rows, a state that is changed in place.
local nn = require "nn"
local cfg = nn.config{case = "sums", width = 264, images = 4, channels = 64, out = 72, of = "norm",
                      r = 1, s = 3}
local cases = {}

function cases.image() -- r rows of s taps
  local x = nn.input("x", {cfg.images, cfg.channels, 33, 31})
  local y = x:conv2d("c", {out = cfg.out, kernel = {cfg.r, cfg.s}, pad = {cfg.r - 1, 1}})
  nn.output("y", y:relu():permute{1, 3, 4, 2})
end

function cases.sums() -- `of` a norm: two of a column, which maps follow; or one or three of them
  local x = nn.input("x", {cfg.images, cfg.channels, 15, 15})
  local y = x:conv2d("c", {out = cfg.out, kernel = 3, pad = 1, bias = false})
  if cfg.of == "norm" then
    nn.output("y", y:batch_norm2d("bn", {training = true}):relu())
    return
  end
  nn.output("y", y)
  nn.output("ones", nn.sum(nn.abs(y), {1, 3, 4}))
  if cfg.of == "one" then return end
  nn.output("squares", nn.sum(y * y, {1, 3, 4}))
  nn.output("positive", nn.sum(nn.relu(y), {1, 3, 4}))
end

function cases.gated()
  local h = nn.input("x", {70, 72}):linear("up", {out = 128})
  nn.output("y", nn.slice(h, 2, 1, 64):silu() * nn.slice(h, 2, 65, 128))
end

function cases.rows() -- a norm, which the product before it joins the statistics of
  local x = nn.input("x", {70, 96}):linear("a", {out = cfg.width}) + nn.input("r", {70, cfg.width})
  nn.output("y", x + x:layer_norm("n"):linear("b", {out = cfg.width}))
end

function cases.state() -- rows and columns end within a tile: no thread may read another's element
  local s = nn.state("s", {70, 136}, {init = 0.5})
  nn.update(s, s * 0.5 + nn.input("a", {70, 96}):matmul(nn.input("b", {96, 136})))
end

cases[cfg.case]()
