#!/usr/bin/env bash
# Convolutions of each channel alone, and their gradients, multiply no tiles of matrices, of which
# one in sixteen elements or less would count.
. "$(dirname "$0")/../tap.sh"
model=tests/models/grouped.lua
alone="--set channels=1 outputs=1" # of a group
right() { build/nngen $model $alone --quiet --check "$@"; }
while read -r settings; do
  few 3/2 || continue
  ok "fp32: ${settings:-as they are}" right ${settings:+--set $settings}
  few 2/3 16 && ok "bf16: ${settings:-as they are}" right --dtype bf16 ${settings:+--set $settings}
done <<'CASES'

stride=2
stride=2 dilation=2
kernel=5 pad=0
stride=3 kernel=4 pad=2
kernel=7 height=4 pad=3
groups=7 stride=2 height=8
groups=1
height=1 stride=2
height=3 kernel=5 pad=2
batch=8 groups=64 height=16 kernel=7 pad=3
kernel=1 pad=0 stride=2
kernel=3 pad=5
CASES
products() { build/nngen show $model $alone --plan --set "$@" | grep -c '"class_name": "contract"'; }
none() { [ "$(products "$@")" = 0 ]; }
ok "none is a product of tiles" none stride=2
sums() { # sums COUNT SETTINGS...: so many kernels have the sums for the taps
  local got
  got=$(build/nngen show $model $alone --stage fuse --set "${@:2}" |
    grep -c '^# kernel.*filter.*reduce_sum')
  [ "$got" = $1 ] || { echo "$got kernels, want $1"; return 1; }
}
ok "nine taps are the sums of two kernels" sums 2 groups=64 height=30
ok "49 taps of seven" sums 7 batch=32 groups=64 height=30 kernel=7 pad=3
ok "unless there is little to sum" sums 0 groups=64 height=7 kernel=7 pad=3
for axes in "{1, 3}, padding = {2, 0}, dilation = {2, 1}" "{2, 1}, padding = {0, 3}"; do
  cat >"$work/axes.lua" <<LUA
local nn = require "nn"
local x, w = nn.input("x", {2, 8, 9, 12}), nn.input("w", {8, 1, 3, 3})
local y = nn.functional.conv2d(x, w, nil, {stride = $axes, groups = 8})
local dw = nn.grad((y * y * y):sum(), w)
nn.output("dw", dw)
nn.output("dx", nn.grad((y * y * y):sum(), x))
nn.output("second", nn.grad((dw * dw):sum(), x))
LUA
  ok "axes of their own: $axes" build/nngen "$work/axes.lua" --quiet --check
done
if build/nngen doctor 2>/dev/null | grep -q "^NVRTC.*version"; then
  unspilled() {
    build/nngen $model $alone --quiet --json "$@" >"$work/json" &&
      ! grep -q '"spill_bytes": [1-9]' "$work/json" && grep -q '"spill_bytes": 0' "$work/json"
  }
  for arch in sm_90a $(long && echo sm_80 sm_100a); do
    for dtype in fp32 $(long && echo bf16); do
      ok "$arch, $dtype, spills nothing" unspilled --arch $arch --dtype $dtype \
        --set groups=64 height=30 kernel=7 pad=3
    done
  done
fi
tap_done
