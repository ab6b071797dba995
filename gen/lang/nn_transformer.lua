-- nn_transformer.lua: transformer layers, of the module `nn` (nn.lua), with PyTorch's parameter
-- names.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local define = tools.define

-- The activation between the two linear layers: "relu", "gelu" or a function.
local function activated(x, f)
  if f == "relu" then return nn.relu(x) elseif f == "gelu" then return nn.gelu(x) end
  if type(f) ~= "function" then
    tools.fail("transformer: activation = %s: expected \"relu\", \"gelu\" or a function",
               tools.said(f))
  end
  return tools.tensor("transformer: activation", f(x))
end

-- The feed-forward block of a layer: linear1, activation, linear2.
local function feed_forward(x, o)
  local y = nn.linear(x, "linear1", {out = o.inner, bias = o.bias})
  y = nn.dropout(activated(y, o.activation), o.dropout)
  return nn.linear(y, "linear2", {out = shape(x)[#shape(x)], bias = o.bias})
end

-- x + f(x), normalised before f or after the sum.
local function residual(x, norm, o, f)
  local function normed(v) return nn.layer_norm(v, norm, {eps = o.eps, bias = o.bias}) end
  if o.norm_first then return x + nn.dropout(f(normed(x)), o.dropout) end
  return normed(x + nn.dropout(f(x), o.dropout))
end

local function attention(name, x, key, o, mask, padding, causal)
  return (nn.multi_head_attention(x, name, {
    heads = o.heads, key = key, bias = o.bias, batch_first = o.batch_first, dropout = o.dropout,
    mask = mask, key_padding_mask = padding, causal = causal}))
end

local function encoder_layer(x, o)
  x = residual(x, "norm1", o, function(v)
    return attention("self_attn", v, nil, o, o.mask, o.padding_mask, o.causal)
  end)
  return residual(x, "norm2", o, function(v) return feed_forward(v, o) end)
end
-- Self-attention and two linear layers, each with residual and norm, of (L, N, E), or (N, L, E)
-- with batch_first. Masks are multi_head_attention's, activation may be a function. Parameters
-- name.self_attn.*, linear1.*, linear2.*, norm1.*, norm2.*. inner: PyTorch's dim_feedforward.
define([[transformer_encoder_layer(x|src: tensor, name: name, {heads|nhead: count,
       inner|dim_feedforward: count = 2048, dropout: chance = 0.1,
       activation: any = relu, eps|layer_norm_eps: number = 1e-5,
       norm_first: boolean = false, bias: boolean = true, batch_first: boolean = false,
       mask|src_mask: tensor = nil, padding_mask|src_key_padding_mask: tensor = nil,
       causal|is_causal: boolean = false})]], "nn.TransformerEncoderLayer", encoder_layer)

local function decoder_layer(x, o)
  x = residual(x, "norm1", o, function(v)
    return attention("self_attn", v, nil, o, o.mask, o.padding_mask, o.causal)
  end)
  x = residual(x, "norm2", o, function(v)
    return attention("multihead_attn", v, o.memory, o, o.memory_mask, o.memory_padding_mask,
                     o.memory_causal)
  end)
  return residual(x, "norm3", o, function(v) return feed_forward(v, o) end)
end
-- Self-attention, attention over memory (an encoder's result), and two linear layers. Parameters
-- name.self_attn.*, multihead_attn.*, linear1.*, linear2.*, norm1.*, norm2.*, norm3.*.
define([[transformer_decoder_layer(x|tgt: tensor, name: name, {memory: tensor,
       heads|nhead: count, inner|dim_feedforward: count = 2048, dropout: chance = 0.1,
       activation: any = relu, eps|layer_norm_eps: number = 1e-5,
       norm_first: boolean = false, bias: boolean = true, batch_first: boolean = false,
       mask|tgt_mask: tensor = nil, padding_mask|tgt_key_padding_mask: tensor = nil,
       memory_mask: tensor = nil, memory_padding_mask|memory_key_padding_mask: tensor = nil,
       causal|tgt_is_causal: boolean = false,
       memory_causal|memory_is_causal: boolean = false})]],
       "nn.TransformerDecoderLayer", decoder_layer)

-- `layers` layers name.layers.0, name.layers.1, ...; norm: a final norm, name.norm.
local function stack(layer)
  return function(x, o)
    for i = 0, o.layers - 1 do x = nn.scope("layers." .. i, layer, x, o) end
    return o.norm and nn.layer_norm(x, "norm", {eps = o.eps, bias = o.bias}) or x
  end
end
-- Several transformer_encoder_layer; parameters name.layers.0.*, ..., with norm = true name.norm.*.
define([[transformer_encoder(x|src: tensor, name: name, {layers|num_layers: count,
       heads|nhead: count, inner|dim_feedforward: count = 2048, dropout: chance = 0.1,
       activation: any = relu, eps|layer_norm_eps: number = 1e-5,
       norm_first: boolean = false, norm: boolean = false, bias: boolean = true,
       batch_first: boolean = false, mask|src_mask: tensor = nil,
       padding_mask|src_key_padding_mask: tensor = nil, causal|is_causal: boolean = false})]],
       "nn.TransformerEncoder", stack(encoder_layer))
-- Several transformer_decoder_layer; parameters name.layers.0.*, ..., with norm = true name.norm.*.
define([[transformer_decoder(x|tgt: tensor, name: name, {memory: tensor,
       layers|num_layers: count, heads|nhead: count, inner|dim_feedforward: count = 2048,
       dropout: chance = 0.1, activation: any = relu, eps|layer_norm_eps: number = 1e-5,
       norm_first: boolean = false, norm: boolean = false, bias: boolean = true,
       batch_first: boolean = false, mask|tgt_mask: tensor = nil,
       padding_mask|tgt_key_padding_mask: tensor = nil, memory_mask: tensor = nil,
       memory_padding_mask|memory_key_padding_mask: tensor = nil,
       causal|tgt_is_causal: boolean = false,
       memory_causal|memory_is_causal: boolean = false})]],
       "nn.TransformerDecoder", stack(decoder_layer))
-- An encoder over src and a decoder over x, each with a final norm: parameters name.encoder.*,
-- name.decoder.*.
define([[transformer(x|tgt: tensor, name: name, {src: tensor, heads|nhead: count = 8,
       encoder_layers|num_encoder_layers: count = 6,
       decoder_layers|num_decoder_layers: count = 6, inner|dim_feedforward: count = 2048,
       dropout: chance = 0.1, activation: any = relu, eps|layer_norm_eps: number = 1e-5,
       norm_first: boolean = false, bias: boolean = true, batch_first: boolean = false,
       mask|tgt_mask: tensor = nil, src_mask: tensor = nil, memory_mask: tensor = nil,
       padding_mask|tgt_key_padding_mask: tensor = nil,
       src_padding_mask|src_key_padding_mask: tensor = nil,
       memory_padding_mask|memory_key_padding_mask: tensor = nil,
       causal|tgt_is_causal: boolean = false, src_causal|src_is_causal: boolean = false,
       memory_causal|memory_is_causal: boolean = false})]], "nn.Transformer", function(x, o)
  local function with(changes)
    local all = {}
    for key, value in pairs(o) do all[key] = value end
    for key, value in pairs(changes) do all[key] = value end
    return all
  end
  local encoder = with{layers = o.encoder_layers, norm = true}
  encoder.mask, encoder.padding_mask, encoder.causal = o.src_mask, o.src_padding_mask, o.src_causal
  local memory = nn.scope("encoder", stack(encoder_layer), o.src, encoder)
  return nn.scope("decoder", stack(decoder_layer), x,
                  with{layers = o.decoder_layers, norm = true, memory = memory})
end)
