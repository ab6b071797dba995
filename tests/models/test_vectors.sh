#!/usr/bin/env bash
# Products of one row: what multiplies and scales them is their kernel's; and what is not.
. "$(dirname "$0")/../tap.sh"
model=tests/models/vectors.lua
vector() { # vector CASE DTYPE KERNELS [SETTING...]
  build/nngen $model --quiet --check --dtype $2 --set case=$1 "${@:4}" >"$work/log" 2>&1 &&
    grep -q "ops -> $3 kernel" "$work/log" || { cat "$work/log"; echo "not $3 kernels"; return 1; }
}
for one in glu:2 joined:2 thirds:1 same:1 by_hand:2 unequal:3 output:2 whole:2 before:2 rms:2 layer:2 \
  rms_glu:3 read_again:3 shared:3 batches:2 axes:2; do
  dtypes=(fp32 fp16 bf16)
  for dtype in ${dtypes[@]}; do
    few 4/1 || continue
    case=${one%:*}
    ok "$case, $dtype" vector $case $dtype ${one#*:}
  done
done
for case in glu joined rms_glu; do
  ok "$case of a matrix of one row, odd sizes" vector $case fp16 $([ $case = rms_glu ] && echo 3 || echo 2) \
    rank=2 K=92 N=37
done
once() { # once DTYPE BYTES: weights that entries share are stored once
  build/nngen show $model --dtype $1 --set case=entries --plan >"$work/plan" &&
    bytes=$(sed -n 's/^ "static_bytes": \(.*\),/\1/p' "$work/plan") && echo "$bytes bytes" &&
    [ "$bytes" -lt $2 ]
}
ok "weights of several entries are stored once, fp32" once fp32 $((4 * 3 * 96 * 64 + 16384))
ok "and in 16 bits twice as small" once fp16 $((2 * 3 * 96 * 64 + 16384))
ok "they are right, bf16" vector entries bf16 2
ok "glu, tf32" vector glu tf32 2
tap_done
