-- Maps that read across memory: transposed, permuted, every second element, in several orders.
local nn = require "nn"
local cfg = nn.config{case = "one", n = 96}
local n = cfg.n
local cases = {}
local function input(name, ...) return nn.input(name, {...}) end
function cases.one() return input("x", n, n):t() * 2 end
function cases.both() local x = input("x", n, n); return x + x:t() end
function cases.channels_last() return input("x", 3, 40, 12, 7):permute(1, 3, 4, 2):relu() end
function cases.channels_first() return input("x", 3, 12, 7, 40):permute(1, 4, 2, 3):relu() end
function cases.reversed() return input("x", 13, 30, 21):permute(3, 2, 1):relu() end
function cases.ragged() return input("x", 101, n + 9):t():exp() end
function cases.batch() return input("x", 5, n, 3, 40):transpose(2, 4) + 1 end
function cases.padded() return input("x", 50, n):t():pad{1, 2, 3, 4}:relu() end
function cases.joined() return nn.concat({input("x", 60, n):t(), input("z", n, 20)}, 2) * 3 end
function cases.halves() return input("x", n, n):reshape{n, n // 2, 2}:narrow(3, 1, 1) * 3 end
function cases.rows() return input("x", n, n):t():softmax() end
function cases.sums() return (input("x", n, n):t() * input("z", n, n)):sum(1) end
nn.output("y", cases[cfg.case]())
