#!/usr/bin/env bash
# Logits against PyTorch: a torchvision state dict, written as safetensors, loads unchanged.
. "$(dirname "$0")/../tap.sh"
python_with torch torchvision numpy
against() { # against ARCH DTYPE GATE STEM OPTIONS...
  local arch=$1 dtype=$2 gate=$3 stem=$4; shift 4
  [ -f "$work/$arch$stem/y.npy" ] || { mkdir -p "$work/$arch$stem" &&
    $python tests/models/torch_reference.py $arch "$work/$arch$stem" $stem || return; }
  build/nngen models/$arch.lua --quiet --no-check --dtype $dtype \
    --weights "$work/$arch$stem/$arch.safetensors" --input "$work/$arch$stem/x.npy" \
    --output "$work/out_$arch$dtype" "$@" &&
    $python tests/models/compare_npy.py "$work/$arch$stem/y.npy" \
      "$work/out_$arch$dtype/logits.npy" $gate
}
one() { # one NAME ARGUMENTS...
  if [ -z "$python" ]; then skip "$1" "python3-torch and python3-torchvision are not installed"
  else local name=$1; shift; ok "$name" against "$@"; fi
}
long && few 1/2 && one "resnet18 fp32" resnet18 fp32 1e-5 imagenet
long && few 1/2 && one "resnet18 fp16" resnet18 fp16 2e-3 imagenet
long && few 1/2 && one "resnet18 CIFAR stem, batch 2" resnet18 fp32 1e-5 cifar --set stem=cifar \
  batch=2
long && few 1/2 && one "resnet34 fp32" resnet34 fp32 1e-5 imagenet
layers() { # layers DTYPE GATE: every output of layers.lua
  [ -f "$work/layers/x.npy" ] || { mkdir -p "$work/layers" &&
    $python tests/models/torch_layers.py "$work/layers" || return; }
  build/nngen tests/models/layers.lua --quiet --check --dtype $1 \
    --weights "$work/layers/layers.safetensors" \
    --input "$work/layers/x.npy" --output "$work/out_layers$1" &&
    $python tests/models/compare_npy.py "$work/layers" "$work/out_layers$1" $2
}
each() { # each NAME DTYPE GATE
  if [ -z "$python" ]; then
    skip "$1" "python3-torch and python3-torchvision are not installed"
  else
    ok "$1" layers $2 $3
  fi
}
each "every form of convolution, fp32" fp32 1e-5
long && each "every form of convolution, fp16" fp16 2e-3
tap_done
