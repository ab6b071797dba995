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
loss() { tail -c 4 "$work/d/loss.npy" | od -An -tf4; }
# falls CASE STEPS RATE: the loss of the last step is at most half of the first one's. The first is
# a run of its own, and the others go on with its weights.
falls() {
  local first last with="--quiet --no-check --entry train --set case=$1 rate=$3 --output $work/d"
  build/nngen $model $with --save "$work/w.safetensors" >"$work/log" 2>&1 && first=$(loss) &&
    build/nngen $model $with --steps $(($2 - 1)) --weights "$work/w.safetensors" \
      >"$work/log" 2>&1 && last=$(loss) || { tail -3 "$work/log"; return 1; }
  awk -v first="$first" -v last="$last" 'BEGIN {exit !(last > 0 && last < first / 2)}' ||
    { echo "from $first to $last in $2 steps"; return 1; }
}
ok "the loss of a perceptron falls" falls mlp 12 0.05
ok "the loss of a convolutional network falls" falls conv $(long && echo 12 || echo 8) 0.1
tap_done
