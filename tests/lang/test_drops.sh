#!/usr/bin/env bash
# Layers that leave out elements, channels or examples at random do so in training, as often as they
# are asked to, and nothing elsewhere.
. "$(dirname "$0")/../tap.sh"
none() { # none LAYER ENTRY: nothing is wrong
  build/nngen tests/lang/drops.lua --quiet --no-check --set layer=$1 --entry $2 \
    --output "$work/$1" >/dev/null || return
  local got; got=$(tail -c 4 "$work/$1/$3.npy" | od -An -tu4)
  [ "$got" -eq 0 ] || { echo "$got results are wrong"; return 1; }
}
for layer in dropout dropout2d dropout3d alpha_dropout feature_alpha_dropout stochastic_depth \
  drop_path batch; do
  ok "$layer, in training" none $layer train wrong
done
ok "stochastic_depth leaves all elsewhere" none stochastic_depth infer same
tap_done
