#!/usr/bin/env bash
# Losses, optimizers, schedules and running statistics against their formulas (by_formula.sh).
. "$(dirname "$0")/../tap.sh"
. tests/models/by_formula.sh

losses() {
  local files= name
  reference losses "$work/losses" || return
  for name in x y p labels weight; do files+=" --input $name=$work/losses/in/$name.npy"; done
  plainly tests/models/losses.lua --check $files --output "$work/losses/got" "$@" || return
  reference compare "$work/losses/out" "$work/losses/got" 2e-6
}
ok "losses and their gradients" losses
long && ok "losses and their gradients, unfused" losses --lowering unfused

for case in sgd momentum nesterov adam adamw lion muon groups scaled; do
  ok "20 steps, $case" optimizer $case 0
done
ok "20 steps, gradients clipped by their norm" optimizer momentum 0.3
ok "a step by the oracle, muon" plainly tests/models/optim.lua --check --entry train --set case=muon

if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  ok "the formulas beside PyTorch's" /usr/bin/python3 tests/models/train_reference.py pytorch \
    "$work/pytorch"
else skip "the formulas beside PyTorch's" "there is no torch"; fi
ok "schedules" schedules
ok "running statistics of a batch norm" statistics
tap_done
