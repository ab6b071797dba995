#!/usr/bin/env bash
# What libcusim counts in the kernels of the models: the planned bytes, no bank conflicts, whole sectors.
. "$(dirname "$0")/../tap.sh"
[ $NNGEN_DEVICE = sim ] || { skip "counters" "only libcusim counts"; tap_done; exit; }
no_conflicts() { # libcusim counts the bank conflicts of every kernel: 0 in each
  build/nngen "$@" --quiet --count >"$work/counts" || return
  sed -n '/^counted by/,/^$/p' "$work/counts" | awk 'NR > 1 && NF && $NF != 0 {print; bad = 1} END {exit bad || NR < 4}'
}
planned_is_counted() { # each kernel touches the bytes it was planned to touch, within 1 %
  build/nngen "$@" --quiet --count --json >"$work/j" || return
  tr -d ' ,"' <"$work/j" | awk -F: '$1 == "bytes_read" && !n {r = $2; n = 1; next} $1 == "bytes_written" && n == 1 {w = $2; n = 2}
    $1 == "distinct_bytes" {kernels++; e = ($2 - r - w) / (r + w); if (e > 0.01 || e < -0.01) {print "planned", r + w, "counted", $2; bad = 1}}
    $1 == "name" {n = 0} END {exit bad || !kernels}'
}
for dtype in fp32 fp16; do
  ok "planned bytes are counted bytes, resnet18 $dtype" planned_is_counted models/resnet18.lua --dtype $dtype --set stem=cifar size=16
  ok "planned bytes are counted bytes, unfused lenet $dtype" planned_is_counted models/lenet.lua --dtype $dtype --lowering unfused
done
for dtype in fp32 fp16 tf32; do
  ok "no bank conflicts in lenet, $dtype" no_conflicts models/lenet.lua --dtype $dtype
  ok "no bank conflicts in resnet18, $dtype" no_conflicts models/resnet18.lua --dtype $dtype --set stem=cifar size=16
done
coalesced() { # no kernel but the stem touches over 5 % more sectors than its bytes need
  build/nngen "$@" --quiet --count >"$work/counts" || return
  sed -n '/^counted by/,/^$/p' "$work/counts" | awk 'NR > 1 && NF && $1 !~ /^(conv1|fc|image)/ {n++; split($(NF - 3), x, "x"); if (x[1] > 1.05) {print; bad = 1}}
    END {exit bad || n < 10}'
}
for dtype in fp32 fp16 tf32 bf16; do
  ok "whole sectors in resnet18, $dtype" coalesced models/resnet18.lua --dtype $dtype --set size=64
done
tap_done
