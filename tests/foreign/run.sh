#!/usr/bin/env bash
# run.sh: kernels of others' compilers, run as PTX against references: Triton's, CUTLASS's and ones
# over NVIDIA's device libraries (by nvcc) for sm_80 and sm_90a; and TensorBoard's reader on the
# events of a run of nngen train.
# Wheels go into build/foreign; what is out of reach is reported as skipped.
set -u
cd "$(dirname "$0")/../.." || exit 4
work=build/foreign env=build/foreign/env failed=0
mkdir -p $work/triton $work/cutlass
compile() {
  gcc -I. -Iruntime -D_GNU_SOURCE -O1 -Wall -Wextra -o "$work/$1" "tests/foreign/$1.c" \
    -lcmocka -ldl -lm
}

if ! $env/bin/python -c 'import triton, cutlass_library' 2>/dev/null; then
  python3 -m venv $env >$work/pip.log 2>&1 &&
    timeout 900 $env/bin/pip install -q triton==3.9.0 nvidia-cutlass==4.2.0.0 >>$work/pip.log 2>&1
fi

if $env/bin/python -c 'import triton' 2>/dev/null; then
  TRITON_DEFAULT_FP_FUSION=1 $env/bin/python tests/foreign/triton_kernels.py $work/triton &&
    compile check_triton && $work/check_triton $work/triton || failed=1
else
  echo "1..0 # SKIP Triton's wheel is out of reach"
fi

cutlass=$($env/bin/python -c \
  'import cutlass_library, os; print(os.path.dirname(cutlass_library.__file__))' 2>/dev/null)/source
nvcc=${CUDA_PATH:-/usr/local/cuda}/bin/nvcc
if [ -d "$cutlass/include" ] && [ -x "$nvcc" ]; then
  echo "1..4"
  compile check_cutlass || exit 4
  for pair in Cooperative:TmaWarpSpecializedCooperative Pingpong:TmaWarpSpecialized; do
    stem=$work/cutlass/gemm_${pair%%:*}
    flags=(-std=c++17 -I"$cutlass/include" -I"$cutlass/tools/util/include" --expt-relaxed-constexpr
           -DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1
           "-DSCHEDULE=KernelTmaWarpSpecialized${pair%%:*}"
           "-DEPILOGUE=${pair##*:}" -w)
    [ -f "$stem.ptx" ] || "$nvcc" "${flags[@]}" -arch=sm_90a -DDEVICE_ONLY -lineinfo \
      -ptx tests/foreign/cutlass_gemm.cu -o "$stem.ptx"
    [ -f "$stem.so" ] || "$nvcc" "${flags[@]}" -Xcompiler -fPIC -arch=compute_90a \
      --shared -cudart shared \
      tests/foreign/cutlass_gemm.cu -o "$stem.so" -Lbuild -lcusim
    LD_LIBRARY_PATH=$PWD/build:${CUDA_PATH:-/usr/local/cuda}/lib64 $work/check_cutlass "$stem.ptx" \
      "$stem.so" || failed=1
  done
  for kind in gemm conv; do
    stem=$work/cutlass/sm80_$kind
    flags=(-std=c++17 -I"$cutlass/include" --expt-relaxed-constexpr -w)
    [ $kind = conv ] && flags+=(-DCONV)
    [ -f "$stem.ptx" ] || "$nvcc" "${flags[@]}" -arch=sm_80 -DDEVICE_ONLY -lineinfo \
      -ptx tests/foreign/cutlass_sm80.cu -o "$stem.ptx"
    [ -f "$stem.so" ] || "$nvcc" "${flags[@]}" -Xcompiler -fPIC -arch=compute_80 \
      --shared -cudart shared \
      tests/foreign/cutlass_sm80.cu -o "$stem.so" -Lbuild -lcusim
    LD_LIBRARY_PATH=$PWD/build:${CUDA_PATH:-/usr/local/cuda}/lib64 $work/check_cutlass "$stem.ptx" \
      "$stem.so" || failed=1
  done
else
  echo "1..0 # SKIP CUTLASS or nvcc is out of reach"
fi

if [ -x "$nvcc" ]; then
  mkdir -p $work/nvcc
  for arch in 80 90a; do
    ptx=$work/nvcc/kernels_$arch.ptx
    [ "$ptx" -nt tests/foreign/nvcc_kernels.cu ] ||
      "$nvcc" -std=c++17 -w -lineinfo -ptx -arch=sm_$arch tests/foreign/nvcc_kernels.cu -o "$ptx"
    python3 tests/foreign/check_nvcc.py "$ptx" "${arch%a}" || failed=1
  done
else
  echo "1..0 # SKIP nvcc is out of reach"
fi
board=build/foreign/board
if ! $board/bin/python -c 'import tensorboard' 2>/dev/null; then
  python3 -m venv $board >$work/board.log 2>&1 &&
    timeout 900 $board/bin/pip install -q tensorboard==2.21.0 >>$work/board.log 2>&1
fi
if $board/bin/python -c 'import tensorboard' 2>/dev/null; then
  run=$work/events
  rm -rf $run
  python3 tests/train/data.py $run/data 84 20 &&
    build/nngen train tests/train/tiny.lua --data $run/data --device sim --quiet --steps 25 \
      --tensorboard --out-dir $run/out >/dev/null &&
    $board/bin/python tests/foreign/read_board.py $run/out || failed=1
else
  echo "1..0 # SKIP TensorBoard's wheel is out of reach"
fi
exit $failed
