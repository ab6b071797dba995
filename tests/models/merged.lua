-- merged.lua: values that are written several times, and read by kernels, outputs, states and
-- concats, of which not all may become one. --set case=NAME
local nn = require "nn"
local c = nn.config{case = "draws", rows = 64, columns = 32}
local R, C = c.rows, c.columns
local x, z = nn.input("x", {R, C}), nn.input("z", {R, C})
local st = nn.state("st", {R, C}, {init = 0.25})
local cases = {}
function cases.draws()
  local a = nn.random({R,C}, {kind="uniform", seed=1})
  local b = nn.random({R,C}, {kind="uniform", seed=1})
  local h = x*a + z*b
  nn.output("y", h)
  nn.output("s", (h*a):sum{1})
  nn.output("t", (h*b-a):sum{2})
  nn.output("d", (a-b):amax{1})
end
function cases.state()
  local h = st*0.5 + x
  nn.update(st, h)
  nn.output("y", h*2)
  nn.output("s", (h*z):sum{1})
  nn.output("t", (st*0.5+x)*z)
  nn.output("u", (h-1):amax{2})
end
function cases.outputs()
  local h = x*0.5+z
  nn.output("a", h)
  nn.output("b", h)
  nn.output("c", h+0)
  nn.output("s", h:sum{2})
  nn.output("m", h:amax{1})
  nn.output("sm", h:softmax(2))
  nn.output("l", h:log_softmax(2))
end
function cases.entries()
  local h = x*0.5+1
  nn.output("e0", h:sum{1})
  nn.entry("train", function()
    local q = nn.relu(h)*z
    nn.output("q", q)
    nn.update(st, st+q)
    nn.output("r", (q*h):sum{1})
    nn.output("k",h:softmax(2)*h)
  end)
  nn.entry("other", function()
    nn.output("q2", nn.relu(h)*z)
    nn.output("z2", h:softmax(1))
    nn.update(st, st*h)
  end)
end
function cases.concat()
  local h = nn.relu(x)*0.5 + 1
  local k = h*z
  local cc = nn.concat({h, k}, 2)
  nn.output("c", cc)
  nn.output("s", (h*3):sum{1})
  nn.output("t", (k-1):amax{1})
  nn.output("p", h*k)
  nn.output("sm", k:softmax(2))
  nn.output("c2", nn.concat({k*2, h}, 1))
end
function cases.reshaped()
  local h = (nn.relu(x)*0.5):reshape{R,4,C//4}:permute(2,1,3)
  local k = (nn.tanh(z)):reshape{R,4,C//4}:permute(2,1,3)
  local cc = nn.concat({h, k}, 3):reshape{4,R*C//2}
  nn.output("c", cc*1)
  nn.output("d", cc:reshape{2,2*R*C//2})
  nn.output("e", (cc:reshape{4*R, C//2}):softmax(2))
  nn.output("s", h:sum{1})
end
function cases.product()
  local w = nn.param("w", {C,C})
  local p = nn.matmul(x, w)
  local h = nn.relu(p)*p
  nn.output("a", h)
  nn.output("s", (h*2):sum{1})
  nn.output("t", (h-p):amax{2})
  nn.output("q", h*z)
  nn.output("l", nn.layer_norm(h,"ln")*h)
  nn.output("v", h:reshape{R,4,C//4}:permute(2,1,3)*2)
end
function cases.moved()
  local function halves(t) return t:reshape{2, R // 2, C}:permute(2, 1, 3) end
  local q = nn.concat({halves(x), halves(z)}, 2)
  nn.output("a", q:reshape{R//2, 4*C}*2)
  nn.output("b", q:reshape{R*2, C}:sum{2})
  nn.output("c", q)
  nn.output("d", nn.matmul(q:reshape{R*2,C}, nn.param("w",{C,C})))
  local q2 = nn.concat({halves(x * 2), halves(x * 2), halves(st)}, 3)
  nn.output("e", q2:reshape{R//2, 6*C}+1)
  nn.output("f", nn.matmul(q2:reshape{R,3*C}, nn.param("w2",{3*C,C})))
  nn.update(st, st+x)
end
cases[c.case]()
