#!/usr/bin/env bash
# Convolutions in groups of few channels, and their gradients: groups share tiles, and what lies
# between two groups is left out of the gradient of the filter.
. "$(dirname "$0")/../tap.sh"
model=tests/models/grouped.lua
right() { build/nngen $model --quiet --check "$@"; }
while read -r settings; do
  few 2/2 && ok "fp32: ${settings:-as they are}" right ${settings:+--set $settings}
  few 2/2 16 && ok "bf16: ${settings:-as they are}" right --dtype bf16 ${settings:+--set $settings}
  long && ok "tf32: ${settings:-as they are}" right --dtype tf32 ${settings:+--set $settings}
done <<'CASES'

groups=16 stride=2
groups=12 channels=3 outputs=5 kernel=4 pad=2
groups=16 channels=2 outputs=8 dilation=2
groups=16 channels=8 outputs=2 stride=3 pad=0
groups=6 channels=1 outputs=3 kernel=5 pad=2
groups=7 channels=5 outputs=1 height=4
groups=64 channels=1 outputs=2 kernel=1 pad=0
groups=2 channels=16 outputs=48 height=5
groups=32 batch=1 height=1
CASES
ok "bf16: two groups of one channel, which become one" right --dtype bf16 \
  --set groups=2 channels=1 outputs=2 batch=8 height=64
padding() { # padding MOST SETTINGS...: products of filters multiply at most so often for nothing
  local most=$1
  shift
  build/nngen show $model --costs --dtype bf16 --set batch=32 height=32 "$@" |
    awk -v most="$most" '/^conv2d_grad.conv2d_filter.*warps/{
      sub(/.*parts +[0-9]+/, ""); found = 1; if ($4 > most) { print $4 " times"; bad = 1 } }
      END{exit bad || !found}'
}
ok "four channels of a group: 16 groups fill a tile's rows" padding 16 groups=32
ok "eight channels: 8 groups" padding 9 groups=32 channels=8 outputs=8
ok "one channel, four outputs: 16 groups" padding 22 groups=64 channels=1
tap_done
