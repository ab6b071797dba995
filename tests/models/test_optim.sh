#!/usr/bin/env bash
# Losses, optimizers and schedules against their formulas in plain Python and doubles
# (train_reference.py), which are held to PyTorch where it is installed.
. "$(dirname "$0")/../tap.sh"
python=python3
/usr/bin/python3 -c 'import torch' 2>/dev/null && python=/usr/bin/python3
reference() { $python tests/models/train_reference.py "$@"; }
run() { build/nngen "$@" --quiet >"$work/log" 2>&1 || { tail -4 "$work/log"; return 1; }; }

losses() {
  local files= name
  reference losses "$work/losses" || return
  for name in x y p labels weight; do files+=" --input $name=$work/losses/in/$name.npy"; done
  run tests/models/losses.lua --check $files --output "$work/losses/got" "$@" || return
  reference compare "$work/losses/out" "$work/losses/got" 2e-6
}
ok "losses and their gradients" losses
long && ok "losses and their gradients, unfused" losses --lowering unfused

optimizer() { # optimizer CASE CLIP: twenty steps
  local at=$work/$1$2
  reference optim "$at" $1 $2 || return
  run tests/models/optim.lua --no-check --entry train --steps 20 --set case=$1 clip=$2 \
    --input x="$at/in/x.npy" --input y="$at/in/y.npy" \
    --weights "$at/weights.safetensors" --save "$at/after.safetensors" || return
  reference weights "$at/after.safetensors" "$at/out" 2e-6
}
for case in sgd momentum nesterov adam adamw lion muon groups scaled; do
  ok "20 steps, $case" optimizer $case 0
done
ok "20 steps, gradients clipped by their norm" optimizer momentum 0.3
ok "a step by the oracle, muon" run tests/models/optim.lua --check --entry train --set case=muon

schedules() {
  reference schedules "$work/schedules" &&
    run tests/models/optim.lua --entry infer --output "$work/schedules.got" &&
    reference compare "$work/schedules" "$work/schedules.got" 1e-5
}
ok "schedules" schedules
tap_done
