-- nn_signal.lua: windows by which signals are weighed, of the module `nn` (nn.lua): index
-- arithmetic, for which nothing is read.
local core, nn = ...
local op, tools = core.op, core.tools
local define_here = tools.define_here

-- `length` places as they go from 0 to 1 in f32; periodic: as the first of one more.
local function places(length, periodic)
  local last = periodic and length or length - 1
  return nn.index({length}):to("f32") * (1 / math.max(last, 1)), last == 0
end
-- f of the places; a window of one element is 1.
local function window(length, periodic, f)
  local place, alone = places(length, periodic)
  return (alone or length == 1) and nn.ones{length} or f(place)
end
local function cosine(place, times) return op.cos(place * (2 * math.pi * times)) end

-- (1 - cos) / 2. periodic: as the first `length` of one more, for which it repeats.
define_here("hann_window(length|window_length: amount, periodic: boolean = true)",
            "torch.hann_window", function(length, periodic)
  return window(length, periodic, function(at) return 0.5 - cosine(at, 1) * 0.5 end)
end)
-- alpha - beta cos.
define_here([[hamming_window(length|window_length: amount, periodic: boolean = true,
            alpha: number = 0.54, beta: number = 0.46)]],
            "torch.hamming_window", function(length, periodic, alpha, beta)
  return window(length, periodic, function(at)
    return cosine(at, 1) * -(beta + 0.0) + (alpha + 0.0)
  end)
end)
-- Straight up and down.
define_here("bartlett_window(length|window_length: amount, periodic: boolean = true)",
            "torch.bartlett_window", function(length, periodic)
  return window(length, periodic, function(at) return 1.0 - op.abs(at * 2.0 - 1.0) end)
end)
-- 0.42 - 0.5 cos + 0.08 cos of twice the angle.
define_here("blackman_window(length|window_length: amount, periodic: boolean = true)",
            "torch.blackman_window", function(length, periodic)
  return window(length, periodic, function(at)
    return cosine(at, 2) * 0.08 - cosine(at, 1) * 0.5 + 0.42
  end)
end)
-- i0(beta sqrt(1 - p^2)) / i0(beta), p from -1 to 1.
define_here([[kaiser_window(length|window_length: amount, periodic: boolean = true,
            beta: number = 12)]], "torch.kaiser_window", function(length, periodic, beta)
  return window(length, periodic, function(at)
    local p = at * 2.0 - 1.0
    local whole = nn.i0(nn.full({}, beta + 0.0))
    return nn.i0(op.sqrt(op.max(1.0 - p * p, 0.0)) * (beta + 0.0)) / whole
  end)
end)
