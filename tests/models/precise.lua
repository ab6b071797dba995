-- precise.lua: ids as floats, random numbers, and the order of values beyond 65504: what 16 bits do
-- not hold is not stored in them.
local nn = require "nn"
local ids = nn.input("ids", {8, 1, 16, 16}, {dtype = "i32", below = 200000})
local x = nn.input("x", {64, 8})
local function pooled(v) return v:max_pool2d(3, {stride = 1, pad = 1}) end
nn.output("pooled", pooled(pooled(ids * 1.0)):to("i32"))
local column = (ids:reshape{8, 256}:slice(2, 1, 8) * 1.0):reshape{64, 1}
nn.output("joined", nn.concat({column, x}, 2):roll(1, 1):slice(2, 1, 1):to("i32"))
local floats = nn.floor(nn.input("floats", {1, 16, 8, 8}) * 9000) -- ids that a file has as floats
nn.output("floored", nn.clamp(floats, 0, 30000):max_pool2d{kernel = 2}:slice(2, 1, 1):to("i32"))
local u = nn.random({64, 128}, {seed = 3})
nn.output("top", u:topk(1):lt(1.0):all())
nn.output("drawn", u:lt(0.8))
nn.output("turned", u:flip(1):lt(0.8):flip(1))
local h = x:linear("a", {out = 64}) * 400
local v, places = (h * h):topk(1, 2)
nn.output("first", places)
nn.output("largest", (h * h):argmax(2))
