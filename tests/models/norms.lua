-- Norms between two products: the first kernel joins the statistics of its rows, the second one
-- multiplies what is not yet normalised. --set case=NAME rows=N width=N (of what is normalised)
-- columns=N offset=X (added to it: its mean)
local nn = require "nn"
local cfg = nn.config{case = "layer", rows = 37, width = 192, columns = 96, offset = 0.0}
local rows, width, columns = cfg.rows, cfg.width, cfg.columns
local x = nn.input("x", {rows, 64})
local residual = nn.input("residual", {rows, width})
local made = x:linear("first", {out = width}) + residual + cfg.offset
local last = #made:size()

local function layer(h)
  local centred = h - h:mean(last, true)
  return centred * nn.rsqrt((centred * centred):mean(last, true) + 1e-5)
end
local function weighed(h, name)
  return h * nn.param(name .. ".weight", {width}) + nn.param(name .. ".bias", {width})
end
local function second(h, name) return h:linear(name or "second", {out = columns}) end

local cases = {}
function cases.layer() nn.output("y", second(weighed(layer(made), "norm"))) end
function cases.plain() nn.output("y", second(layer(made))) end -- without weights
function cases.rms()
  local h = made * nn.rsqrt((made * made):mean(last, true) + 1e-6)
  h = h * nn.param("norm.weight", {width})
  nn.output("y", second(h))
end
function cases.library() nn.output("y", second(made:layer_norm("norm"))) end
function cases.behind() -- the norm is added to what the second product makes, as in BERT
  local h = weighed(layer(made), "norm")
  nn.output("y", nn.relu(second(h)):linear("third", {out = width}) + h)
end
function cases.several() -- products of one norm become one; others read what is normalised
  local h = weighed(layer(made), "norm")
  nn.output("q", second(h, "q"))
  nn.output("k", second(h, "k") * 2)
  nn.output("made", made)
end
function cases.chain() -- norm after norm
  local h = made
  for i = 1, 3 do
    local up = second(weighed(layer(h), "norm" .. i), "up" .. i)
    h = h + nn.gelu(up):linear("down" .. i, {out = width})
  end
  nn.output("y", second(weighed(layer(h), "norm"), "last"))
end
function cases.leaves() -- the norm is an output: it is computed as it stands
  local h = weighed(layer(made), "norm")
  nn.output("norm", h)
  nn.output("y", second(h))
end
function cases.scaled() -- a quotient, and a sum with a value for each row
  local mean = made:mean(last, true)
  local spread = nn.sqrt(((made - mean) * (made - mean)):mean(last, true) + 1e-3)
  nn.output("y", second(-(made - mean) / spread * 3 + mean))
end
cases[cfg.case]()
