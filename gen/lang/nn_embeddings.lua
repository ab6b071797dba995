-- nn_embeddings.lua: embeddings, of the module `nn` (nn.lua): rows of a table selected by integers,
-- and reductions of several rows. Parameters have PyTorch's names and initial values.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, define_functional = tools.fail, tools.define, tools.define_functional

-- Rows whose norm exceeds `most`, scaled down to it. As in PyTorch, which changes the table, no
-- gradient passes through the norm; here the table is unchanged.
local function shortened(what, rows, most, p)
  if most <= 0 then fail("%s: max_norm = %g: expected a number above 0", what, most) end
  local norm = nn.norm(rows, p, -1, true)
  local scale = op.where(op.gt(norm, most), most / (norm + 1e-7), 1.0)
  return nn.custom_gradient(rows * scale, {rows}, function(g) return g end)
end

-- Divides the gradient of each row by the number of times its id occurs.
local function by_frequency(rows, ids, count)
  local n = tools.product(shape(ids))
  local often = nn.scatter_add(op.reshape(ids, {dims = {n}}), core.full({n, 1}, 1.0), count)
  local share = nn.gather(op.reshape(often, {dims = {count}}), ids, 1)
  return nn.custom_gradient(op.reshape(rows, {dims = shape(rows)}), {rows}, function(g)
    return g / nn.unsqueeze(share, -1)
  end)
end

-- Rows of w (count, size) by ids; the padding row gets no gradient.
local function rows_of(what, w, ids, o)
  local count = shape(w)[1]
  if tools.is_float(ids) then fail("%s: ids are integers, not %s", what, core.dtype(ids)) end
  if #shape(w) ~= 2 then fail("%s: weight: expected (count, size), got %s", what, tostring(w)) end
  local y = nn.gather(w, ids, 1)
  if o.scale_grad_by_freq then y = by_frequency(y, ids, count) end
  if o.max_norm then y = shortened(what, y, o.max_norm, o.norm_type) end
  local at = o.padding_index
  if not at then return y end
  if at < -count or at >= count then
    fail("%s: padding_index = %d: there are %d rows", what, at, count)
  end
  local pads = op.eq(ids, at % count)
  return op.where(nn.unsqueeze(pads, -1), op.stop_gradient(y), y), pads
end

-- A row of parameter name.weight (count, size) for each id; initially normal with deviation 1. Ids
-- are integers below count, of any shape. The row padding_index (from 0) gets no gradient.
-- max_norm: rows with a larger norm, of order norm_type, are scaled down to it in the result;
-- PyTorch changes the table, too. scale_grad_by_freq: gradients are divided by the number of times
-- an id occurs.
define([[embedding(ids: tensor, name: name, {count|num_embeddings: count,
       size|embedding_dim: count, padding_index|padding_idx: whole = nil, max_norm: number = nil,
       norm_type: number = 2, scale_grad_by_freq: boolean = false})]],
       "nn.Embedding", function(ids, o)
  local w = nn.param("weight", {o.count, o.size}, {"normal", 0, 1})
  return (rows_of("embedding", w, ids, o))
end)
-- Rows of weight (count, size) by ids, with the options of the layer.
define_functional([[embedding(ids: tensor, weight: tensor, padding_index|padding_idx: whole = nil,
                  max_norm: number = nil, norm_type: number = 2,
                  scale_grad_by_freq: boolean = false)]],
                  "F.embedding", function(ids, weight, pad, max_norm, norm_type, by_freq)
  return (rows_of("embedding", weight, ids, {padding_index = pad, max_norm = max_norm,
                                            norm_type = norm_type, scale_grad_by_freq = by_freq}))
end)

-- ---- bags -------------------------------------------------------------------------------------

-- The bag of each of n ids, (B, n), from a list or tensor of bag offsets.
local function members(offsets, n, with_last)
  if not core.is_tensor(offsets) then
    if type(offsets) ~= "table" or #offsets == 0 then
      fail("embedding_bag: offsets: expected a list of whole numbers, or a tensor of integers")
    end
    for i, v in ipairs(offsets) do
      v = tools.whole("embedding_bag: offsets", v)
      if i == 1 and v ~= 0 or v > n or v < (offsets[i - 1] or 0) then
        fail("embedding_bag: offsets begin at 0 and rise to at most %d, not to %d", n, v)
      end
    end
    offsets = nn.tensor(offsets, {dtype = "i32"})
  end
  if tools.is_float(offsets) or #shape(offsets) ~= 1 then
    fail("embedding_bag: offsets: expected integers (B), got %s %s", core.dtype(offsets),
         tostring(offsets))
  end
  local B = shape(offsets)[1]
  local bounds = with_last and offsets or nn.pad(offsets, {0, 1}, "constant", n)
  if with_last then B = B - 1 end
  if B < 1 then fail("embedding_bag: offsets: expected at least one bag") end
  local at = nn.index({1, n}, 2)
  local function bound(i) return nn.unsqueeze(nn.slice(bounds, 1, i, B + i - 1), 2) end
  return op.ge(at, bound(1)) & op.lt(at, bound(2))
end

local function bags(ids, weight, o)
  local dims = shape(ids)
  if #dims ~= 2 and #dims ~= 1 or (#dims == 1) ~= (o.offsets ~= nil) then
    fail("embedding_bag: expected ids (B, L), or (N) with offsets, got %s%s", tostring(ids),
         o.offsets and " with offsets" or "")
  end
  local rows, pads = rows_of("embedding_bag", weight, ids, o)
  if o.weights then
    if o.mode ~= "sum" then fail("embedding_bag: weights are for mode \"sum\"") end
    if table.concat(shape(o.weights), ",") ~= table.concat(dims, ",") then
      fail("embedding_bag: weights: expected the shape of %s, got %s", tostring(ids),
           tostring(o.weights))
    end
    rows = rows * nn.unsqueeze(o.weights, -1)
  end
  local is_in = o.offsets and members(o.offsets, dims[1], o.include_last_offset)
  if o.offsets then rows = nn.unsqueeze(rows, 1) end -- (1, N, size), is_in (B, N)
  if pads then is_in = is_in and is_in & op.logical_not(pads) or op.logical_not(pads) end
  local function reduce(f, other)
    return f(is_in and op.where(nn.unsqueeze(is_in, 3), rows, other) or rows, 2)
  end
  if o.mode == "sum" or not is_in then
    return reduce(o.mode == "sum" and nn.sum or o.mode == "mean" and nn.mean or nn.amax, 0.0)
  end
  local n = nn.sum(is_in, 2, true)
  if o.mode == "mean" then return reduce(nn.sum, 0.0) / op.max(n, 1) end
  return op.where(op.gt(n, 0), reduce(nn.amax, -math.huge), 0.0)
end

-- Reduces the rows of ids (B, L) to one result per bag (B, size): their mean, sum or maximum; an
-- empty bag yields 0. For ids (N), `offsets` lists the start of each bag and, with
-- include_last_offset, the end of the last one: a list, or integers (B). Rows of padding_index are
-- excluded; weights, of the shape of ids, multiply the rows of a sum. Parameter name.weight (count,
-- size); other options are embedding's.
define([[embedding_bag(ids: tensor, name: name, {count|num_embeddings: count,
       size|embedding_dim: count, mode: mean/sum/max = mean, offsets: any = nil,
       weights|per_sample_weights: tensor = nil, include_last_offset: boolean = false,
       padding_index|padding_idx: whole = nil, max_norm: number = nil, norm_type: number = 2,
       scale_grad_by_freq: boolean = false})]], "nn.EmbeddingBag", function(ids, o)
  return bags(ids, nn.param("weight", {o.count, o.size}, {"normal", 0, 1}), o)
end)
-- embedding_bag with the table weight (count, size).
define_functional([[embedding_bag(ids: tensor, weight: tensor, offsets: any = nil,
                  {mode: mean/sum/max = mean, weights|per_sample_weights: tensor = nil,
                  include_last_offset: boolean = false, padding_index|padding_idx: whole = nil,
                  max_norm: number = nil, norm_type: number = 2,
                  scale_grad_by_freq: boolean = false})]],
                  "F.embedding_bag", function(ids, weight, offsets, o)
  o.offsets = offsets
  return bags(ids, weight, o)
end)
