#!/usr/bin/env bash
# What libcusim counts in the kernels of the models: the planned bytes, no bank conflicts, whole
# sectors.
. "$(dirname "$0")/../tap.sh"
[ $NNGEN_DEVICE = sim ] || { skip "counters" "only libcusim counts"; tap_done; exit; }
export NNGEN_SIM_OPTIMIZE=${NNGEN_SIM_OPTIMIZE:+g} # counted, kernels run longer than they compile
# Runs a model, counted, and gives one line for each kernel: name, bytes planned, bytes counted,
# bank conflicts, sectors, sectors at best. Each model runs once.
counts() { # counts ARGUMENTS...
  local kept="$work/${*//[^a-z0-9]/_}"
  [ -s "$kept" ] || build/nngen "$@" --quiet --count --json >"$work/j" || return
  [ -s "$kept" ] || tr -d ' ,"' <"$work/j" | awk -F: '$1 == "kernels" {on = 1} !on {next}
    $1 == "name" {name = $2} $1 == "bytes_read" && !counted {planned = $2}
    $1 == "bytes_written" && !counted {planned += $2}
    $1 == "counted" {counted = 1} $1 == "distinct_bytes" {bytes = $2}
    $1 == "bank_conflicts" {conflicts = $2}
    $1 == "sectors" {sectors = $2} $1 == "ideal_sectors" {ideal = $2}
    $1 == "divergent_branches" {print name, planned, bytes, conflicts, sectors, ideal; counted = 0}
    ' >"$kept"
  cat "$kept"
}
each() { # each CONDITION ARGUMENTS...: it holds of every kernel, and there are kernels
  local condition=$1; shift
  counts "$@" >"$work/counts" || return
  awk '!('"$condition"') {print; bad = 1} END {exit bad || !NR}' "$work/counts"
}
# planned: within 1 %. whole: the stem apart, at most 5 % more sectors than the bytes need; NVRTC
# parts some warps at the edges of tiles, whose lanes load the same sectors one after the other.
[ "${NNGEN_SIM_FRONTEND:-}" = nvrtc ] && more=1.2 || more=1.05
planned='$3 <= 1.01 * $2 && $3 >= 0.99 * $2' clean='$4 == 0' \
  whole='$1 ~ /__(conv1|fc|image)/ || $5 <= '"$more * \$6"
for dtype in $(long && echo fp16 fp32); do
  ok "planned bytes are counted bytes, unfused lenet $dtype" each "$planned" models/lenet.lua \
    --dtype $dtype --lowering unfused
done
for dtype in fp32 $(long && echo fp16 tf32); do
  ok "no bank conflicts in lenet, $dtype" each "$clean" models/lenet.lua --dtype $dtype
done
for dtype in $(long && echo fp16 tf32); do # bf16 is fp16 under another name, fp32 as wide as tf32
  few 1/2 network || continue
  network="models/resnet18.lua --dtype $dtype --set size=32"
  ok "planned bytes are counted bytes, resnet18 $dtype" each "$planned" $network
  ok "no bank conflicts in resnet18, $dtype" each "$clean" $network
  ok "whole sectors in resnet18, $dtype" each "$whole" $network
done
long && shapes=(case=maps "case=every length=500") || shapes=()
for shape in "${shapes[@]}" "outer=2 inner=1 length=40000"; do
  ok "planned bytes are counted bytes, scans, $shape" \
    each "$planned" tests/models/scan.lua --set $shape
done
long && shapes=(case=maps "case=every length=500 k=64") || shapes=()
for shape in "${shapes[@]}" "outer=2 inner=1 length=40000"; do
  ok "planned bytes are counted bytes, topk, $shape" \
    each "$planned" tests/models/topk.lua --set $shape
done
for shape in "case=maps outer=40 length=300" "outer=1 inner=1 length=5000"; do
  ok "planned bytes are counted bytes, sorting, $shape" \
    each "$planned" tests/models/sort.lua --set $shape
done
for case in rows maps sorted; do
  ok "planned bytes are counted bytes, rows added by their ids, $case" \
    each "$planned" tests/models/scatter.lua --set case=$case n=5000 d=33
done
for case in images channels; do
  ok "planned bytes are counted bytes, columns reduced for each image, $case" \
    each "$planned" tests/models/fusion.lua --set case=$case
done
long && cat >"$work/tiles.json" <<END
{"schema_version": 1, "devices": {"libcusim sm_90a": {
  "bf16 conv 152x8x15x15 by 24x8x3x3 stride 1x1 pad 1,1,1,1":
    {"tile": "256x64 warps 32x64 stages 4 parts 1"}}}}
END
long && ok "planned bytes are counted bytes, sums of columns of several tiles" \
  each "$planned && $clean" tests/models/kept.lua --dtype bf16 --tuning "$work/tiles.json" \
  --set images=152 channels=8 out=24
for case in activations residual; do
  long && ok "planned bytes are counted bytes, $case" \
    each "$planned" tests/models/fusion.lua --dtype fp16 --set case=$case
done
ok "planned bytes are counted bytes, a row of a cache" \
  each "$planned" tests/models/states.lua --set case=cache
for case in softmax norm; do
  few 2 && ok "planned bytes are counted bytes, rows across memory, $case" \
    each "$planned" tests/models/across.lua --set case=$case
done
for dtype in $(long && echo fp32 bf16); do
  few 1/2 block || continue
  tokens=192
  [ $dtype = fp32 ] && tokens=96 # on no tensor cores
  block="models/block.lua --entry train --dtype $dtype \
    --set tokens=$tokens width=96 heads=3"
  ok "planned bytes are counted bytes, attention's derivatives $dtype" \
    each "\$1 !~ /attention/ || $planned" $block
  ok "no bank conflicts in attention's derivatives, $dtype" \
    each "\$1 !~ /attention/ || $clean" $block
done
tap_done
