#!/usr/bin/env bash
# Whole steps of training (train.lua): loss, gradients by nn.grad and updates, in one entry. Each
# step is held to the oracle; over some steps on one batch the loss falls.
. "$(dirname "$0")/../tap.sh"
model=tests/models/train.lua
run() {
  build/nngen $model --quiet --check --entry train "$@" >"$work/log" 2>&1 ||
    { tail -4 "$work/log"; return 1; }
}
for case in mlp conv; do
  ok "$case" run --set case=$case
  long && ok "$case unfused" run --set case=$case --lowering unfused
done
falls() { # falls CASE STEPS RATE: the loss of the last step is at most half of the first one's
  local i from= first last
  rm -f "$work/w.safetensors"
  for ((i = 1; i <= $2; i++)); do
    build/nngen $model --quiet --no-check --set case=$1 rate=$3 \
      --entry train $from --save "$work/w.safetensors" --output "$work/d" >"$work/log" 2>&1 ||
      { tail -3 "$work/log"; return 1; }
    last=$(python3 -c "import struct; d = open('$work/d/loss.npy', 'rb').read()
print(struct.unpack('<f', d[-4:])[0])")
    [ $i = 1 ] && first=$last
    from="--weights $work/w.safetensors"
  done
  python3 -c "import sys; sys.exit(not $last < $first / 2)" ||
    { echo "from $first to $last in $2 steps"; return 1; }
}
ok "the loss of a perceptron falls" falls mlp 12 0.05
ok "the loss of a convolutional network falls" falls conv 12 0.1
tap_done
