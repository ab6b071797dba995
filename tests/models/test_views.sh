#!/usr/bin/env bash
# Reshapes between operations, of size 1 (unsqueeze) or splitting and joining dimensions, cost no
# kernel (views.lua).
. "$(dirname "$0")/../tap.sh"
model=tests/models/views.lua
kernels() { build/nngen show $model --set "$@" | grep -c '^# kernel'; }
same() { # same CASE: as many kernels as without, and right
  local with without
  with=$(kernels case=$1 view=true) without=$(kernels case=$1 view=false)
  [ "$with" -le "$without" ] || { echo "$with kernels, $without without the reshape"; return 1; }
  build/nngen $model --quiet --check --set case=$1
}
for case in $(sed -n 's/^function cases\.\([a-z_]*\).*/\1/p' $model); do
  ok "$case" same $case
done
tap_done
