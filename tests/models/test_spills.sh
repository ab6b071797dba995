#!/usr/bin/env bash
# Kernels of attention and of its derivatives spill no registers, under the options that take the
# most of them (options.lua), nor do products of few blocks of k, or with rows and columns that are
# no whole tiles. NVRTC's assembler says so, no GPU needed.
. "$(dirname "$0")/../tap.sh"
all="causal=true window=256 alibi=true softcap=30 dropout=0.1 norms=true turn=true"
fits() { # fits MODEL ARCH DTYPE SETTINGS...: it compiles, and no kernel spills
  build/nngen $1 --quiet --arch $2 --dtype $3 --json --set "${@:4}" >"$work/json" || return
  ! grep '"spill_bytes": [1-9]' "$work/json" && grep -q '"spill_bytes": 0' "$work/json"
}
build/nngen doctor | grep -q '^NVRTC .*version' && missing=0 || missing=1
one() { # one ARCH DTYPE SETTINGS...
  if [ $missing = 1 ]; then skip "$*" "NVRTC is not installed"; else
    ok "$*" fits tests/models/options.lua "$@"
  fi
}
one sm_80 fp16 bias=true D=64 N=2048
one sm_100a fp16 dropout=0.1 D=64 N=2048
one sm_90a fp16 spans=4 D=16 N=2048
if long; then
  few 1/3 && one sm_100a fp16 lengths=true documents=true D=128 N=2048
  few 1/3 && one sm_100a fp16 lengths=true documents=true D=96 N=2048
  few 1/3 && one sm_90a fp16 $all D=112 N=2048
  few 1/3 && one sm_100a fp16 dropout=0.1 D=112 N=2048
  few 1/3 && one sm_100a bf16 dropout=0.1 D=64
  few 1/3 && one sm_100a bf16 $all table=true D=64
  i=0 # with heads of 256 and dropout, weights spill on sm_90a: no tile takes fewer registers
  for size in 16 32 40 64 72 80 96 104 112 128 160 192 256; do
    for form in "$all" "$all table=true" "$all bias=true" bias=true "causal=true dropout=0.1" \
      "lengths=true documents=true"; do
      archs=(sm_80 sm_90a sm_100a) arch=${archs[i++ % 3]}
      [[ $size = 256 && $form == *dropout* && $arch = sm_90a ]] && continue
      few 1/12 $arch && one $arch fp16 $form D=$size N=2048
    done
  done
fi
product() { fits tests/bench/gemm.lua "$@"; }
[ $missing = 1 ] ||
  ok "sm_80 fp16, a product of four blocks of k" product sm_80 fp16 m=4096 n=2496 k=256
if long && [ $missing = 0 ]; then
  few 1/2 products && ok "sm_80 tf32, a product of rows that are no whole tiles" product sm_80 \
    tf32 m=4000 n=2560 k=256
  few 1/2 products && ok "sm_80 fp16, columns that are none" product sm_80 fp16 m=4000 n=1000 k=256
  few 1/3 && ok "a step of the block with dropout" fits "models/block.lua --entry train" sm_80 \
    bf16 tokens=512 dropout=0.1
fi
tap_done
