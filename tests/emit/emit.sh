# emit.sh: what the tests of `nngen emit` share; source it behind tap.sh. Emitted programs are built
# against libcusim, or, on a GPU, against libcuda.
cuda=${CUDA_PATH:-/usr/local/cuda}
root=$PWD
# libcusim compiles by way of cxx_cached.sh, as in its own tests.
export cxx=${cxx:-$root/build/tests/cxx}
mkdir -p "$cxx/bin"
for name in c++ g++; do ln -sf "$root/tests/cxx_cached.sh" "$cxx/bin/$name"; done
export NNGEN_CXX=$cxx/bin/c++
if [ "$NNGEN_DEVICE" = sim ]; then
  links="-L$root/build -lcusim -Wl,-rpath,$root/build" \
    run_options="--device sim --sim-frontend nvrtc"
else
  links=-lcuda run_options="--device cuda"
fi
# The driver of a GPU keeps memory of its own, and maps where the sanitizer has its shadow.
export ASAN_OPTIONS=protect_shadow_gap=0
[ "$NNGEN_DEVICE" = sim ] || ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
strict="-std=c11 -pedantic -Wall -Wextra -Werror"
sanitized="-O0 -g -fsanitize=address,undefined -fno-sanitize-recover"
arch=${NNGEN_SIM_DEVICE:-sm_90a}
if [ "$NNGEN_DEVICE" != sim ]; then
  arch=$(build/nngen doctor | sed -n 's/^device .*\(sm_[0-9a]*\).*/\1/p')
fi
has_tools() { # what an emitted program is built with
  [ -e "$cuda/include/cuda.h" ] && command -v cc >/dev/null &&
    build/nngen doctor | grep -q '^NVRTC .*version'
}
without_tools() { # ends the script, all skipped, when they are not there
  has_tools && return
  skip "$1" "requires cc, cuda.h and NVRTC"
  tap_done
  exit
}
emit() { # emit MODEL DIR OPTIONS...
  local model=$1 dir=$2; shift 2
  build/nngen emit "$model" -o "$dir" --quiet --arch "$arch" "$@"
}
# compile COMPILER_AND_FLAGS DIR NAME PROGRAM.c: DIR/PROGRAM of PROGRAM.c and NAME.c
compile() (
  local on=
  [ "$NNGEN_DEVICE" = sim ] && on=-DON_LIBCUSIM
  cd "$2" && $1 $on -I"$cuda/include" -I. -o "$(basename "$4" .c)" "$4" "$3.c" $links -lpthread
)
npy() { # npy RAW DESCR SHAPE: an .npy of bare elements, on stdout
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' \
    "{'descr': '$2', 'fortran_order': False, 'shape': ($3), }"
  cat "$1"
}
same_elements() { # same_elements FILE.npy FILE.bin: the bare elements of the first are the second
  tail -c "$(stat -c %s "$2")" "$1" | cmp - "$2"
}
