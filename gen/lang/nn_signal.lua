-- nn_signal.lua: window functions and Fourier transforms, of the module `nn` (nn.lua): windows are
-- index arithmetic without memory; short-time Fourier transforms are convolutions with sines and
-- cosines, their inverse is a transposed convolution.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, define_here = tools.fail, tools.define, tools.define_here

-- `length` positions from 0 to 1 in f32; periodic: the first `length` of one more.
local function places(length, periodic)
  local last = periodic and length or length - 1
  return nn.index({length}):to("f32") * (1 / math.max(last, 1)), last == 0
end
local zeros_of = {} -- the number of zeros at both ends, by the tensor's id
-- f at the positions; a window of one element is 1. zero: f is 0 at 0 and 1.
local function window(length, periodic, f, zero)
  local place, alone = places(length, periodic)
  if alone or length == 1 then return nn.ones{length} end
  local y = f(place)
  if zero then zeros_of[core.id(y)] = {1, periodic and 0 or 1} end
  return y
end
local function cosine(place, times) return op.cos(place * (2 * math.pi * times)) end

-- Hann window, (1 - cos) / 2. periodic: the first `length` elements of a window one longer.
define_here("hann_window(length|window_length: amount, periodic: boolean = true)",
            "torch.hann_window", function(length, periodic)
  return window(length, periodic, function(at) return 0.5 - cosine(at, 1) * 0.5 end, true)
end)
-- Hamming window, alpha - beta cos.
define_here([[hamming_window(length|window_length: amount, periodic: boolean = true,
            alpha: number = 0.54, beta: number = 0.46)]],
            "torch.hamming_window", function(length, periodic, alpha, beta)
  return window(length, periodic, function(at)
    return cosine(at, 1) * -(beta + 0.0) + (alpha + 0.0)
  end)
end)
-- Triangular (Bartlett) window.
define_here("bartlett_window(length|window_length: amount, periodic: boolean = true)",
            "torch.bartlett_window", function(length, periodic)
  return window(length, periodic, function(at) return 1.0 - op.abs(at * 2.0 - 1.0) end, true)
end)
-- Blackman window, 0.42 - 0.5 cos + 0.08 cos of twice the angle.
define_here("blackman_window(length|window_length: amount, periodic: boolean = true)",
            "torch.blackman_window", function(length, periodic)
  return window(length, periodic, function(at)
    return cosine(at, 2) * 0.08 - cosine(at, 1) * 0.5 + 0.42
  end, true)
end)
-- Kaiser window, i0(beta sqrt(1 - p^2)) / i0(beta), p from -1 to 1.
define_here([[kaiser_window(length|window_length: amount, periodic: boolean = true,
            beta: number = 12)]], "torch.kaiser_window", function(length, periodic, beta)
  return window(length, periodic, function(at)
    local p = at * 2.0 - 1.0
    local whole = nn.i0(nn.full({}, beta + 0.0))
    return nn.i0(op.sqrt(op.max(1.0 - p * p, 0.0)) * (beta + 0.0)) / whole
  end)
end)

-- ---- short-time Fourier transforms ------------------------------------------------------------

-- Sampled waves of `n` points: a cosine (1) or sine (2) for each of `count` frequencies, (count,
-- n). Angles are reduced as integers, which is exact.
local function waves(count, n)
  local turns = op.mod(nn.index({count, n}, 1) * nn.index({count, n}, 2), n)
  local angle = turns:to("f32") * (2 * math.pi / n)
  return op.cos(angle), op.sin(angle)
end

-- Checks options that both directions share; returns the hop length, the window, as (n), and its
-- first and last element, from 0, that is not known to be 0.
local function frame(what, n, hop, length, window, complex)
  hop, length = hop or n // 4, length or n
  local most = 46340 -- a position times a frequency fits 32 bits
  if n > most then fail("%s: n_fft = %d: expected at most %d", what, n, most) end
  if length > n then fail("%s: win_length = %d is above n_fft = %d", what, length, n) end
  if hop < 1 then fail("%s: hop_length = %d: expected at least 1", what, hop) end
  window = window or nn.ones{length}
  if #shape(window) ~= 1 or shape(window)[1] ~= length then
    fail("%s: window: expected (%d), by win_length, got %s", what, length, tostring(window))
  end
  if complex then
    fail("%s: there are no complex tensors: a last dimension of 2 has real and imaginary parts; "
         .. "y:norm(2, -1) is their size, nn.atan2(y:select(-1, 2), y:select(-1, 1)) the angle",
         what)
  end
  local before = (n - length) // 2
  local zeros = zeros_of[core.id(window)] or {0, 0}
  return hop, nn.pad(window:to("f32"), {before, n - length - before}), before + zeros[1],
         before + length - 1 - zeros[2]
end

-- The first of the elements `from` to `to` of a signal, from 0, at which all windows are 0 (windows
-- are 0 outside of elements first to last), or nil.
local function weighed_by_none(first, last, hop, frames, from, to)
  if first > last or from < first then return from end
  local gaps = hop > last - first + 1
  local frame = gaps and math.min((from - first) // hop, frames - 1) or frames - 1
  local at = math.max(frame * hop + last + 1, from) -- after the frame that contains `from`, or all
  return at <= to and at or nil
end

-- Short-time Fourier transforms of a signal (L) or signals (B, L), of frames of n_fft elements,
-- hop_length apart, by default n_fft // 4: (frequencies, frames, 2) or (B, frequencies, frames, 2);
-- the last dimension is the real and the imaginary part: PyTorch's with return_complex = False.
-- window: (win_length), by default ones. center: the signal is padded by n_fft // 2 on both sides,
-- with pad's modes. onesided: only the n_fft // 2 + 1 frequencies that determine the others.
-- normalized: divided by sqrt(n_fft).
define([[stft(x|input: tensor, n_fft: count, hop_length: whole = nil, win_length: count = nil,
       window: tensor = nil, center: boolean = true,
       pad_mode: constant/reflect/replicate/circular = reflect, normalized: boolean = false,
       onesided: boolean = true, {return_complex: boolean = false})]],
       "torch.stft", function(x, n, hop, length, window, center, pad_mode, normalized, onesided, o)
  hop, window = frame("stft", n, hop, length, window, o.return_complex)
  local rank = #shape(x)
  if rank < 1 or rank > 2 or not tools.is_float(x) then
    fail("stft: expected floats (L) or (B, L), got %s", tostring(x))
  end
  x = nn.reshape(x, {-1, 1, shape(x)[rank]})
  if center then x = nn.pad(x, {n // 2, n // 2}, pad_mode) end
  if shape(x)[3] < n then
    fail("stft: n_fft = %d is above the %d elements of the signal%s", n, shape(x)[3],
         center and " with its borders" or "")
  end
  local count = onesided and n // 2 + 1 or n
  local cosine, sine = waves(count, n)
  local filters = nn.stack({cosine, -sine}, 2) * window
  if normalized then filters = filters * n ^ -0.5 end
  local y = nn.functional.conv1d(x, nn.reshape(filters, {2 * count, 1, n}), nil, hop)
  y = nn.permute(nn.unflatten(y, 2, {count, 2}), {1, 2, 4, 3})
  return rank == 1 and nn.squeeze(y, {1}) or y
end)

-- The inverse of stft: the signal (L), or signals (B, L), of transforms (frequencies, frames, 2) or
-- (B, frequencies, frames, 2): the sum of the windowed inverse transforms of the frames, divided by
-- the sum of squared windows, which must not be 0 anywhere: an error for window functions of `nn`,
-- NaN for computed windows. onesided: by default if there are fewer than n_fft frequencies. length:
-- of the result, by default without the padding of `center`.
define([[istft(x|input: tensor, n_fft: count, hop_length: whole = nil, win_length: count = nil,
       window: tensor = nil, center: boolean = true, normalized: boolean = false,
       onesided: boolean = nil, length: count = nil, {return_complex: boolean = false})]],
       "torch.istft", function(x, n, hop, width, window, center, normalized, onesided, length, o)
  local first_used, last_used
  hop, window, first_used, last_used = frame("istft", n, hop, width, window, o.return_complex)
  if hop > (width or n) then
    fail("istft: hop_length = %d leaves gaps between windows of %d", hop, width or n)
  end
  local dims, given = shape(x), tostring(x)
  local rank = #dims
  if rank < 3 or rank > 4 or dims[rank] ~= 2 or not tools.is_float(x) then
    fail("istft: expected floats (frequencies, frames, 2) or (B, frequencies, frames, 2), got %s",
         tostring(x))
  end
  local count, frames = dims[rank - 2], dims[rank - 1]
  if onesided == nil then onesided = count ~= n end
  local half = n // 2 + 1
  if count ~= (onesided and half or n) then
    fail("istft: %s has %d frequencies, n_fft = %d has %d%s", tostring(x), count, n,
         onesided and half or n, onesided and ", onesided" or "")
  end
  x = nn.slice(nn.reshape(x, {-1, count, frames, 2}), 2, 1, half)
  local cosine, sine = waves(half, n)
  local at = nn.index({half, 1}, 1) -- all except the first and the middle one count twice
  local once = op.eq(at, 0) | op.eq(at * 2, n)
  local times = op.where(once, 1.0, 2.0) * window * (normalized and n ^ -0.5 or 1 / n)
  local filters = nn.reshape(nn.stack({cosine * times, -(sine * times)}, 2), {2 * half, 1, n})
  x = nn.flatten(nn.permute(x, {1, 2, 4, 3}), 2, 3)
  local y = nn.functional.conv_transpose1d(x, filters, nil, hop)
  local squares = nn.reshape(op.mul(window, window), {1, 1, n})
  local weight = nn.functional.conv_transpose1d(nn.ones{1, 1, frames}, squares, nil, hop)
  local whole = shape(y)[3]
  local first = center and n // 2 + 1 or 1
  local last = length and first + length - 1 or whole - (center and n // 2 or 0)
  if last < first then
    fail("istft: %d frames have nothing but borders; center = false keeps them", frames)
  end
  local none = weighed_by_none(first_used, last_used, hop, frames, first - 1,
                               math.min(last, whole) - 1)
  if none then
    fail("istft: all windows of %s are 0 at element %d of the signal: center = true leaves its " ..
         "borders out; gaps go with a hop_length below %d or another window", given,
         none - first + 2, hop)
  end
  y = nn.slice(y / weight, 3, first, math.min(last, whole))
  if last > whole then y = nn.pad(y, {0, last - whole}) end
  y = nn.reshape(y, {shape(y)[1], -1})
  return rank == 3 and nn.squeeze(y, {1}) or y
end)
