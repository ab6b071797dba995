#!/usr/bin/env bash
# Programs around emitted networks: two at once from threads, stored results, kernels launched from
# the list by other host code, a shared library, the C++ of a caller.
. "$(dirname "$0")/../tap.sh"
. tests/emit/emit.sh
without_tools "programs around emitted networks"

emit models/lenet.lua "$work/lenet"
emit models/mlp.lua "$work/mlp" --dtype fp16
tail -c 3136 "$work/lenet/lenet.safetensors" >"$work/image.bin"

two() (
  cd "$work" && cc $strict $sanitized -I"$cuda/include" -Ilenet -Imlp -o two \
    "$root/tests/emit/two.c" lenet/lenet.c mlp/mlp.c $links -lpthread && ./two
)
stored() ( # and a wrong result is reported
  for name in lenet mlp; do
    cd "$work/$name" && make -s CUDA="$cuda" LIBS="$links" CFLAGS="$strict $sanitized" check ||
      return
  done
  cd "$work/lenet" &&
    truncate -s -8 lenet_check.bin && printf '\0\0\0\0\0\0\360\77' >>lenet_check.bin &&
    ! ./lenet_check >said && grep -q fail said
)
example() ( # what others are compared with: probabilities.bin
  compile "cc $strict" "$work/lenet" lenet example.c && cd "$work/lenet" && ./example ../image.bin
)
listed() ( # the kernels alone, launched by host code of the test's own
  local dir=$work/kernels libraries=$links
  [ "$NNGEN_DEVICE" = sim ] || libraries="-lnvrtc -lcuda"
  emit models/lenet.lua "$dir" --kernels-only &&
    [ "$(ls "$dir" | tr '\n' ' ')" = 'README.md lenet.cu lenet.json ' ] || return
  cp "$work/lenet/lenet.safetensors" "$dir" && cd "$dir" &&
    cc -std=c11 -Wall -Wextra -Werror -I"$cuda/include" -o launch "$root/tests/emit/launch.c" \
      $libraries -ljansson &&
    NNGEN_SIM_FRONTEND=nvrtc ./launch lenet ../image.bin &&
    cmp probabilities_launched.bin ../lenet/probabilities.bin
)
by_ctypes() ( # a shared library, called from Python
  cd "$work/lenet" && cc $strict -fPIC -shared -I"$cuda/include" -o liblenet.so lenet.c $links &&
    python3 "$root/tests/emit/by_ctypes.py" ../image.bin probabilities.bin
)
in_cpp() ( # spans, exceptions, handles that close themselves
  cd "$work" && emit() {
    "$root/build/nngen" emit "$root/models/lenet.lua" -o cpp --lang cpp --quiet --no-check \
      --arch "$arch"
  } && emit &&
    cat >cpp/main.cc <<'C' || return
#include "lenet.hpp"
#include <cstdio>
#include <vector>
int main() {
  std::vector<float> image(784), made(10), again(10);
  std::FILE *in = std::fopen("../image.bin", "rb");
  if (!in || std::fread(image.data(), 4, 784, in) != 784) return 1;
  std::fclose(in);
  try {
    lenet_options options = lenet_default_options();
    options.weights_path = "nowhere";
    lenet_cpp::Network broken(options);
    return 2;
  } catch (const lenet_cpp::Error &error) {
    if (error.status != LENET_ERROR_WEIGHTS_FILE) return 3;
  }
  lenet_cpp::Network first, net = std::move(first);
  net.run_host(std::span<const float, 784>(image), std::span<float, 10>(made));
  CUcontext context;
  CUdeviceptr d;
  if (cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuMemAlloc(&d, 4096))
    return 4;
  cuMemcpyHtoD(d, image.data(), 3136);
  cuCtxSynchronize();
  lenet_cpp::Graph graph = net.capture({d}, {d + 3136});
  graph.replay();
  cuMemcpyDtoH(again.data(), d + 3136, 40);
  if (again != made || net.profile({d}, {d + 3136}).size() != LENET_RUN_LAUNCHES) return 5;
  cuMemFree(d);
  std::FILE *out = std::fopen("made.bin", "wb");
  std::fwrite(made.data(), 4, 10, out);
  return std::fclose(out);
}
C
  cd cpp && cc $strict -I"$cuda/include" -c lenet.c &&
    $1 -std=c++20 -pedantic -Wall -Wextra -Werror -I"$cuda/include" -o main main.cc lenet.o \
      $links && ./main && cmp made.bin ../lenet/probabilities.bin
)
cudart="$root/tests/emit/cudart.c $links"
[ "$NNGEN_DEVICE" = sim ] || cudart="-L$cuda/lib64 -Wl,-rpath,$cuda/lib64 -lcudart"
by_runtime() ( # host code over the CUDA runtime API; a state that begins with a constant
  local dir=$work/runtime
  cat >"$work/counter.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {4})
local count = nn.state("count", {4}, {init = 2.5})
nn.update(count, count + x)
nn.output("y", count)
LUA
  emit models/lenet.lua "$dir" --no-check --lang cpp,cuda-runtime &&
    emit "$work/counter.lua" "$dir/counter" --no-check --weights-in-code --lang cuda-runtime &&
    ! grep -nE '\b(cu[A-Z]|CU[a-z_])' "$dir/lenet."[ch]* "$dir/counter/counter."[ch] && cd "$dir" &&
    cc $strict $sanitized -I"$cuda/include" -I. -Icounter -o runtime "$root/tests/emit/runtime.c" \
      lenet.c counter/counter.c $cudart &&
    ./runtime ../image.bin made.bin && cmp made.bin ../lenet/probabilities.bin || return
  echo '#include "lenet.hpp"' | c++ -std=c++20 -pedantic -Wall -Wextra -Werror -fsyntax-only \
    -I"$cuda/include" -I. -x c++ - || return
  [ -e "$cuda/lib64/libcudart.so" ] || return 0
  make -s CUDA="$cuda" && readelf -d example | grep -q libcudart # NVIDIA's has all that is called
)
by_boxes() ( # attention whose rows come by tensor maps, which host code makes, by both APIs
  local dir=$work/boxes set="form=causal B=1 H=2 G=2 N=140 M=200 D=64 W=64" key lang
  key=$(build/nngen tests/models/attend.lua --quiet --no-check --arch sm_90a --dtype bf16 \
    --explain matmul --set $set | sed -n 's/.*in a tuning file: \("[^"]*"\).*/\1/p' | tail -1)
  echo "{\"schema_version\": 1, \"devices\": {\"H200\": {$key: {\"tile\":" \
    "\"128x64 warps 16x0 stages 2 parts 1 wgmma\"}}}}" >"$work/tuning.json"
  for lang in c cuda-runtime; do
    emit tests/models/attend.lua "$dir/$lang" --dtype bf16 --lang $lang \
      --tuning "$work/tuning.json" --set $set &&
      [ $(grep -c CU_TENSOR_MAP_SWIZZLE_128B "$dir/$lang/attend.c") = 3 ] &&
      grep -q '"tensor_maps": \[{"arg": ' "$dir/$lang/attend.json" || return
  done
  cd "$dir/c" && make -s CUDA="$cuda" LIBS="$links" CFLAGS="$strict $sanitized" check &&
    c++ -x c++ -std=c++17 -pedantic -Wall -Wextra -Werror -I"$cuda/include" -c attend.c || return
  cd "$dir/cuda-runtime" && cc $strict $sanitized -I"$cuda/include" -o attend_check \
    attend_check.c attend.c $1 -lm && ./attend_check
)
by_nvcc() ( # the kernels are CUDA C++ that nvcc takes as it is
  cd "$work/lenet" || return
  for arch in sm_80 $(long && echo sm_90a sm_100a); do
    "$cuda/bin/nvcc" -arch=$arch -std=c++17 -Werror all-warnings -cubin -o lenet.cubin lenet.cu ||
      return
  done
)

ok "two networks on four threads" two
ok "stored results: pass, and fail when they are off" stored
ok "the example" example
if echo '#include <jansson.h>' | cc -E - >"$work/out" 2>&1; then
  ok "kernels launched from the list" listed
else skip "kernels launched from the list" "requires jansson.h"; fi
if command -v python3 >/dev/null; then ok "Python calls it by ctypes" by_ctypes
else skip "Python calls it by ctypes" "python3 is not installed"; fi
for compiler in g++ clang++; do
  if command -v $compiler >/dev/null; then ok "C++20 by $compiler" in_cpp $compiler
  else skip "C++20 by $compiler" "$compiler is not installed"; fi
done
long && ok "over the CUDA runtime API" by_runtime
if [ "$arch" = sm_90a ]; then ok "tensor maps" by_boxes "$cudart"
else skip "tensor maps" "the device is not sm_90a"; fi
if [ -x "$cuda/bin/nvcc" ]; then ok "nvcc takes the kernels" by_nvcc
else skip "nvcc takes the kernels" "nvcc is not installed"; fi
tap_done
