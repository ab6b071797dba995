-- attend_forms.lua: attention as it is written by hand in many ways (form=...): each softmax of
-- scores that weighs values is one kernel. attend_forms.py computes the same with PyTorch.
local nn = require "nn"
local cfg = nn.config{form = "plain", gradients = false, queries = 33}
local B, H, N, M, D, W = 2, 3, cfg.queries, 47, 16, 24
local scale, inputs = D ^ -0.5, {}
local function input(name, dims)
  local x = nn.input(name, dims)
  inputs[#inputs + 1] = x
  return x
end
local q, k, v = input("q", {B, H, N, D}), input("k", {B, H, M, D}), input("v", {B, H, M, W})
local row, key = nn.index({N, 1}, 1), nn.index({1, M}, 2)
local function turned(x) return x:transpose() end
local function scores() return q:matmul(turned(k)) * scale end
local function hidden() -- five rows see no key
  return nn.where(key:le(row - 5), scores(), -math.huge)
end
local function flat(x) return x:flatten(1, 2) end
local function heads(x) return x:unflatten(1, {B, H}) end
local function over_sum(e) return e / e:sum(-1, true) end

local forms = {}
-- several attentions of one product
function forms.two_values()
  local p = scores():softmax()
  return p:matmul(v), p:matmul(input("v2", {B, H, M, 8}))
end
function forms.two_masks()
  local s = scores()
  local function seen(condition) return nn.where(condition, s, -1e9):softmax():matmul(v) end
  return seen(key:le(row + 9)), seen(key:ge(row - 9))
end
function forms.two_scales()
  local s = scores()
  return (s * 2):softmax():matmul(v), (s * 0.5):softmax():matmul(v)
end
function forms.differential()
  local s = input("q2", {B, H, N, D}):matmul(turned(input("k2", {B, H, M, D}))) * scale
  return (scores():softmax() - s:softmax() * input("lambda", {1})):matmul(v)
end
function forms.differential_heads() -- of which every second is subtracted
  local q4, k4 = input("qd", {B, 2 * H, N, D}), input("kd", {B, 2 * H, M, D})
  local p = (q4:matmul(turned(k4)) * scale):softmax():view(B, H, 2, N, M)
  return (p:select(3, 1) - input("lambda", {1}) * p:select(3, 2)):matmul(v)
end
function forms.stored() -- the scores leave the model: they are in memory
  local s = scores()
  return s:softmax():matmul(v), s
end
-- rows that see no key
function forms.nan_to_num() return nn.nan_to_num(hidden():softmax(), 0):matmul(v) end
function forms.where_nan()
  local p = hidden():softmax()
  return nn.where(p:isnan(), 0, p):matmul(v)
end
function forms.kept_numbers()
  local p = hidden():softmax()
  return nn.where(p:isnan():logical_not(), p, 0):matmul(v)
end
function forms.masked_twice()
  return nn.where(key:le(row - 5), hidden():softmax(), 0):matmul(v)
end
function forms.flat_nan()
  local p = flat(hidden()):softmax()
  return heads(p:masked_fill(p:isnan(), 0):bmm(flat(v)))
end
-- of which some powers are left out
function forms.powers_masked()
  local s = scores()
  local e = (s - s:amax(-1, true)):exp() * key:le(row + 3):float()
  return over_sum(e):matmul(v)
end
function forms.powers_chosen() -- five rows have none
  local s = scores()
  local e = nn.where(key:le(row - 5), (s - nn.stop_gradient(s:amax(-1, true))):exp(), 0)
  return e:matmul(v) / (e:sum(-1, true) + 1e-6)
end
function forms.powers_filled()
  local s = scores()
  return over_sum((s - s:amax(-1, true)):exp():masked_fill(key:gt(row + 3), 0)):matmul(v)
end
function forms.powers_weighed() -- by numbers from 0 to 1, and rows are kept from 0
  local s = scores()
  local e = (s - nn.stop_gradient(s:amax(-1, true))):exp() * input("policy", {B, 1, 1, M}):sigmoid()
  return (e / e:sum(-1, true):clamp{min = 1e-6}):matmul(v)
end
function forms.summed_again()
  return over_sum(scores():softmax() * key:le(row + 3):float()):matmul(v)
end
-- softmax by hand
function forms.exp() return over_sum(scores():exp()):matmul(v) end
function forms.exp_shifted()
  local s = scores()
  return over_sum((s - s:amax(-1, true)):exp()):matmul(v)
end
function forms.sum_behind()
  local e = scores():exp()
  return e:matmul(v) / e:sum(-1, true)
end
function forms.exp2() return over_sum(nn.exp2(scores() * 1.4426950408889634)):matmul(v) end
function forms.exp2_shifted()
  local s = scores()
  return over_sum(nn.exp2(s - s:amax(-1, true))):matmul(v)
end
function forms.log_softmax() return scores():log_softmax():exp():matmul(v) end
function forms.logsumexp()
  local s = scores()
  return (s - s:logsumexp(-1, true)):exp():matmul(v)
end
-- turned
function forms.keys_first()
  return turned((k:matmul(turned(q)) * scale):softmax(-2)):matmul(v)
end
function forms.turned_scores()
  return turned(k:matmul(turned(q)) * scale + turned(input("bias", {H, N, M}))):softmax():matmul(v)
end
function forms.values_first()
  return turned(turned(v):matmul(turned(scores():softmax())))
end
function forms.all_turned()
  return turned(turned(v):matmul((k:matmul(turned(q)) * scale):softmax(-2)))
end
function forms.turned_mask()
  local s = nn.where(turned(key):le(turned(row) + 3), k:matmul(turned(q)) * scale, -1e9)
  return turned((s + nn.index({M}, 1):reshape{M, 1} * 0.1):softmax(-2)):matmul(v)
end
-- in another order
function forms.heads_last()
  local s = nn.einsum("bhnd,bhmd->bnmh", q, k) * scale + input("bias_last", {N, M, H})
  return nn.einsum("bnmh,bhmw->bhnw", s:softmax(3), v)
end
function forms.keys_outermost()
  local s, dims = nn.einsum("bhnd,bhmd->mbhn", q, k) * scale, {M, 1, 1, N}
  local p = nn.where(nn.index(dims, 1):le(nn.index(dims, 4) + 3), s, -1e9):softmax(1)
  return nn.einsum("mbhn,bhmw->bhnw", p, v)
end
function forms.einsum()
  local s = nn.einsum("bhnd,bhmd->bhmn", q, k) * scale
  return nn.einsum("bhmn,bhmw->bhnw", s:softmax(-2), v)
end
-- factors
function forms.keys_scaled() return q:matmul(turned(k) * scale):softmax():matmul(v) end
function forms.keys_divided() return q:matmul(turned(k) / D ^ 0.5):softmax():matmul(v) end
function forms.both_scaled()
  return (q * scale ^ 0.5):matmul(turned(k * scale ^ 0.5)):softmax():matmul(v)
end
function forms.heads_scaled() -- each by its own number
  return (q * input("of_head", {H, 1, 1})):matmul(turned(k)):softmax():matmul(v)
end
-- other shapes
function forms.flat()
  return heads((flat(q):bmm(turned(flat(k))) * scale):softmax():bmm(flat(v)))
end
function forms.flat_softmax() return heads(flat(scores()):softmax():bmm(flat(v))) end
function forms.rows() return scores():reshape{-1, M}:softmax():reshape{B, H, N, M}:matmul(v) end
function forms.windows() -- B pictures of H windows of one head, as Swin Transformer masks them
  local s = flat(q):unsqueeze(2):matmul(turned(flat(k):unsqueeze(2))) * scale
  s = s:reshape{B, H, 1, N, M} + input("bias", {H, N, M}):unsqueeze(2)
  return heads(s:reshape{B * H, 1, N, M}:softmax():matmul(flat(v):unsqueeze(2)):squeeze(2))
end
function forms.windows_alone() -- B windows of one picture, of H heads
  local mask = input("of_window", {B, 1, N, M}):unsqueeze(1)
  local s = scores():reshape{1, B, H, N, M} + mask
  return s:reshape{B, H, N, M}:softmax():matmul(v)
end
-- keys and values that heads share
local function grouped(repeated)
  local x = input("q6", {B, 6, N, D})
  local y, z = repeated(input("kg", {B, 2, M, D})), repeated(input("vg", {B, 2, M, W}))
  return (x:matmul(turned(y)) * scale):softmax():matmul(z)
end
function forms.repeated() return grouped(function(x) return x:repeat_interleave(3, 2) end) end
function forms.expanded()
  return grouped(function(x)
    return x:unsqueeze(3):expand{-1, -1, 3, -1, -1}:flatten(2, 3)
  end)
end
function forms.shared() -- by all
  local y, z = input("k1", {B, 1, M, D}), input("v1", {B, 1, M, W})
  return (q:matmul(turned(y:expand{-1, H, -1, -1})) * scale):softmax()
    :matmul(z:expand{-1, H, -1, -1})
end
function forms.log_shared()
  local y, z = input("kg", {B, 2, M, D}), input("vg", {B, 2, M, W})
  local s = input("q6", {B, 6, N, D}):matmul(turned(y:repeat_interleave(3, 2))) * scale
  return s:log_softmax():exp():matmul(z:repeat_interleave(3, 2))
end
function forms.einsum_groups() -- of heads, which no dimension joins
  local x, y = input("qe", {B, N, 2, 3, D}), input("ke", {B, M, 2, D})
  local s = nn.einsum("btkgh,bskh->bkgts", x, y) * scale
  return nn.einsum("bkgts,bskh->btkgh", s:softmax(), input("ve", {B, M, 2, W}))
end
-- operands that batches share, each alone
local function shares(name)
  local x, y, z = input("q1", {1, H, N, D}), input("kb", {1, H, M, D}), input("vb", {1, H, M, W})
  local a, b, c = name:find("q") and x or q, name:find("k") and y or k, name:find("v") and z or v
  return (a:matmul(turned(b)) * scale):softmax():matmul(c)
end
function forms.shared_q() return shares("q") end
function forms.shared_k() return shares("k") end
function forms.shared_v() return shares("v") end
function forms.shared_qv() return shares("qv") end
function forms.shared_kv() return shares("kv") end
function forms.learned() -- queries, of a mask
  local x = input("q1", {1, H, N, D}):expand{B, -1, -1, -1}
  return x:attention(k, v, {causal = true})
end
function forms.positions_beside() -- as DeepSeek's: a second product, whose keys all heads share
  local s = scores() + input("q8", {B, H, N, 8}):matmul(turned(input("k8", {B, 1, M, 8})))
  return nn.where(key:le(row + 14), s, -math.huge):softmax():matmul(v)
end
-- channels first, as convolutions leave them: copies in the other order, and attention
local function channels()
  return input("qc", {B, D, N}), input("kc", {B, D, M}), input("vc", {B, W, M})
end
function forms.channels()
  local x, y, z = channels()
  return z:bmm(turned((turned(x):bmm(y) * scale):softmax()))
end
function forms.channels_keys() -- first, too
  local x, y, z = channels()
  return z:bmm((turned(y):bmm(x) * scale):softmax(2))
end
-- scores that are seen as a grid: rows of 3 x 11 queries, 6 x 8 keys
local function grid() return input("k_grid", {B, H, 6, 8, D}), input("v_grid", {B, H, 6, 8, W}) end
function forms.decomposed() -- positions, of products of queries, as those of SAM and MViT
  local x, k5, v5 = flat(q), grid()
  local y, z = k5:view(B * H, 48, D), v5:view(B * H, 48, W)
  local of_row = nn.einsum("bhwc,hkc->bhwk", x:view(B * H, 3, 11, D), input("rel_h", {3, 6, D}))
  local of_column = nn.einsum("bhwc,wkc->bhwk", x:view(B * H, 3, 11, D), input("rel_w", {11, 8, D}))
  local s = (x * scale):bmm(turned(y)):view(B * H, 3, 11, 6, 8)
  s = s + of_row:unsqueeze(5) + of_column:unsqueeze(4)
  return heads(s:view(B * H, N, 48):softmax():bmm(z))
end
function forms.grid_bias() -- of rows and columns, and some rows are hidden
  local k5, v5 = grid()
  local s = (q:matmul(turned(k5:flatten(3, 4))) * scale):view(B, H, 3, 11, 6, 8)
  s = s + input("of_rows", {H, 3, 1, 6, 1}) + input("of_columns", {H, 1, 11, 1, 8})
  s = s:masked_fill(nn.index({6, 1}, 1):gt(nn.index({3, 1, 1, 1}, 1) + 2), -math.huge)
  return s:view(B, H, N, 48):softmax():matmul(v5:flatten(3, 4))
end
function forms.both_axes() -- of keys, under one softmax
  local k5, v5 = grid()
  local s = nn.einsum("bhnd,bhijd->bhnij", q, k5) * scale
  local e = (s - s:amax({4, 5}, true)):exp()
  return nn.einsum("bhnij,bhijw->bhnw", e / e:sum({4, 5}, true), v5)
end
function forms.both_axes_flat()
  local k5, v5 = grid()
  local s = nn.einsum("bhnd,bhijd->bhnij", q, k5) * scale + input("of_key", {1, 6, 1})
  local p = s:flatten(4, 5):softmax():view(B, H, N, 6, 8)
  return nn.einsum("bhnij,bhijw->bhnw", p, v5)
end
function forms.grids() -- of queries, too, with heads that come last
  local x, y = input("q_last", {B, 3, 11, H, D}), input("k_last", {B, 6, 8, H, D})
  local s = nn.einsum("bxyhd,bijhd->bhxyij", x, y) * scale
  local p = s:flatten(5, 6):log_softmax():exp():view(B, H, 3, 11, 6, 8)
  return nn.einsum("bhxyij,bijhw->bxyhw", p, input("v_last", {B, 6, 8, H, W}))
end
-- queries times relative positions, which the first two of Transformer-XL's tricks put in place
function forms.relative_shift()
  local x, z = input("k_own", {B, H, N, D}), input("v_own", {B, H, N, W})
  local s = nn.pad(q:matmul(turned(input("distances", {N, D}))), {1, 0})
  s = q:matmul(turned(x)) + s:view(B, H, N + 1, N):slice(3, 2, N + 1)
  return nn.where(nn.index({N}, 1):le(row), s * scale, -math.huge):softmax():matmul(z)
end
function forms.relative_gathered() -- and, as DeBERTa's, from a table of a few
  local ids = (key - row):clamp{min = -8, max = 8} + 8
  local s = q:matmul(turned(input("few", {17, D}))):take_along(ids:expand{B, H, N, M}, 4)
  return ((q:matmul(turned(k)) + s) * scale):softmax():matmul(v)
end
-- a key of each head that has no value, with whose score that of others is shifted
local function with_sink(shifted)
  local s = scores()
  local all = nn.concat({s, input("of_head", {H, 1, 1}):expand{B, -1, N, -1}}, 4)
  return shifted(all):softmax():slice(4, 1, M):matmul(v)
end
function forms.sink() return with_sink(function(s) return s end) end
function forms.sink_shifted() return with_sink(function(s) return s - s:amax(-1, true) end) end

local y, other = forms[cfg.form]()
nn.output("y", y)
if other then nn.output("y2", other) end
if cfg.gradients then
  local loss = (y * y):sum()
  if other then loss = loss + (other * other * other):sum() end
  for i, g in ipairs(nn.grad(loss, inputs)) do nn.output("d" .. i, g) end
end
