#!/usr/bin/env bash
# Sorting (sort.lua): against a sort of the files that went in, and against the oracle.
. "$(dirname "$0")/../tap.sh"
run() { build/nngen tests/models/sort.lua --quiet --check --set "$@"; }
values() { # values NAME TYPE COUNT: of an output, a line each
  tail -c $(($3 * 4)) "$work/npy/$1.npy" | od -An -v -w4 -t$2
}
# The values and places of each row, one after the other, beside what a stable sort of x gives.
sorted() { # sorted DTYPE LENGTH OUTER INNER
  local length=$2 inner=$4 count=$(($2 * $3 * $4))
  run length=$2 outer=$3 inner=$4 --dtype $1 --output "$work/npy" >"$work/log" ||
    { cat "$work/log"; return 1; }
  values x_out f4 $count | awk -v n=$length -v inner=$inner '
    {print int((NR - 1) / (n * inner)) * inner + (NR - 1) % inner, int((NR - 1) / inner) % n, $1}' |
    sort -k1,1n -k3,3gr -k2,2n | awk '{print $1, $3, $2}' >"$work/want"
  paste <(values values f4 $count) <(values places d4 $count) | awk -v n=$length -v inner=$inner '
    {print int((NR - 1) / (n * inner)) * inner + (NR - 1) % inner, int((NR - 1) / inner) % n,
      $1, $2}' | sort -k1,1n -k2,2n | awk '{print $1, $3, $4}' >"$work/got"
  [ -s "$work/want" ] && diff "$work/want" "$work/got" | head -5 && cmp "$work/want" "$work/got"
}
for length in 65 127 128 129 1000 2047 2048 2049 4096 5000; do
  few 10/3 && ok "$length elements" sorted fp32 $length 3 1
done
ok "rows across memory" sorted fp32 300 2 9
ok "3000 elements across memory" sorted fp32 3000 2 3
ok "many short rows" sorted fp32 70 200 1
ok "50257 elements" sorted fp32 50257 1 1
long && ok "300001 elements" sorted fp32 300001 1 1
for dtype in fp16 $(long && echo bf16); do ok "500 elements, $dtype" sorted $dtype 500 2 3; done
for case in every special integers maps part gradient; do
  few 6/2 cases && ok "$case" run case=$case
  few 6/2 long_rows && ok "$case, rows of several blocks" run case=$case length=4500 inner=1
  few 6/2 unfused && ok "$case, unfused" run case=$case --lowering unfused
done
ok "runs of 3000 elements" run case=runs run=3000 length=7000 outer=1 inner=1
for count in 1 7 64 100 250; do
  few 5/2 counts && ok "runs of $count" run case=runs run=$count length=501 inner=2
done
kernels() { # kernels COUNT SETTING...
  local got
  got=$(build/nngen show tests/models/sort.lua --set "${@:2}" | grep -c '^# kernel')
  [ "$got" = "$1" ] || { echo "$got kernels, expected $1"; return 1; }
}
ok "2048 elements are sorted by one kernel, with maps" kernels 1 case=maps length=2048
ok "4096 elements: the map before, two runs, one merge" kernels 3 case=maps length=4096
ok "each doubling takes one more kernel" kernels 4 case=maps length=8192
cat >"$work/bad.lua" <<'LUA'
local nn = require "nn"
local places = nn.input("places", {50}, {dtype = "i32", below = 40}) * 2
nn.output("y", nn.op.sort_merge(nn.input("x", {50}), places, {axis = 0, count = 25, smallest = 1}))
LUA
ok "positions that are none are an error" \
  fails 2 "is not 0 to 49" build/nngen "$work/bad.lua" --quiet --check
checked() { NNGEN_SIM_CHECK=all NNGEN_SIM_SEED=$1 run "${@:2}"; }
[ "$NNGEN_DEVICE" = sim ] && for seed in 1 $(long && echo 2); do
  ok "all checks, thread order $seed" checked $seed case=special length=4500 inner=1
  ok "all checks, rows across memory, thread order $seed" checked $seed case=every length=300
done
tap_done
