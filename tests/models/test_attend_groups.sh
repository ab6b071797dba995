#!/usr/bin/env bash
# Attention whose products warp groups compute (lib/attend_wgmma.cuh), in every layout of rows and
# every cut, under thread orders and all checks of libcusim.
. "$(dirname "$0")/../tap.sh"
. tests/models/attend_groups.sh

try() { few 4/3 && ok "$@"; } # in the short run one of four, in the long run one of three
shape="B=1 H=2 G=1"
try "rows of 64 bytes, parts of the keys at the same time" \
  attends 128x128 fp16 $shape form=causal N=150 M=300 D=32 W=32
try "rows of 128 bytes" attends 64x64 bf16 $shape form=window N=70 M=130 D=64 W=64
try "rows of 160 bytes, in panels of 32" attends 64x128 fp16 $shape form=plain N=65 M=200 D=80 W=80
try "rows of 192 bytes, in panels of 64; queries are read by products" \
  attends 128x128 bf16 $shape form=causal N=130 M=200 D=96 W=96
try "rows of 256 bytes, in panels of 128" \
  attends 128x128 fp16 $shape form=window N=140 M=150 D=128 W=128
try "rows of 512 bytes" attends 64x64 fp16 $shape form=plain N=64 M=70 D=256 W=256
try "values of another size, three groups" \
  attends 192x64 fp16 $shape form=causal N=200 M=90 D=40 W=128
try "some warps load, tiles are masked by ids" \
  attends 128x64 fp16 $shape form=documents N=140 M=150 D=128 W=128
try "some warps load, scores far from 0" \
  attends 128x128 fp16 $shape form=far N=140 M=390 D=64 W=64
try "some warps load, rows without a key" \
  attends 128x64 bf16 $shape form=lengths N=140 M=200 D=64 W=64
try "some warps load, two groups compute, several tiles" \
  attends 128x128 bf16 $shape form=window N=140 M=600 D=64 W=64
try "some warps load, more tiles of queries than blocks" \
  attends 128x64 bf16 B=34 H=2 G=2 form=window N=130 M=200 D=64 W=64
heads() { cut 1 $1 heads bf16 "${@:2}"; }
try "some warps load, the others normalise queries" \
  heads 128x64 form=rms turn=halves N=150 H=4 G=2 D=64 width=128
try "some warps load, the others copy queries of two heads; whole warps have no row" \
  heads 192x64 form=none turn=none N=160 H=4 G=2 D=64 width=128
try "some warps load, of a tile of queries from one of several heads on" \
  heads 128x128 form=none turn=none N=256 H=4 G=2 D=128 width=128
parts=2 try "parts of the keys, three groups" \
  attends 192x128 fp16 $shape form=causal N=200 M=700 D=64 W=64
try "heads of a multiple of 16" attends 64x64 bf16 $shape form=softcap N=50 M=70 D=48 W=32
parts=2 try "parts of the keys are joined" \
  attends 64x64 bf16 $shape form=causal N=70 M=500 D=64 W=80
try "scores far from 0" attends 64x128 fp16 $shape form=far N=70 M=260 D=64 W=32
try "rows without a key" attends 64x64 fp16 $shape form=lengths N=40 M=130 D=32 W=32
try "some warps load, sums of some of the powers" \
  attends 128x64 bf16 $shape form=counted N=140 M=200 D=64 W=64
try "sums of some of the powers" attends 128x64 bf16 $shape form=counted N=129 M=129 D=32 W=64
try "dropout" attends 128x64 bf16 $shape form=dropout N=129 M=129 D=64 W=64
try "no key past the last one is asked for, where it ends with a part of a tile" \
  attends 64x128 fp16 form=documents B=2 H=4 G=2 N=65 M=64 D=16 W=16
try "derivatives of a projection of all, 32 rows in panels" \
  weighs 4 128x64 fp16 case=lse N=130 M=70 D=80 W=96
try "derivatives of keys that several heads share, 128 keys" \
  weighs 4 64x128 bf16 case=grouped N=70 M=200
long && ok "derivatives of masked keys, rows of 256 bytes" \
  weighs 4 64x64 bf16 case=lengths N=70 M=80 D=128 W=128
try "derivatives" weighs 4 64x64 fp16 case=plain
fits() { # fits FORM D: a kernel for sm_90a whose registers suffice
  build/nngen run tests/models/attend.lua --quiet --arch sm_90a --dtype bf16 --json \
    --set form=$1 B=8 H=32 G=8 N=2048 M=2048 D=$2 W=$2 stored=bf16 >"$work/log" &&
    grep '"template": "attend"' "$work/log" >"$work/kernel" &&
    ! grep -h '"spill_bytes": [1-9]' "$work/log"
}
if build/nngen doctor | grep -q '^NVRTC .*version'; then
  for of in "documents 64" "blocks 128" "added 96" "prefix 40" "bias 64" "keep 64" "far 64" \
    "dropped 96" "causal 64" "added 128" "steep 128"; do
    few 11/3 spills && ok "no registers are spilled: $of" fits $of
  done
else skip "no registers are spilled" "NVRTC is not installed"; fi
if [ -x "$(command -v cuobjdump)" ] && [ "$NNGEN_DEVICE" = sim ]; then
  for form in plain $(long && echo causal window); do
    ok "queries stay in registers, $form" keeps 64x64 attend bf16 form=$form D=64 W=64 N=300 M=300
  done
  long && ok "queries and weights stay in registers from tile to tile" \
    keeps 128x128 attend bf16 form=causal D=128 W=128 N=300 M=300
  long && ok "loops of derivatives overwrite nothing that they read again" \
    keeps 64x64 attend_backward bf16 case=plain D=64 W=64
else skip "queries stay in registers" "cuobjdump is missing, or the kernels run on a GPU"; fi
tap_done
