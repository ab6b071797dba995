#!/usr/bin/env bash
# The programs of gen/emit/NETWORKS.md, as they are written there.
. "$(dirname "$0")/../tap.sh"
. tests/emit/emit.sh
without_tools "the README's programs"
readme=gen/emit/NETWORKS.md
block() { # block NAME >FILE: the code block of the README that names it in its first line
  awk -v name="$1" '/^```/ { in_block = !in_block; first = 1; wanted = 0; next }
    in_block && first { wanted = index($0, name); first = 0 }
    in_block && wanted' $readme
}
emit models/lenet.lua "$work/lenet"
dir=$work/lenet

library() ( cd "$dir" && cc $strict -fPIC -shared -I"$cuda/include" -o liblenet.so lenet.c $links; )
by_ctypes() {
  block by_ctypes.py >"$dir/by_ctypes.py" && library &&
    (cd "$dir" && python3 by_ctypes.py | grep -q '^\[0\.')
}
by_torch() {
  block by_torch.py >"$dir/by_torch.py" && library &&
    (cd "$dir" && $python by_torch.py | grep -q '^\[\[0\.')
}
by_cmake() (
  local options=
  [ "$NNGEN_DEVICE" = sim ] &&
    options="-DCUDA_DRIVER=$root/build/libcusim.so -DCUDA_INCLUDE=$cuda/include"
  block CMakeLists.txt >"$work/CMakeLists.txt" &&
    cp "$dir/example.c" "$work/mine.c" && cd "$work" &&
    cmake -S . -B made -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" $options && cmake --build made &&
    cd "$dir" && ../made/mine
)
between() ( # cudart wants a driver: on libcusim it is only built
  local driver="-lcuda"
  [ "$NNGEN_DEVICE" = sim ] && driver="-L$root/build -lcusim"
  block between.cu >"$dir/between.cu" && cd "$dir" &&
    "$cuda/bin/nvcc" -arch=sm_80 -Werror all-warnings -o between between.cu lenet.c $driver &&
    { [ "$NNGEN_DEVICE" = sim ] || ./between | grep -q '^class [0-9]$'; }
)
top5() ( # of the network that the first commands have left
  block top5.c >"$work/top5.c" && [ "$(wc -l <"$work/top5.c")" -le 60 ] &&
    cp "$work/top5.c" "$work/resnet18" &&
    compile "cc $strict -O1" "$work/resnet18" resnet18 top5.c || return
  python3 - "$work/resnet18/picture.png" <<'P' && cd "$work/resnet18" &&
import struct, sys, zlib
rows = b"".join(b"\0" + bytes((x * y + c * 70) % 256 for x in range(224) for c in range(3))
                for y in range(224))
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" +
                              chunk(b"IHDR", struct.pack(">IIBBBBB", 224, 224, 8, 2, 0, 0, 0)) +
                              chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
P
    ./top5 picture.png | tee said && [ "$(grep -c '^class [0-9]*: ' said)" = 5 ]
)
commands() ( # its first lines, with libcusim where there is no GPU
  sed -n '/^# Emitted networks/,/^`nngen emit` writes/p' $readme |
    sed -n 's/^    //p' |
    sed "s|^nngen|$root/build/nngen|; s|models/|$root/models/|; s|/usr/local/cuda|$cuda|; s|-lcuda|$links|; s|-o resnet18 .*|& --quiet --no-check|; s|#.*--quiet|--quiet|" >"$work/commands"
  cd "$work" && rm -rf resnet18 && sh -e commands && [ -x resnet18/example ]
)

if command -v python3 >/dev/null; then ok "Python by ctypes" by_ctypes
else skip "Python by ctypes" "python3 is not installed"; fi
if [ "$NNGEN_DEVICE" != sim ] && python_with torch; then
  ok "PyTorch's tensors" by_torch
else skip "PyTorch's tensors" "requires PyTorch and a GPU"; fi
if command -v cmake >/dev/null; then ok "CMake" by_cmake
else skip "CMake" "cmake is not installed"; fi
if [ -x "$cuda/bin/nvcc" ]; then ok "between two kernels" between
else skip "between two kernels" "nvcc is not installed"; fi
long || { tap_done; exit; }
ok "its first commands" commands
if echo '#include <png.h>' | cc -E - >/dev/null 2>&1; then
  links="$links -lpng" ok "the five best labels of a picture" top5
else skip "the five best labels of a picture" "requires png.h"; fi
tap_done
