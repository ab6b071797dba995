#!/usr/bin/env bash
# Every kernel of every model compiles for sm_80, sm_90a and sm_100a without spilling a register or
# serializing wgmma (NVRTC's log says so; no GPU needed).
. "$(dirname "$0")/../tap.sh"
compiles() { # compiles ARCH ARGUMENTS...
  local arch=$1; shift
  build/nngen "$@" --quiet --arch $arch >"$work/log" || { cat "$work/log"; return 1; }
  ! grep -E 'spill registers|serialized' "$work/log" && grep -q "compiled for $arch" "$work/log"
}
build/nngen doctor | grep -q '^NVRTC *not found' && missing=1 || missing=0
ok_or_skip() { if [ $missing = 1 ]; then skip "$1" "NVRTC is not installed"; else ok "$@"; fi; }
for arch in sm_80 sm_90a sm_100a; do
  for model in mlp lenet resnet18 resnet34; do
    for dtype in fp32 tf32 fp16 bf16; do
      [ $model = resnet34 ] && [ $dtype != fp16 ] && continue # the shapes of resnet18
      # bf16 is fp16 under another name, and each GPU has a few of its own tiles.
      case $model$arch$dtype in
        resnet18sm_80tf32 | resnet18sm_90afp16 | resnet18sm_100afp32) ;;
        resnet*) long || continue ;;
      esac
      ok_or_skip "$model $dtype $arch" compiles $arch models/$model.lua --dtype $dtype
    done
  done
done
for dtype in $(long && echo fp16 tf32); do
  ok_or_skip "resnet18 $dtype sm_90a, batch 32" compiles sm_90a models/resnet18.lua --dtype $dtype \
    --set batch=32
done
for place in 5 $(long && echo 2 3 8 12 20 40); do # tiles that tuning may choose
  dtypes=(fp32 fp16 tf32 bf16) dtype=${dtypes[place % 4]}
  ok_or_skip "resnet18 $dtype sm_90a, batch 8, candidate $place" \
    compiles sm_90a models/resnet18.lua --dtype $dtype --set batch=8 --candidate $place
done
# Operands across k and in pieces, large: the tiles that take the most registers.
for arch in sm_80 sm_90a sm_100a; do
  ok_or_skip "large products tf32 $arch" compiles $arch tests/models/contraction.lua \
    --dtype tf32 --set \
    "shapes=matmul 1 2048 2048 2048 0 0; matmul 1 2048 2048 2048 1 0; matmul 1 2048 2048 2048 1 1; \
      matmul 1 4096 4098 4098 0 1; conv 64 65 56 56 250 3 3 1 1 1 1 1 1 1"
  ok_or_skip "large products fp16 $arch" compiles $arch tests/models/contraction.lua \
    --dtype fp16 --set \
    "shapes=matmul 1 4096 4098 4098 0 1; conv 64 3 224 224 64 7 7 2 2 3 3 1 1 1; \
      conv 64 42 56 56 256 3 3 1 1 1 1 1 1 1; conv 64 44 56 56 256 3 3 1 1 1 1 1 1 1"
done
# Every form of contraction: turned operands, sums of columns, pieces, windows.
for dtype in fp16 $(long && echo fp32); do
  ok_or_skip "random contractions $dtype sm_80" compiles sm_80 tests/models/contraction.lua \
    --dtype $dtype --set seed=2 count=24
  ok_or_skip "layers $dtype sm_100a" compiles sm_100a tests/models/layers.lua --dtype $dtype
done
for arch in sm_80 sm_90a sm_100a; do
  ok_or_skip "gated units fp16 $arch" compiles $arch tests/models/fusion.lua --dtype fp16 \
    --set case=activations rows=512 width=1024
done
for arch in sm_80 sm_90a sm_100a; do # derivatives of attention
  for depth in 64 128 $(long && echo 16 40 96 256); do
    ok_or_skip "attention's derivatives, heads of $depth, bf16 $arch" \
      compiles $arch tests/models/attention.lua --dtype bf16 \
      --set cases=gradient depth=$depth values=$depth queries=512 keys=512
  done
done
ok_or_skip "reductions sm_90a" compiles sm_90a tests/models/reduce_special.lua --set columns=40000
ok_or_skip "reductions of several tensors sm_80" \
  compiles sm_80 tests/models/fusion.lua --dtype bf16 --set case=norms
ok_or_skip "long rows sm_90a" compiles sm_90a tests/models/long_rows.lua \
  --set only=softmax columns=32000
for arch in sm_80 sm_90a sm_100a; do
  scan=tests/models/scan.lua
  ok_or_skip "scans along every axis $arch" compiles $arch $scan --set case=every outer=64 \
    length=4096 inner=64
  ok_or_skip "scans of rows in parts $arch" \
    compiles $arch $scan --set case=every outer=1 length=1000000 inner=1
  ok_or_skip "scans of integers $arch" compiles $arch $scan --set case=integers outer=8 \
    length=100000 inner=1
  topk=tests/models/topk.lua
  ok_or_skip "topk along every axis $arch" compiles $arch $topk --set case=every outer=64 \
    length=4096 inner=64 k=64
  ok_or_skip "topk of rows in parts $arch" \
    compiles $arch $topk --set outer=1 length=1000000 inner=1 k=64
  ok_or_skip "topk of integers $arch" compiles $arch $topk --set case=integers outer=8 \
    length=100000 inner=1 k=64
  for columns in 8191 16384 20001 $(long && echo 12000 24576 30000 32767) 32768; do
    ok_or_skip "rows of $columns $arch" compiles $arch tests/models/wide_rows.lua \
      --set columns=$columns
  done
  for shape in "channels=2048 height=8 width=8" "channels=300 height=7 width=7"; do
    ok_or_skip "rows across memory, $shape $arch" \
      compiles $arch tests/models/across.lua --set $shape
  done
done
tap_done
