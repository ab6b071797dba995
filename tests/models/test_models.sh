#!/usr/bin/env bash
# Every model and lowering, small, in every dtype: each kernel against the oracle on the inputs it
# read, the outputs against the model as written. `nngen` exits 1 when one is off.
. "$(dirname "$0")/../tap.sh"
run() { build/nngen "$@" --quiet --check; }
for dtype in fp32 tf32 fp16 bf16; do
  for lowering in fused unfused; do
    o="--dtype $dtype --lowering $lowering"
    ok "mlp $dtype $lowering" run models/mlp.lua $o --set batch=3 hidden=40
    ok "lenet $dtype $lowering" run models/lenet.lua $o --set batch=2
    ok "resnet18 at 32x32, $dtype $lowering" run models/resnet18.lua $o --set size=32 batch=2
  done
  ok "every map, $dtype" run tests/models/all_maps.lua --dtype $dtype
  ok "every map, odd length, $dtype" run tests/models/all_maps.lua --dtype $dtype --set size=7
done
ok "resnet18 with the CIFAR stem" run models/resnet18.lua --dtype fp16 --set stem=cifar
ok "resnet34" run models/resnet34.lua --dtype bf16 --set size=64
ok "resnet18 at 224x224, fp32" run models/resnet18.lua
ok "resnet18 at 224x224, fp16, as a graph" run models/resnet18.lua --dtype fp16 --graph --repeat 2
for seed in 1 2 3; do
  ok "lenet fp16 under thread order $seed" env NNGEN_SIM_SEED=$seed build/nngen models/lenet.lua --quiet --dtype fp16
done
no_conflicts() { # libcusim counts the bank conflicts of every kernel: 0 in each
  [ $NNGEN_DEVICE = sim ] || return 0
  build/nngen "$@" --quiet --count >"$work/counts" || return
  sed -n '/^counted by/,/^$/p' "$work/counts" | awk 'NR > 1 && NF && $NF != 0 {print; bad = 1} END {exit bad || NR < 4}'
}
planned_is_counted() { # each kernel touches the bytes it was planned to touch, within 1 %
  [ $NNGEN_DEVICE = sim ] || return 0
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
  [ $NNGEN_DEVICE = sim ] || return 0
  build/nngen "$@" --quiet --count >"$work/counts" || return
  sed -n '/^counted by/,/^$/p' "$work/counts" | awk 'NR > 1 && NF && $1 !~ /^(conv1|fc|image)/ {n++; split($(NF - 3), x, "x"); if (x[1] > 1.05) {print; bad = 1}}
    END {exit bad || n < 10}'
}
for dtype in fp32 fp16 tf32 bf16; do
  ok "whole sectors in resnet18, $dtype" coalesced models/resnet18.lua --dtype $dtype --set size=64
done
same_bits() { # the same seed gives the same bits
  build/nngen models/lenet.lua --quiet --output "$work/a" && build/nngen models/lenet.lua --quiet --output "$work/b" &&
    cmp "$work/a/probabilities.npy" "$work/b/probabilities.npy"
}
ok "the same run twice, the same bits" same_bits
tap_done
