#!/usr/bin/env bash
# Fat binaries of nvcc: PTX plain, compressed as nvcc does and for speed; machine code alone is
# refused.
set -u
nvcc=${CUDA_PATH:-/usr/local/cuda}/bin/nvcc
[ "${DEVICE:-sim}" = sim ] || { echo "1..0 # SKIP only on libcusim"; exit 0; }
[ -x "$nvcc" ] || { echo "1..0 # SKIP nvcc is not installed"; exit 0; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
printf 'extern "C" __global__ void k(int *x) { x[threadIdx.x] = 3 * threadIdx.x; }\n' >"$work/k.cu"
ptx=arch=compute_90,code=compute_90
"$nvcc" -gencode $ptx -fatbin "$work/k.cu" -o "$work/zstd" 2>"$work/log" &&
  "$nvcc" -gencode $ptx -Xfatbin -compress-mode=none -fatbin "$work/k.cu" \
    -o "$work/plain" 2>>"$work/log" &&
  "$nvcc" -gencode $ptx -Xfatbin -compress-mode=speed -fatbin "$work/k.cu" \
    -o "$work/speed" 2>>"$work/log" &&
  "$nvcc" -gencode arch=compute_90,code=sm_90 -fatbin "$work/k.cu" -o "$work/sass" 2>>"$work/log" &&
  printf '__device__ int twice(int x) { return 2 * x; }\n' >"$work/twice.cu" &&
  printf 'extern __device__ int twice(int);\nextern "C" __global__ void k(int *x) {%s}\n' \
    ' x[threadIdx.x] = twice(threadIdx.x) + threadIdx.x; ' >"$work/calls.cu" &&
  for file in twice calls; do
    "$nvcc" -gencode $ptx -dc "$work/$file.cu" -o "$work/$file.o" 2>>"$work/log" || break
  done &&
  "$nvcc" -gencode $ptx -c "$work/k.cu" -o "$work/whole.o" 2>>"$work/log" &&
  ar rc "$work/both.a" "$work/twice.o" "$work/calls.o" 2>>"$work/log" &&
  gcc -c -x c /dev/null -o "$work/none.o" 2>>"$work/log" &&
  "$nvcc" -dlto -arch=lto_90 -fatbin "$work/k.cu" -o "$work/lto" 2>>"$work/log" ||
  { echo "1..1"; echo "not ok 1 - nvcc"; sed 's/^/# /' "$work/log"; exit 1; }
build/tests/sim/test_fatbins "$work"
