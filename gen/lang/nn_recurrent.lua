-- nn_recurrent.lua: recurrent layers, of the module `nn` (nn.lua), with PyTorch's parameter names
-- and shapes, so that its state dicts load unchanged. Sequences are unrolled: one step of the plan
-- per element.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define = tools.fail, tools.define

-- The gates of a cell: the products of x and h, concatenated in one weight.
local gates = {rnn = 1, lstm = 4, gru = 3}

local function parameters(kind, suffix, inner, hidden, bias, out)
  local bound, rows = 1 / math.sqrt(hidden), gates[kind] * hidden
  local init = {"uniform", -bound, bound}
  local p = {kind = kind, hidden = hidden}
  p.w_ih, p.w_hh = nn.param("weight_ih" .. suffix, {rows, inner}, init),
      nn.param("weight_hh" .. suffix, {rows, out or hidden}, init)
  if bias then
    p.b_ih, p.b_hh = nn.param("bias_ih" .. suffix, {rows}, init),
        nn.param("bias_hh" .. suffix, {rows}, init)
  end
  if out then p.w_hr = nn.param("weight_hr" .. suffix, {out, hidden}, init) end
  return p
end

local step = {}
-- of_x: x @ w_ih^T + b_ih, which does not depend on the state.
function step.rnn(p, of_x, h)
  local y = of_x + nn.functional.linear(h, p.w_hh, p.b_hh)
  return p.relu and op.relu(y) or op.tanh(y)
end
function step.lstm(p, of_x, h, c)
  local i, f, g, o = nn.chunk(of_x + nn.functional.linear(h, p.w_hh, p.b_hh), 4, -1)
  c = op.sigmoid(f) * c + op.sigmoid(i) * op.tanh(g)
  h = op.sigmoid(o) * op.tanh(c)
  if p.w_hr then h = nn.functional.linear(h, p.w_hr) end
  return h, c
end
function step.gru(p, of_x, h)
  local r, z, n = nn.chunk(of_x, 3, -1)
  local hr, hz, hn = nn.chunk(nn.functional.linear(h, p.w_hh, p.b_hh), 3, -1)
  r, z = op.sigmoid(r + hr), op.sigmoid(z + hz)
  n = op.tanh(n + r * hn)
  return n + z * (h - n)
end

-- ---- cells: one sequence element ----------------------------------------------------------------

local function zeros(batch, n) return core.full({batch, n}, 0.0) end

-- f(x, o) for a sequence or an element without a batch, as a batch of one at `axis` of x and its
-- states.
local function one(f, x, o, axis)
  local own = {}
  for key, v in pairs(o) do own[key] = v end
  own.h, own.c = o.h and nn.unsqueeze(o.h, axis), o.c and nn.unsqueeze(o.c, axis)
  own.batch_first = false
  local results = table.pack(f(nn.unsqueeze(x, axis), own))
  for i = 1, results.n do results[i] = nn.squeeze(results[i], axis) end
  return table.unpack(results, 1, results.n)
end

local function cell(kind)
  local what = kind .. "_cell"
  local function of_batch(x, o)
    local dims = shape(x)
    if #dims == 1 then return one(of_batch, x, o, 1) end
    if #dims ~= 2 then
      fail("%s: expected (N, features) or (features), got %s", what, tostring(x))
    end
    for _, name in ipairs{"h", "c"} do
      local want = dims[1] .. ", " .. o.hidden
      if o[name] and table.concat(shape(o[name]), ", ") ~= want then
        fail("%s: %s: expected (%s), got %s", what, name, want, tostring(o[name]))
      end
    end
    local p = parameters(kind, "", dims[2], o.hidden, o.bias)
    p.relu = o.nonlinearity == "relu"
    local of_x = nn.functional.linear(x, p.w_ih, p.b_ih)
    return step[kind](p, of_x, o.h or zeros(dims[1], o.hidden),
                      kind == "lstm" and (o.c or zeros(dims[1], o.hidden)) or nil)
  end
  return of_batch
end
-- x (N, features), h (N, hidden), 0 by default -> h' (N, hidden) = tanh(W_ih x + b_ih + W_hh h +
-- b_hh); N may be missing in all. Parameters name.weight_ih, weight_hh, bias_ih, bias_hh.
define([[rnn_cell(x: tensor, name: name, {hidden|hidden_size: count, h: tensor = nil,
       bias: boolean = true, nonlinearity: tanh/relu = tanh})]], "nn.RNNCell", cell("rnn"))
-- x (N, features), h and c (N, hidden), 0 by default -> h', c'. Parameters as rnn_cell's, with four
-- gates i, f, g, o.
define([[lstm_cell(x: tensor, name: name, {hidden|hidden_size: count, h: tensor = nil,
       c: tensor = nil, bias: boolean = true})]], "nn.LSTMCell", cell("lstm"))
-- x (N, features), h (N, hidden), 0 by default -> h'. Parameters as rnn_cell's, with three gates r,
-- z, n.
define([[gru_cell(x: tensor, name: name, {hidden|hidden_size: count, h: tensor = nil,
       bias: boolean = true})]], "nn.GRUCell", cell("gru"))

-- ---- layers: whole sequences ------------------------------------------------------------------

-- One direction of one layer over x (T, N, features): the outputs (T, N, out) and the last states.
local function run(p, x, h, c, backward)
  local T, N, inner = table.unpack(shape(x))
  -- The part that does not depend on the state is one product for the whole sequence.
  local of_x = nn.functional.linear(op.reshape(x, {dims = {T * N, inner}}), p.w_ih, p.b_ih)
  of_x = op.reshape(of_x, {dims = {T, N, shape(of_x)[2]}})
  local outputs = {}
  for i = 1, T do
    local t = backward and T + 1 - i or i
    h, c = step[p.kind](p, nn.select(of_x, 1, t), h, c)
    outputs[t] = h
  end
  return nn.stack(outputs, 1), h, c
end

local function recurrent(kind)
  local function of_batch(x, o)
    local dims = shape(x)
    if #dims == 2 then return one(of_batch, x, o, 2) end
    if #dims ~= 3 then
      fail("%s: expected (sequence, batch, features) or (sequence, features), got %s", kind,
           tostring(x))
    end
    if o.batch_first then x = op.permute(x, {dims = {1, 0, 2}}) end
    local T, N = shape(x)[1], shape(x)[2]
    local sides = o.bidirectional and 2 or 1
    local out = o.projection and o.projection > 0 and o.projection or nil
    if out and out >= o.hidden then
      fail("%s: projection = %d: expected less than hidden = %d", kind, out, o.hidden)
    end
    local function state(given, i, size)
      if not given then return zeros(N, size) end
      return nn.select(given, 1, i)
    end
    for _, name in ipairs{"h", "c"} do
      local want = {o.layers * sides, N, name == "h" and out or o.hidden}
      if o[name] and table.concat(shape(o[name]), ",") ~= table.concat(want, ",") then
        fail("%s: %s: expected (%s), got %s", kind, name, table.concat(want, ", "),
             tostring(o[name]))
      end
    end
    local last_h, last_c = {}, {}
    for layer = 0, o.layers - 1 do
      local made = {}
      for side = 1, sides do
        local at = layer * sides + side
        local p = parameters(kind, "_l" .. layer .. (side == 2 and "_reverse" or ""), shape(x)[3],
                             o.hidden, o.bias, out)
        p.relu = o.nonlinearity == "relu"
        local h = state(o.h, at, out or o.hidden)
        local c = kind == "lstm" and state(o.c, at, o.hidden) or nil
        made[side], last_h[at], last_c[at] = run(p, x, h, c, side == 2)
      end
      x = sides == 1 and made[1] or nn.concat(made, 3)
      if o.dropout > 0 and layer < o.layers - 1 then x = nn.dropout(x, o.dropout) end
    end
    local y = o.batch_first and op.permute(x, {dims = {1, 0, 2}}) or x
    local h = nn.stack(last_h, 1)
    if kind == "lstm" then return y, h, nn.stack(last_c, 1) end
    return y, h
  end
  return of_batch
end
-- `layers` layers over a sequence x (T, N, features), or (N, T, features) with batch_first: the
-- outputs (T, N, hidden), twice as wide if bidirectional, and the last states (layers * directions,
-- N, hidden); N may be missing in all. h: the initial states, 0 by default. Parameters
-- name.weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, ..._l0_reverse, ..._l1.
define([[rnn(x: tensor, name: name, {hidden|hidden_size: count, layers|num_layers: count = 1,
       h: tensor = nil, bias: boolean = true, batch_first: boolean = false,
       dropout: chance = 0, bidirectional: boolean = false, nonlinearity: tanh/relu = tanh})]],
       "nn.RNN", recurrent("rnn"))
-- LSTM layers, as rnn; a third result is the last cell states. projection: the outputs have this
-- size, by name.weight_hr_l0.
define([[lstm(x: tensor, name: name, {hidden|hidden_size: count, layers|num_layers: count = 1,
       h: tensor = nil, c: tensor = nil, bias: boolean = true, batch_first: boolean = false,
       dropout: chance = 0, bidirectional: boolean = false, projection|proj_size: amount = 0})]],
       "nn.LSTM", recurrent("lstm"))
define([[gru(x: tensor, name: name, {hidden|hidden_size: count, layers|num_layers: count = 1,
       h: tensor = nil, bias: boolean = true, batch_first: boolean = false,
       dropout: chance = 0, bidirectional: boolean = false})]], "nn.GRU", recurrent("gru"))
