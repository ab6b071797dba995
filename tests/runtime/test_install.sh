#!/usr/bin/env bash
# make install into a folder of its own: nngen runs there without the tree, the program of
# runtime/README.md is built against it and gives nngen's bits, and make uninstall leaves nothing.
. "$(dirname "$0")/../tap.sh"
if ! command -v make >/dev/null || ! command -v cc >/dev/null || [ ! -e build/libnngen.a ]; then
  skip "make install" "requires make, cc and build/libnngen.a"
  tap_done
  exit
fi
unset NNGEN_SIM NNGEN_DIR MAKEFLAGS MAKELEVEL
prefix=$work/prefix models=$work/prefix/share/nngen/models there=$work/there
nngen=$prefix/bin/nngen links="-ljansson -lxxhash -lpng16 -lz -lm -ldl -lpthread"
strict="-Wall -Wextra -Werror -I$prefix/include"
mkdir "$there"
run_make() { make -s --no-print-directory "$@"; }
install_all() { run_make install PREFIX="$prefix" && [ -x "$nngen" ]; }
runs() ( # from another folder, on an installed model, with the libcusim that was installed
  cd "$there" && "$nngen" "$models/mlp.lua" --quiet --no-cache --set inputs=10 --output . &&
    "$nngen" doctor | grep -qF "$prefix/lib/libcusim.so"
)
resnet() (cd "$there" && "$nngen" show "$models/resnet18.lua" --cuda >/dev/null)
example() { # the C of the section "In your own program"
  sed -n '/^## In your own program/,$p' runtime/README.md |
    sed -n '/^```c$/,/^```$/p' |
    sed '1d;$d' >"$there/classify.c"
  [ -s "$there/classify.c" ]
}
builds() (
  cd "$there" && cc -std=c11 $strict -o classify classify.c "$prefix/lib/libnngen.a" $links
)
same_bits() ( # what the program makes of an input is what nngen makes of it, on the same device
  unset NNGEN_DEVICE
  cd "$there" && "$nngen" show "$models/mlp.lua" --set inputs=10 --plan >mlp.json &&
    cp logits.npy input.npy &&
    NNGEN_SIM=$prefix/lib/libcusim.so "$@" mlp.json input.npy made.npy &&
    "$nngen" "$models/mlp.lua" --set inputs=10 --quiet --no-check --input input.npy --output . &&
    cmp made.npy logits.npy
)
by_pkg_config() ( # also finds libcusim, by the run path
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  cd "$there" && cc -o by_pkg_config classify.c $(pkg-config --cflags --libs nngen) &&
    same_bits env -u NNGEN_SIM ./by_pkg_config
)
from_cxx() (
  cd "$there" && printf '%s\n' '#include <nngen/nngen_runtime.h>' \
    'int main() { DeviceKind kind; return device_parse("sim", &kind) ? 0 : 1; }' >a.cc &&
    c++ $strict -o a a.cc "$prefix/lib/libnngen.a" $links && ./a
)
asks_libcusim() { # its headers beside cuda.h, or nngen's of that name
  printf '%s\n' '#include "cuda_api.h"' '#define CUDA_VERSION 13000' '#include <cusim/counters.h>' \
    '#include <cusim/names.h>' 'int main(void) {' 'KernelCounters c = {0};' \
    'CusimNameLaunch name = 0;' \
    'return !name && cusimKernelCounters(0, &c, sizeof c) ? 0 : 1; }' >"$there/counters.c" &&
    cc $strict -Iruntime -o "$there/counters" "$there/counters.c" -L"$prefix/lib" -lcusim \
      -Wl,-rpath,"$prefix/lib" && "$there/counters"
}
staged() { # DESTDIR comes before PREFIX, and is not in nngen.pc
  local root=$work/root/opt/nngen
  run_make install DESTDIR="$work/root" PREFIX=/opt/nngen &&
    grep -qx 'prefix=/opt/nngen' "$root/lib/pkgconfig/nngen.pc" &&
    (cd "$there" && "$root/bin/nngen" "$root/share/nngen/models/mlp.lua" --quiet)
}
leaves_nothing() { # of its own
  touch "$prefix/lib/of_another" && run_make uninstall PREFIX="$prefix" &&
    [ "$(cd "$prefix" && find . ! -type d)" = ./lib/of_another ] && [ ! -e "$prefix/share/nngen" ]
}
helps() { make help | grep -q '^make uninstall'; }
ok "make install" install_all
ok "the installed nngen runs in another folder" runs
ok "so does a model of two files" resnet
ok "runtime/README.md has the program" example
ok "it builds against the installed library" builds
ok "it gives the same bits as nngen" same_bits ./classify
if command -v pkg-config >/dev/null; then ok "pkg-config" by_pkg_config
else skip "pkg-config" "pkg-config is not installed"; fi
ok "C++ takes the headers" from_cxx
ok "libcusim's headers" asks_libcusim
ok "DESTDIR" staged
ok "make uninstall" leaves_nothing
ok "make help" helps
tap_done
