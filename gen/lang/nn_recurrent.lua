-- nn_recurrent.lua: recurrent layers and multi-head attention, of the module `nn` (nn.lua), with
-- the parameter names and shapes of PyTorch's, so that its state dicts load unchanged. Sequences
-- are unrolled: one step of the plan for each element.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define = tools.fail, tools.define

-- Gates of a cell: its products of x and h, one after the other in one weight.
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
-- of_x: x @ w_ih^T + b_ih, which needs no state.
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

-- ---- cells: one element of a sequence ---------------------------------------------------------

local function zeros(batch, n) return core.full({batch, n}, 0.0) end

-- f(x, o) of a sequence or an element without a batch, as of a batch of one, which stands at `axis`
-- of x and its states.
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
      fail("%s: wants (N, features) or (features), not %s", what, tostring(x))
    end
    for _, name in ipairs{"h", "c"} do
      local want = dims[1] .. ", " .. o.hidden
      if o[name] and table.concat(shape(o[name]), ", ") ~= want then
        fail("%s: %s wants (%s), not %s", what, name, want, tostring(o[name]))
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
-- x (N, features), h and c (N, hidden), 0 by default -> h', c'. Parameters as rnn_cell's, of four
-- gates i, f, g, o.
define([[lstm_cell(x: tensor, name: name, {hidden|hidden_size: count, h: tensor = nil,
       c: tensor = nil, bias: boolean = true})]], "nn.LSTMCell", cell("lstm"))
-- x (N, features), h (N, hidden), 0 by default -> h'. Parameters as rnn_cell's, of three gates r,
-- z, n.
define([[gru_cell(x: tensor, name: name, {hidden|hidden_size: count, h: tensor = nil,
       bias: boolean = true})]], "nn.GRUCell", cell("gru"))

-- ---- layers: whole sequences ------------------------------------------------------------------

-- x (T, N, features) through one direction of one layer: the outputs (T, N, out), and the last
-- states.
local function run(p, x, h, c, backward)
  local T, N, inner = table.unpack(shape(x))
  -- What needs no state is one product for the whole sequence.
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
      fail("%s: wants (sequence, batch, features) or (sequence, features), not %s", kind,
           tostring(x))
    end
    if o.batch_first then x = op.permute(x, {dims = {1, 0, 2}}) end
    local T, N = shape(x)[1], shape(x)[2]
    local sides = o.bidirectional and 2 or 1
    local out = o.projection and o.projection > 0 and o.projection or nil
    local function state(given, i, size)
      if not given then return zeros(N, size) end
      return nn.select(given, 1, i)
    end
    for _, name in ipairs{"h", "c"} do
      local want = {o.layers * sides, N, name == "h" and out or o.hidden}
      if o[name] and table.concat(shape(o[name]), ",") ~= table.concat(want, ",") then
        fail("%s: %s wants (%s), not %s", kind, name, table.concat(want, ", "), tostring(o[name]))
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
-- A sequence x (T, N, features), or (N, T, features) with batch_first, through `layers` layers: the
-- outputs (T, N, hidden), twice as wide where bidirectional, and the last states (layers *
-- directions, N, hidden); N may be missing in all. h: the first states, 0 by default. Parameters
-- name.weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, ..._l0_reverse, ..._l1.
define([[rnn(x: tensor, name: name, {hidden|hidden_size: count, layers|num_layers: count = 1,
       h: tensor = nil, bias: boolean = true, batch_first: boolean = false,
       dropout: number = 0, bidirectional: boolean = false, nonlinearity: tanh/relu = tanh})]],
       "nn.RNN", recurrent("rnn"))
-- Likewise; a third result are the last cell states. projection: outputs of this size by
-- name.weight_hr_l0.
define([[lstm(x: tensor, name: name, {hidden|hidden_size: count, layers|num_layers: count = 1,
       h: tensor = nil, c: tensor = nil, bias: boolean = true, batch_first: boolean = false,
       dropout: number = 0, bidirectional: boolean = false, projection|proj_size: whole = 0})]],
       "nn.LSTM", recurrent("lstm"))
define([[gru(x: tensor, name: name, {hidden|hidden_size: count, layers|num_layers: count = 1,
       h: tensor = nil, bias: boolean = true, batch_first: boolean = false,
       dropout: number = 0, bidirectional: boolean = false})]], "nn.GRU", recurrent("gru"))

-- ---- multi-head attention ---------------------------------------------------------------------

-- (N, L, heads * size) -> (N, heads, L, size).
local function split_heads(x, heads)
  local N, L, E = table.unpack(shape(x))
  return op.permute(op.reshape(x, {dims = {N, L, heads, E // heads}}), {dims = {0, 2, 1, 3}})
end

-- softmax(q @ k^T * scale + mask) @ v of (..., L, E); mask: bools, true is seen, or floats, which
-- are added.
define([[scaled_dot_product_attention(q|query: tensor, k|key: tensor, v|value: tensor,
       mask|attn_mask: tensor = nil, {dropout: number = 0, causal|is_causal: boolean = false,
       scale: number = nil})]], "F.scaled_dot_product_attention", function(q, k, v, mask, o)
  local function four(x)
    local dims = shape(x)
    if #dims < 2 then
      fail("scaled_dot_product_attention: wants (..., L, E), not %s", tostring(x))
    end
    return op.reshape(x, {dims = {tools.product(dims, 1, #dims - 3), dims[#dims - 2] or 1,
                                  dims[#dims - 1], dims[#dims]}})
  end
  local dims, of_v = shape(q), shape(v)
  local given = {scale = o.scale, causal = o.causal or nil}
  -- PyTorch's mask begins at the first key
  if o.causal and dims[#dims - 1] ~= shape(k)[#shape(k) - 1] then
    given.causal = nil
    given.keep = function(at) return op.le(at.key, at.query) end
  end
  if mask then given[tools.is_float(mask) and "bias" or "mask"] = mask end
  if o.dropout > 0 then
    given.dropout = {p = o.dropout, seed = tools.training.seed, step = nn.training_step()}
  end
  local y = nn.attention(four(q), four(k), four(v), given)
  return op.reshape(y, {dims = tools.with(dims, #dims, of_v[#of_v])})
end)

-- Attention of `heads` heads of x (queries) over key and value, by default x itself; (L, N, E), or
-- (N, L, E) with batch_first. key_padding_mask: bools (N, S), true is hidden; mask: bools (L, S),
-- true is hidden, or floats, added. Parameters name.in_proj_weight (3E, E), in_proj_bias (3E),
-- out_proj.weight (E, E), out_proj.bias (E); of keys and values of other sizes q_proj_weight,
-- k_proj_weight, v_proj_weight.
define([[multi_head_attention(x|query: tensor, name: name, {heads|num_heads: count,
       key: tensor = nil, value: tensor = nil, bias: boolean = true,
       batch_first: boolean = false, dropout: number = 0, mask|attn_mask: tensor = nil,
       key_padding_mask: tensor = nil, causal|is_causal: boolean = false})]],
       "nn.MultiheadAttention", function(x, o)
  local function batched(v) return o.batch_first and v or op.permute(v, {dims = {1, 0, 2}}) end
  if #shape(x) ~= 3 then fail("multi_head_attention: wants (L, N, E), not %s", tostring(x)) end
  local own = not o.key and not o.value
  local q, k = batched(x), batched(o.key or x)
  local v = batched(o.value or o.key or x)
  local E = shape(q)[3]
  if E % o.heads ~= 0 then
    fail("multi_head_attention: heads = %d does not divide %d", o.heads, E)
  end
  local bound = math.sqrt(6 / (4 * E))
  local init = {"uniform", -bound, bound}
  local function biased(y, bias) return bias and y + bias or y end
  if own then
    local y = nn.functional.linear(q, nn.param("in_proj_weight", {3 * E, E}, init))
    y = biased(y, o.bias and nn.param("in_proj_bias", {3 * E}, {"constant", 0}))
    q, k, v = nn.chunk(y, 3, -1)
  else
    local weights = {}
    if shape(k)[3] == E and shape(v)[3] == E then
      weights = {nn.chunk(nn.param("in_proj_weight", {3 * E, E}, init), 3, 1)}
    else
      for i, of in ipairs{{"q", q}, {"k", k}, {"v", v}} do
        weights[i] = nn.param(of[1] .. "_proj_weight", {E, shape(of[2])[3]}, init)
      end
    end
    local biases = {}
    if o.bias then biases = {nn.chunk(nn.param("in_proj_bias", {3 * E}, {"constant", 0}), 3, 1)} end
    q, k, v = nn.functional.linear(q, weights[1], biases[1]),
        nn.functional.linear(k, weights[2], biases[2]),
            nn.functional.linear(v, weights[3], biases[3])
  end
  local given = {causal = o.causal or nil}
  if o.mask then
    local hides = not tools.is_float(o.mask)
    given[hides and "mask" or "bias"] = hides and op.logical_not(o.mask) or o.mask
  end
  if o.key_padding_mask then
    local N, S = table.unpack(shape(o.key_padding_mask))
    local seen = op.reshape(op.logical_not(o.key_padding_mask), {dims = {N, 1, 1, S}})
    given.mask = given.mask and given.mask & seen or seen
  end
  if o.dropout > 0 and tools.training.active then
    given.dropout = {p = o.dropout, seed = tools.training.seed, step = nn.training_step()}
  end
  local y = nn.attention(split_heads(q, o.heads), split_heads(k, o.heads), split_heads(v, o.heads),
                         given)
  local N, _, L = table.unpack(shape(y))
  y = op.reshape(op.permute(y, {dims = {0, 2, 1, 3}}), {dims = {N, L, E}})
  local out = nn.scope("out_proj", function()
    local z = nn.functional.linear(y, nn.param("weight", {E, E},
                                               {"uniform", -1 / math.sqrt(E), 1 / math.sqrt(E)}))
    return biased(z, o.bias and nn.param("bias", {E}, {"constant", 0}))
  end)
  return batched(out)
end)
