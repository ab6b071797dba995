#!/usr/bin/env bash
# Every kernel of every model compiles for sm_80, sm_90a and sm_100a without spilling a register
# (NVRTC's log says so; no GPU needed).
. "$(dirname "$0")/../tap.sh"
compiles() { # compiles ARCH ARGUMENTS...
  local arch=$1; shift
  build/nngen "$@" --quiet --arch $arch >"$work/log" || { cat "$work/log"; return 1; }
  ! grep 'spill registers' "$work/log" && grep -q "compiled for $arch" "$work/log"
}
for arch in sm_80 sm_90a sm_100a; do
  for model in mlp lenet resnet18 resnet34; do
    for dtype in fp32 tf32 fp16 bf16; do
      [ $model = resnet34 ] && [ $dtype != fp16 ] && continue # the shapes of resnet18
      if build/nngen doctor | grep -q '^NVRTC *not found'; then skip "$model $dtype $arch" "NVRTC is not installed"
      else ok "$model $dtype $arch" compiles $arch models/$model.lua --dtype $dtype; fi
    done
  done
done
for dtype in fp16 tf32; do
  if build/nngen doctor | grep -q '^NVRTC *not found'; then skip "resnet18 batch 32 $dtype" "NVRTC is not installed"
  else ok "resnet18 $dtype sm_90a, batch 32" compiles sm_90a models/resnet18.lua --dtype $dtype --set batch=32; fi
done
tap_done
