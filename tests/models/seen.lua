-- seen.lua: scores that are seen in several shapes, where one cannot be made in the other's.
local nn = require "nn"
local case = nn.config{case = "heads"}.case
local function input(name, ...) return nn.input(name, {...}) end
local cases = {
  heads = function() -- normalised along the heads, weighed, then along the keys
    local q, k, v = input("q", 1, 2, 5, 8), input("k", 1, 2, 6, 8), input("v", 1, 2, 6, 8)
    local w = q:matmul(k:transpose()):softmax(2) * input("m", 5, 6):sigmoid()
    return (w / w:sum(-1, true)):matmul(v)
  end,
  position = function() -- along a dimension of one
    local q, k, v = input("q", 1, 1, 5, 8), input("k", 1, 1, 6, 8), input("v", 1, 1, 6, 8)
    local s = q:matmul(k:transpose()):view(1, 1, 5, 2, 3) + nn.index({1, 3}, 1):to("f32")
    return s:view(1, 1, 5, 6):softmax():matmul(v)
  end,
  expanded = function() -- the largest of a row, in the shape of the grid
    local q, k, v = input("q", 2, 1, 5, 8), input("k", 2, 1, 6, 8), input("v", 2, 1, 6, 8)
    local s = q:matmul(k:transpose()):view(2, 1, 5, 2, 3)
    local p = (s - s:amax({4, 5}, true):expand(s.shape)):exp()
    return (p / p:sum({4, 5}, true)):view(2, 1, 5, 6):matmul(v)
  end,
  chosen = function() -- by a position that has all of the shape
    local q, k, v = input("q", 2, 3, 33, 16), input("k", 2, 3, 48, 16), input("v", 2, 3, 48, 16)
    local s = q:matmul(k:transpose()):view(2, 3, 33, 6, 8)
    local e = (s - s:amax({4, 5}, true)):exp()
    local z = e:sum({4, 5}, true)
    local p = e / nn.where(nn.index({2, 3, 33, 6, 8}, 4):eq(1), z, z * 2)
    return p:view(2, 3, 33, 48):matmul(v)
  end,
  batches = function() -- as one dimension in the product, as two in the gradient
    local q, k, v = input("q", 4, 4, 8), input("k", 4, 6, 8), input("v", 2, 2, 6, 8)
    return q:bmm(k:transpose()):softmax():bmm(v:flatten(1, 2)), q
  end,
}
local y, by = cases[case]()
nn.output("y", y)
if by then nn.output("d", nn.grad((y * input("dy", table.unpack(y.shape))):sum(), by)) end
