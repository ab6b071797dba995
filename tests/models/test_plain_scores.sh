#!/usr/bin/env bash
# Attention without a softmax (plain_scores.lua): one kernel that stores no scores, unless the model
# reads them, or there are few.
. "$(dirname "$0")/../tap.sh"
model=tests/models/plain_scores.lua
kernel() { # kernel TEMPLATE OPTIONS...: right, and by this template
  build/nngen $model --quiet --check "${@:2}" >"$work/log" 2>&1 &&
    grep -q "^matmul .* $1 " "$work/log" || { tail -n 20 "$work/log"; return 1; }
}
for case in relu sigmoid retention squared; do
  few 2 || continue
  for dtype in fp16 $(long && echo fp32 tf32); do
    ok "$case, $dtype" kernel attend_backward --set case=$case --dtype $dtype
  done
done
ok "scores that are an output are stored" kernel contract --set case=kept --dtype fp16
ok "scores that two products read are stored" kernel contract --set case=shared --dtype fp16
ok "few scores are stored" kernel contract --set batch=1 --dtype fp16
ok "--no-flash stores them" kernel contract --dtype fp16 --no-flash
work_of() { build/nngen show $model --dtype fp16 --arch sm_90a --costs --set rows=2048 keys=2048 "$@" |
  awk '$1 == "matmul" {for (i = 2; i <= NF; i++) if ($i == "math") print $(i + 1) + 0}'; }
halved() {
  local causal all; causal=$(work_of case=relu) all=$(work_of case=sigmoid)
  awk -v a="$causal" -v b="$all" 'BEGIN {exit !(a > 0 && a < 0.6 * b)}' ||
    { echo "math $causal us, of all tiles $all us"; return 1; }
}
ok "tiles above the diagonal are skipped" halved
tap_done
