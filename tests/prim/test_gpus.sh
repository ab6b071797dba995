#!/usr/bin/env bash
# The primitives' bodies for GPUs compile: each test of them runs on libcusim as each GPU, and NVRTC
# takes its kernels, too (no GPU needed). The short run has those of fragments alone.
. "$(dirname "$0")/../tap.sh"
nvrtc=$(build/nngen doctor | sed -n 's/^NVRTC *\([^,]*\), version.*/\1/p')
for arch in sm_90a $(long && echo sm_80 sm_100a); do
  for test in matrix $(long && echo threads scalar); do
    if [ "$NNGEN_DEVICE" = cuda ]; then
      skip "$test $arch" "the tests themselves run on a GPU"; continue
    fi
    if [ -z "$nvrtc" ]; then skip "$test $arch" "NVRTC is not installed"; continue; fi
    few 1/3 && ok "$test $arch" env NNGEN_TEST_NVRTC="$nvrtc" NNGEN_SIM_DEVICE=$arch DEVICE=sim \
      build/tests/prim/test_$test
  done
done
tap_done
