#!/usr/bin/env bash
# emit.sh: how large emitted networks are, rows of a table in gen/emit/NETWORKS.md: lines, bytes of C and CUDA,
# mean lines of a kernel, the linked example without weights for one GPU, what it needs besides,
# create on libcusim.
cd "$(dirname "$0")/../.." || exit 1
cuda=${CUDA_PATH:-/usr/local/cuda} work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
both() { echo "$(cat "$@" | wc -l) / $(cat "$@" | wc -c)"; }
needs() { readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | paste -sd' '; }
seconds() { # of lenet_create and its like, cold
  cat >"$work/$1/time.c" <<C &&
#include "$1.h"
#include <stdio.h>
#include <time.h>
int main(void) {
  struct timespec a, b;
  $1 *net;
  clock_gettime(CLOCK_MONOTONIC, &a);
  if ($1_create(&net, NULL)) return 1;
  clock_gettime(CLOCK_MONOTONIC, &b);
  printf("%.2f s\n", (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
  $1_destroy(net);
  return 0;
}
C
    cc -O2 -I"$cuda/include" -o "$work/$1/time" "$work/$1/time.c" "$work/$1/$1.c" -Lbuild -lcusim \
      -Wl,-rpath,"$PWD/build" && (cd "$work/$1" && ./time)
}
echo '| network | C, lines / bytes | CUDA, lines / bytes | kernels, mean lines | program, bytes | needs | create on libcusim |'
echo '|---|---|---|---|---|---|---|'
for name in lenet resnet18; do
  out=$work/$name
  build/nngen emit models/$name.lua -o "$out" --arch sm_90a --quiet --no-check || exit
  cc -std=c11 -O2 -I"$cuda/include" -o "$out/example" "$out/example.c" "$out/$name.c" -Lbuild \
    -lcusim -Wl,-rpath,"$PWD/build" || exit
  strip "$out/example"
  kernels=$(grep -c '__global__' "$out/$name.cu")
  lines=$(sed -n '/^\/\/ ---- kernels/,$p' "$out/$name.cu" | wc -l)
  echo "| $name | $(both "$out/$name.h" "$out/$name.c") | $(
    both "$out/$name.cu") | $kernels, $((lines / kernels)) | $(
    stat -c %s "$out/example") | $(needs "$out/example") | $(seconds $name) |"
done
