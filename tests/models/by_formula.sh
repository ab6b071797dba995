# by_formula.sh: what is held to formulas in plain Python and doubles (train_reference.py). Source it
# behind tap.sh.
reference() { python3 tests/models/train_reference.py "$@"; }
plainly() { build/nngen "$@" --quiet >"$work/log" 2>&1 || { tail -4 "$work/log"; return 1; }; }

optimizer() { # optimizer CASE CLIP: twenty steps
  local at=$work/$1$2
  reference optim "$at" $1 $2 || return
  plainly tests/models/optim.lua --no-check --entry train --steps 20 --set case=$1 clip=$2 \
    --input x="$at/in/x.npy" --input y="$at/in/y.npy" \
    --weights "$at/weights.safetensors" --save "$at/after.safetensors" || return
  reference weights "$at/after.safetensors" "$at/out" 2e-6
}
schedules() {
  reference schedules "$work/schedules" &&
    plainly tests/models/optim.lua --entry infer --output "$work/schedules.got" &&
    reference compare "$work/schedules" "$work/schedules.got" 1e-5
}
statistics() { # statistics ENTRY OPTIONS...: of a batch norm, after three steps
  local at=$work/statistics_$1 x entry=$1; shift
  reference statistics "$at" && x=x=$at/in/x.npy || return
  plainly tests/models/statistics.lua --check --entry $entry --steps 3 --input "$x" "$@" \
    --save "$at/after.safetensors" --output "$at/third" &&
    plainly tests/models/statistics.lua --entry infer --input "$x" "$@" \
      --weights "$at/after.safetensors" --output "$at/got" &&
    cp "$at/third/y.npy" "$at/got" && reference compare "$at/out" "$at/got" 2e-6
}
