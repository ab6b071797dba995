#!/usr/bin/env bash
# nngen emit: LeNet as C and CUDA that build without nngen, and give its bits.
. "$(dirname "$0")/../tap.sh"
. tests/emit/emit.sh
without_tools "nngen emit"
out=$work/lenet

writes() {
  emit models/lenet.lua "$out" && [ -s "$out/lenet.c" ] && [ -s "$out/lenet.safetensors" ]
}
builds() ( # COMPILER: as a library, with nothing to say
  cd "$out" && $1 -I"$cuda/include" -c -o library.o lenet.c &&
    $1 -I"$cuda/include" -c -o /dev/null example.c
)
same_bits() ( # on an input that is not zero: the last weights
  compile "cc $strict $sanitized" "$out" lenet example.c && cd "$out" &&
    tail -c 3136 lenet.safetensors >image.bin && npy image.bin '<f4' '1, 1, 28, 28' >image.npy &&
    ./example image.bin && cd "$root" &&
    build/nngen models/lenet.lua $run_options --no-check --quiet --input "$out/image.npy" \
      --output "$out" &&
    same_elements "$out/probabilities.npy" "$out/probabilities.bin"
)
by_libcuda() ( # linked with NVIDIA's library, as for a GPU; here libcusim is what the loader finds
  cd "$out" &&
    cc $strict -I"$cuda/include" -o linked example.c lenet.c -L"$cuda/lib64/stubs" -lcuda &&
    readelf -d linked | grep -q 'libcuda\.so\.1' && mkdir -p driver &&
    ln -sf "$root/build/libcusim.so" driver/libcuda.so.1 &&
    LD_LIBRARY_PATH=driver ./linked image.bin && cp probabilities.bin linked.bin &&
    ./example image.bin && cmp linked.bin probabilities.bin
)
again() { # the same bytes
  emit models/lenet.lua "$work/again" && diff -r "$work/again" "$work/first"
}
by_make() ( # as its Makefile builds it, with what a program needs: libc and the driver
  cd "$out" && make -s -B CUDA="$cuda" LIBS="$links" example && ./example &&
    ! readelf -d example | grep NEEDED | grep -vE 'libcusim|libcuda|libc\.so'
)
made_anew() ( # by other libraries, and by the same ones not
  cd "$out" && make -s CUDA="$cuda" LIBS="$links" example && touch -r example before &&
    make -s CUDA="$cuda" LIBS="$links" example && [ ! example -nt before ] &&
    make -n CUDA="$cuda" LIBS="$links -lm" example | grep -q -- -lm
)
optimized() { # what gcc warns of as it optimizes, the sanitizers' checks among what it sees
  local flags
  for flags in -O1 -O2; do
    builds "gcc $strict $flags" && builds "gcc $strict ${sanitized/-O0/$flags}" || return
  done
}
columns() {
  ! awk 'length > 100 { print FILENAME ": " FNR; bad = 1 } END { exit !bad }' "$out"/lenet.[ch]
}

bare() { # a network of states alone: no parameters, nothing between kernels
  emit tests/models/states.lua "$work/states" --no-check &&
    compile "cc $strict" "$work/states" states_net example.c &&
    (cd "$work/states" && ./example)
}
joined() { # a kernel that begins with another layer's rows; both have long names
  cat >"$work/joined.lua" <<'LUA'
local nn = require "nn"
local scope = "encoder.layers.encoder_layer_0."
local x = nn.input("x", {37, 192}):layer_norm(scope .. "norm_of_what_comes_in")
nn.output("y", x:linear(scope .. "self_attention", {out = 96}))
LUA
  emit "$work/joined.lua" "$work/joined" --no-check && grep -q kJobsDone "$work/joined/joined.cu" &&
    compile "cc $strict" "$work/joined" joined example.c && (cd "$work/joined" && ./example)
}
ok "LeNet is emitted" writes
ok "a network of states" bare
ok "a kernel of two layers" joined
cp -r "$out" "$work/first"
for compiler in gcc clang; do
  if command -v $compiler >/dev/null; then ok "$compiler takes it as C11" builds "$compiler $strict"
  else skip "$compiler takes it as C11" "$compiler is not installed"; fi
done
long && ok "gcc takes it when it optimizes" optimized
for compiler in g++ clang++; do
  if command -v $compiler >/dev/null; then
    ok "$compiler takes it as C++" builds "$compiler -x c++ -pedantic -Wall -Wextra -Werror"
  else skip "$compiler takes it as C++" "$compiler is not installed"; fi
done
if [ -d "$cuda/include/nvtx3" ]; then
  ok "with NVTX ranges" \
    builds "gcc -std=c11 -Wall -Wextra -Werror -DLENET_NVTX -isystem $cuda/include"
else skip "with NVTX ranges" "NVTX's headers are not installed"; fi
ok "it gives the bits of nngen run" same_bits
if [ "$NNGEN_DEVICE" = sim ] && [ -e "$cuda/lib64/stubs/libcuda.so" ]; then
  ok "linked with libcuda it runs unchanged" by_libcuda
else skip "linked with libcuda it runs unchanged" "requires libcusim and the toolkit's stub libcuda"; fi
ok "lines have at most 100 columns" columns
ok "its Makefile builds it" by_make
ok "its Makefile links again for other libraries" made_anew
ok "a second emission has the same bytes" again
tap_done
