#!/usr/bin/env bash
# The fat binary of nngen emit is, byte for byte, what NVIDIA's tool `fatbinary` makes of the same
# images.
. "$(dirname "$0")/../tap.sh"
cuda=${CUDA_PATH:-/usr/local/cuda}/bin
if [ ! -x "$cuda/nvcc" ] || [ ! -x "$cuda/fatbinary" ]; then
  skip "fat binaries" "requires nvcc and fatbinary"
  tap_done
  exit
fi
printf 'extern "C" __global__ void k(int *x) { x[threadIdx.x] = 3 * threadIdx.x; }\n' >"$work/k.cu"
for arch in sm_80 sm_90a sm_100a; do
  "$cuda/nvcc" -arch=$arch -cubin "$work/k.cu" -o "$work/$arch.cubin" || exit
done
same() { # ARCH...
  local ours=() theirs=() arch
  for arch; do
    ours+=("$arch=$work/$arch.cubin") \
      theirs+=("--image3=kind=elf,sm=${arch#sm_},file=$work/$arch.cubin")
  done
  build/tests/emit/test_image "$work/ours" "${ours[@]}" &&
    "$cuda/fatbinary" --create="$work/theirs" -64 --compress=false "${theirs[@]}" &&
    cmp "$work/ours" "$work/theirs"
}
ok "machine code for one GPU" same sm_80
ok "for three" same sm_80 sm_90a sm_100a
tap_done
