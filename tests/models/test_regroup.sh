#!/usr/bin/env bash
# Training steps whose kernels depend on how groups are made and made again (regroup.lua): each
# against the oracle; modelled.txt has their times at the sizes where they matter.
. "$(dirname "$0")/../tap.sh"
right() { build/nngen run tests/models/regroup.lua --entry train --quiet --check "$@"; }
for kind in lstm gru; do
  for layers in 1 2; do
    few 3/2 recurrent && ok "both directions, final states, $kind of $layers" right \
      --set case=recurrent kind=$kind layers=$layers
  done
done
for case in segmentation maximum diagonal; do
  ok "$case, fp32" right --set case=$case
  long && ok "$case, bf16" right --set case=$case --dtype bf16
done
# Gradients of a maximum as PyTorch has them: equal elements share, NaN makes its row NaN.
cat >"$work/maximum.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {3, 4})
nn.output("g", nn.grad((x:amax(2) * nn.tensor {1, 2, 3}):sum(), {x})[1])
LUA
shared() {
  $python -c 'import numpy, sys
numpy.save(sys.argv[1], numpy.array([[1, 2, 2, 0], [numpy.nan, 1, 2, 3], [-1] * 4], "f4"))' \
    "$work/x.npy" &&
    build/nngen "$work/maximum.lua" --quiet --no-check --input x="$work/x.npy" \
      --output "$work/got" && $python -c 'import numpy, sys
numpy.testing.assert_array_equal(numpy.load(sys.argv[1]),
                                 [[0, 0.5, 0.5, 0], [numpy.nan] * 4, [0.75] * 4])' "$work/got/g.npy"
}
if python_with numpy; then ok "elements that are the maximum share its gradient" shared
else skip "gradient of a maximum" "NumPy is not installed"; fi
# Heads that share keys, in PyTorch's terms.
cat >"$work/heads.lua" <<'LUA'
local nn = require "nn"
local q, k = nn.input("q", {1, 4, 8, 16}), nn.input("k", {1, 2, 8, 16})
local options = {enable_gqa = nn.config {shared = true}.shared}
nn.output("y", nn.scaled_dot_product_attention(q, k, nn.input("v", {1, 2, 8, 16}), options))
LUA
ok "grouped heads" build/nngen "$work/heads.lua" --quiet --check
ok "grouped heads that are not allowed" fails 2 "4 heads of q and 2 of k" build/nngen \
  "$work/heads.lua" --set shared=false
tap_done
