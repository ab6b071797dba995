#!/usr/bin/env bash
# run.sh: kernels of others' compilers, run as PTX against references: Triton's, CUTLASS's and ones
# over NVIDIA's device libraries (by nvcc) for sm_80 and sm_90a; and TensorBoard's reader on the
# events of a run of nngen train. As many parts at once as there are processors.
# Wheels go into build/foreign (`run.sh wheels`: only they); what is not available is reported as
# skipped.
set -u
cd "$(dirname "$0")/../.." || exit 4
export work=build/foreign env=build/foreign/env board=build/foreign/board
export nvcc=${CUDA_PATH:-/usr/local/cuda}/bin/nvcc
mkdir -p $work

# wheel FOLDER MODULE WHEEL...: a Python of its own that has the module
wheel() {
  "$1/bin/python" -c "import $2" 2>/dev/null && return
  python3 -m venv "$1" >"$1.log" 2>&1 && timeout 900 "$1/bin/pip" install -q "${@:3}" >>"$1.log" 2>&1
}
wheel $env triton,cutlass_library triton==3.9.0 nvidia-cutlass==4.2.0.0
wheel $board tensorboard tensorboard==2.21.0
[ "${1:-}" = wheels ] && exit
cutlass=$($env/bin/python -c \
  'import cutlass_library, os; print(os.path.dirname(cutlass_library.__file__))' 2>/dev/null)/source
export cutlass

compile() {
  gcc -I. -Iruntime -D_GNU_SOURCE -O1 -Wall -Wextra -o "$work/$1" "tests/foreign/$1.c" \
    -lcmocka -ldl -lm
}

by_triton() {
  $env/bin/python -c 'import triton' 2>/dev/null ||
    { echo "1..0 # SKIP Triton's wheel is not available"; return; }
  mkdir -p $work/triton
  TRITON_DEFAULT_FP_FUSION=1 $env/bin/python tests/foreign/triton_kernels.py $work/triton &&
    compile check_triton && $work/check_triton $work/triton
}

# by_cutlass NAME SOURCE ARCH FLAGS...: the host's side as a library, and the PTX that nvcc keeps
by_cutlass() {
  local at=$work/cutlass/$1 source=$2
  [ -d "$cutlass/include" ] && [ -x "$nvcc" ] ||
    { echo "1..0 # SKIP $1: CUTLASS or nvcc is not available"; return; }
  mkdir -p "$at"
  [ "$at/host.so" -nt tests/foreign/$source.cu ] ||
    "$nvcc" -std=c++17 -I"$cutlass/include" -I"$cutlass/tools/util/include" -w -lineinfo \
      --expt-relaxed-constexpr -Xcompiler -fPIC -gencode arch=compute_$3,code=compute_$3 \
      "${@:4}" --keep --keep-dir "$at" --shared -cudart shared tests/foreign/$source.cu \
      -o "$at/host.so" -Lbuild -lcusim || return
  LD_LIBRARY_PATH=$PWD/build:${CUDA_PATH:-/usr/local/cuda}/lib64 $work/check_cutlass \
    "$at/$source.ptx" "$at/host.so"
}
hopper() { # hopper NAME SCHEDULE EPILOGUE
  by_cutlass "$1" cutlass_gemm 90a -DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1 \
    "-DSCHEDULE=KernelTmaWarpSpecialized$2" "-DEPILOGUE=$3"
}
ampere() { by_cutlass "$1" cutlass_sm80 80 "${@:2}"; }

by_nvcc() { # by_nvcc ARCH
  local ptx=$work/nvcc/kernels_$1.ptx
  [ -x "$nvcc" ] || { echo "1..0 # SKIP nvcc is not available"; return; }
  mkdir -p $work/nvcc
  [ "$ptx" -nt tests/foreign/nvcc_kernels.cu ] ||
    "$nvcc" -std=c++17 -w -lineinfo -ptx -arch=sm_$1 tests/foreign/nvcc_kernels.cu -o "$ptx"
  python3 tests/foreign/check_nvcc.py "$ptx" "${1%a}"
}

events() {
  local run=$work/events
  $board/bin/python -c 'import tensorboard' 2>/dev/null ||
    { echo "1..0 # SKIP TensorBoard's wheel is not available"; return; }
  rm -rf $run
  python3 tests/train/data.py $run/data 84 20 &&
    build/nngen train tests/train/tiny.lua --data $run/data --device sim --quiet --steps 25 \
      --tensorboard --out-dir $run/out >/dev/null &&
    $board/bin/python tests/foreign/read_board.py $run/out
}

part() { # part WORDS: its lines at its end, together
  local said rc
  # shellcheck disable=SC2086 # a function and its arguments
  said=$($1 2>&1); rc=$?
  (flock 9; printf '%s\n' "$said") 9>$work/lock
  [ $rc = 0 ]
}
export -f compile by_triton by_cutlass hopper ampere by_nvcc events part
compile check_cutlass || exit 4
printf '%s\n' "hopper cooperative Cooperative TmaWarpSpecializedCooperative" \
  "hopper pingpong Pingpong TmaWarpSpecialized" by_triton "ampere gemm" "ampere conv -DCONV" \
  "by_nvcc 80" "by_nvcc 90a" events |
  xargs -P "${NNGEN_JOBS:-$(nproc)}" -I{} bash -c 'part "{}"'
