#!/usr/bin/env bash
# The largest elements of rows (topk.lua): against a sort of the files that went in, and against the
# oracle.
. "$(dirname "$0")/../tap.sh"
run() { build/nngen tests/models/topk.lua --quiet --check --set "$@"; }
values() { # values NAME TYPE COUNT: of an output, a line each
  tail -c $(($3 * 4)) "$work/npy/$1.npy" | od -An -v -w4 -t$2
}
# The values and places of each row, one after the other, beside what a stable sort of x gives.
sorted() { # sorted DTYPE K LENGTH OUTER INNER
  local k=$2 length=$3 outer=$4 inner=$5
  run k=$k length=$length outer=$outer inner=$inner --dtype $1 --output "$work/npy" >"$work/log" ||
    { cat "$work/log"; return 1; }
  values x_out f4 $((outer * length * inner)) | awk -v n=$length -v inner=$inner '
    {print int((NR - 1) / (n * inner)) * inner + (NR - 1) % inner, int((NR - 1) / inner) % n, $1}' |
    sort -k1,1n -k3,3gr -k2,2n |
    awk -v k=$k '$1 != row {row = $1; n = 0} n++ < k {print $1, $3, $2}' >"$work/want"
  paste <(values values f4 $((outer * k * inner))) <(values places d4 $((outer * k * inner))) |
    awk -v n=$k -v inner=$inner '
    {print int((NR - 1) / (n * inner)) * inner + (NR - 1) % inner, int((NR - 1) / inner) % n,
      $1, $2}' |
    sort -k1,1n -k2,2n | awk '{print $1, $3, $4}' >"$work/got"
  [ -s "$work/want" ] && diff "$work/want" "$work/got" | head -5 && cmp "$work/want" "$work/got"
}
for k in 1 2 31 32 33 64; do
  few 7/3 && ok "$k of 100, innermost" sorted fp32 $k 100 5 1
  few 7/3 && ok "$k of 64, across memory" sorted fp32 $k 64 2 9
done
ok "1 of 1" sorted fp32 1 1 3 4
ok "all of 7" sorted fp32 7 7 40 1
ok "5 of 1023" sorted fp32 5 1023 3 2
ok "64 of 100000" sorted fp32 64 100000 1 1
long && ok "64 of 50001 of two rows" sorted fp32 64 50001 2 1
long && ok "10 of 20000, across memory" sorted fp32 10 20000 1 3
long && ok "8 of 64, many rows" sorted fp32 8 64 500 1
for dtype in fp16 $(long && echo bf16); do ok "33 of 500, $dtype" sorted $dtype 33 500 2 3; done
for case in every special rising integers maps; do
  few 3/2 cases && ok "$case" run case=$case
  few 5/2 && ok "$case, 64, innermost" run case=$case k=64 inner=1
  [ $case = maps ] || ! few 5/2 || ok "$case, fp16, unfused" run case=$case --dtype fp16 \
    --lowering unfused
done
ok "maps, unfused" run case=maps --lowering unfused # 16 bits would round what is sorted
ok "special, rows in parts" run case=special k=40 inner=1 length=20000
# Optimized as users compile: copies of a barrier are one.
ok "special, rows in parts, as users compile" \
  env NNGEN_SIM_OPTIMIZE=2 build/nngen run tests/models/topk.lua --quiet --check \
  --set case=special k=40 inner=1 length=20000
ok "rising, rows in parts" run case=rising k=64 inner=1 outer=1 length=30000
one() { # values and places, and the maps around them, are one kernel
  local got
  got=$(build/nngen show tests/models/topk.lua --set case=maps "$@" | grep -c '^# kernel')
  [ "$got" = 1 ] || { echo "$got kernels"; return 1; }
}
ok "values, places and maps are one kernel" one
ok "also where a row is in parts" one outer=1 inner=1 length=100000
checked() { NNGEN_SIM_CHECK=all NNGEN_SIM_SEED=$1 run "${@:2}"; }
[ "$NNGEN_DEVICE" = sim ] && for seed in 1 $(long && echo 2); do
  ok "all checks, thread order $seed" checked $seed case=every k=40
  ok "all checks, innermost, thread order $seed" checked $seed case=special k=64 inner=1 length=3000
  ok "all checks, rows in parts, thread order $seed" checked $seed outer=1 inner=1 length=30000
done
tap_done
