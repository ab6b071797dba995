local nn = require "nn"
local cfg = nn.config{case = 1}
local x, y, hann = nn.input("x", {3, 40}), nn.input("y", {9, 5, 2}), nn.hann_window(16)
local cases = {
  function() local z = x:stft(16, {return_complex = true}); return z end,
  function() local z = x:stft{n_fft = 16, window = nn.ones{12}}; return z end,
  function() local z = x:stft{n_fft = 64, center = false}; return z end,
  function() local z = x:stft{n_fft = 16, win_length = 17}; return z end,
  function() local z = y:istft(20); return z end,
  function() local z = x:istft(16); return z end,
  function() local z = y:istft{n_fft = 16, hop_length = 0}; return z end,
  function() local z = y:istft{n_fft = 16, hop_length = 13, win_length = 12}; return z end,
  function() local z = y:istft(16, 4, 16, hann, false); return z end,
  function() local z = y:istft(16, 12, 12, nn.bartlett_window(12, false)); return z end,
}
nn.output("z", cases[cfg.case]())
