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
gpus=(sm_80 sm_90a sm_100a) place=0
one() { # one NAME ARGUMENTS...: for one GPU, by its place in the list; a part of them
  local arch=${gpus[place++ % 3]}
  few 8/5 || return 0
  ok_or_skip "$1 $arch" compiles $arch "${@:2}"
}
each() { # each NAME ARGUMENTS...: the same; in the long run for every GPU, one after each commit
  local arch
  long || { one "$@"; return; }
  for arch in "${gpus[@]}"; do
    few 1/3 each && ok_or_skip "$1 $arch" compiles $arch "${@:2}"
  done
  few 1/3 each # so that the next form has another GPU
}
deep() { long && few 1/5 deep && ok_or_skip "$@"; } # networks of many kernels, a fifth of them
echo 'local nn = require "nn" nn.output("y", nn.input("x", {4}) * 1e-60 + 1e300)' >"$work/far.lua"
ok_or_skip "constants beyond fp32" compiles sm_80 "$work/far.lua"
for arch in "${gpus[@]}"; do
  for model in mlp lenet resnet18 resnet34; do
    for dtype in fp32 tf32 fp16 bf16; do
      [ $model = resnet34 ] && [ $dtype != fp16 ] && continue # the shapes of resnet18
      # bf16 is fp16 under another name. Deep networks share the GPUs: fp16 by mma.sync and by
      # wgmma, tf32 by mma.sync (by wgmma: train, below), and fp32.
      check=ok_or_skip
      case $model$arch$dtype in
        mlp*tf32 | mlp*bf16 | lenet*bf16) continue ;;
        resnet18sm_80fp16 | resnet18sm_90afp32 | resnet*sm_90afp16 | resnet18sm_100atf32)
          check=deep ;;
        resnet*) continue ;;
        *) few 6/2 mlp || continue ;;
      esac
      $check "$model $dtype $arch" compiles $arch models/$model.lua --dtype $dtype
    done
  done
done
deep "resnet18 fp16 sm_90a, batch 32" compiles sm_90a \
  models/resnet18.lua --dtype fp16 --set batch=32
# Filter gradients, which read both operands across k and write a rounded copy of the filter.
deep "resnet18 tf32 train sm_90a" compiles sm_90a models/resnet18.lua --dtype tf32 \
  --entry train --set batch=128 stem=cifar size=32 classes=10 augment=false
for tile in 8 41; do # that tuning may choose
  dtypes=(fp32 fp16 tf32 bf16) dtype=${dtypes[tile % 4]}
  deep "resnet18 $dtype sm_90a, batch 8, candidate $tile" \
    compiles sm_90a models/resnet18.lua --dtype $dtype --set batch=8 --candidate $tile
done
# Operands across k and in pieces, large: the tiles that take the most registers.
long && each "large products tf32" tests/models/contraction.lua --dtype tf32 --set \
  "shapes=matmul 1 2048 2048 2048 0 0; matmul 1 2048 2048 2048 1 0; matmul 1 2048 2048 2048 1 1; \
    matmul 1 4096 4098 4098 0 1; conv 64 65 56 56 250 3 3 1 1 1 1 1 1 1"
each "large products fp16" tests/models/contraction.lua --dtype fp16 --set \
  "shapes=matmul 1 4096 4098 4098 0 1; conv 64 3 224 224 64 7 7 2 2 3 3 1 1 1; \
    conv 64 42 56 56 256 3 3 1 1 1 1 1 1 1; conv 64 44 56 56 256 3 3 1 1 1 1 1 1 1"
each "columns reduced to moments, of groups, fp16" tests/models/fusion.lua --dtype fp16 \
  --set case=channels
# Every form of contraction: turned operands, sums of columns, pieces, windows.
one "random contractions fp16" tests/models/contraction.lua --dtype fp16 \
  --set seed=2 count=$(long && echo 16 || echo 6)
long && {
  one "random contractions fp32" tests/models/contraction.lua --set seed=2 count=16
  one "layers fp16" tests/models/layers.lua --dtype fp16
  one "layers fp32" tests/models/layers.lua
}
each "gated units fp16" tests/models/fusion.lua --dtype fp16 \
  --set case=activations rows=512 width=1024
for depth in 64 128 $(long && echo 16 40 96 256); do # derivatives of attention
  on=one
  [ $depth = 128 ] && on=each
  $on "attention's derivatives, heads of $depth, bf16" tests/models/attention.lua --dtype bf16 \
    --set cases=gradient depth=$depth values=$depth queries=512 keys=512
done
cat >"$work/few_rows.lua" <<'LUA'
local nn = require "nn"
local x, w = nn.input("x", {16, 24}), nn.param("w", {24, 72})
local y = x:matmul(w) * nn.input("r", {16, 1}) * nn.input("a", {72}) + nn.input("b", {72})
nn.output("y", y:gelu("tanh"):to("bf16"))
LUA
ok_or_skip "tiles of few rows, of which much is computed, sm_80" \
  compiles sm_80 "$work/few_rows.lua" --dtype bf16
cat >"$work/scores.lua" <<'LUA'
local nn = require "nn"
local q, k = nn.input("q", {1, 32, 16384, 32}), nn.input("k", {1, 32, 16384, 32})
nn.output("y", q:attention(k, nn.input("v", {1, 32, 16384, 32}), {causal = true}))
LUA
ok_or_skip "attention of more scores than memory has places sm_90a" \
  compiles sm_90a "$work/scores.lua" --dtype fp16
# What needs no tensor cores is the same text for every GPU, but for tiles of scans.
one "reductions" tests/models/reduce_special.lua --set columns=40000
one "reductions of several tensors" tests/models/fusion.lua --dtype bf16 --set case=norms
one "long rows" tests/models/long_rows.lua --set only=softmax columns=32000
scan=tests/models/scan.lua topk=tests/models/topk.lua
one "scans along every axis" $scan --set case=every outer=64 length=4096 inner=64
one "scans of rows in parts" $scan --set case=every outer=1 length=1000000 inner=1
one "scans of integers" $scan --set case=integers outer=8 length=100000 inner=1
scatter=tests/models/scatter.lua
one "rows added up by their ids" $scatter --set n=16384 d=768 size=50257
one "rows added up by sorted ids" $scatter --set n=49152 d=768 size=50257
one "rows added up by sorted ids in parts" $scatter --set case=sorted n=20000 d=7 size=40
one "elements added up by their ids" $scatter --set case=gradient n=300
one "topk along every axis" $topk --set case=every outer=64 length=4096 inner=64 k=64
one "topk of rows in parts" $topk --set outer=1 length=1000000 inner=1 k=64
one "sorts along every axis" tests/models/sort.lua --set case=every outer=64 length=4096 inner=64
one "sort of a million" tests/models/sort.lua --set outer=1 length=1000000 inner=1
one "topk of integers" $topk --set case=integers outer=8 length=100000 inner=1 k=64
for columns in 8191 16384 20001 $(long && echo 12000 24576 30000 32767) 32768; do
  one "rows of $columns" tests/models/wide_rows.lua --set columns=$columns
done
for shape in "channels=2048 height=8 width=8" "channels=300 height=7 width=7"; do
  one "rows across memory, $shape" tests/models/across.lua --set $shape
done
tap_done
