#!/usr/bin/env bash
# Scans (scan.lua) of every length and along every axis: against a loop over the files that went in
# and came out, and against the oracle; rows of one thread, one warp, one block, many blocks.
. "$(dirname "$0")/../tap.sh"
export NNGEN_SIM_OPTIMIZE=${NNGEN_SIM_OPTIMIZE:+g} # long rows run longer than they compile
run() { build/nngen tests/models/scan.lua --quiet --check --set "$@"; }
# The sums of x along the middle of three dimensions, added one after the other in double, beside y:
# the largest distance in units of the sums of |x| up to there.
loop() { # loop LENGTH OUTER INNER GATE
  local name
  for name in x_out y; do
    tail -c $(($1 * $2 * $3 * 4)) "$work/npy/$name.npy" | od -An -v -w4 -tf4 >"$work/$name"
  done
  paste "$work/x_out" "$work/y" | awk -v length_=$1 -v inner=$3 -v gate=$4 '
    {row = int((NR - 1) / (length_ * inner)) "," (NR - 1) % inner
     sum[row] += $1; size[row] += $1 < 0 ? -$1 : $1
     e = ($2 - sum[row]) / (size[row] + 1e-30); if (e < 0) e = -e; if (e > most) most = e}
    END {print NR " elements, " most; exit !(NR && most <= gate)}'
}
looped() { # looped DTYPE LENGTH OUTER INNER
  local gate=1e-6; case $1 in fp16) gate=5e-4 ;; bf16) gate=4e-3 ;; esac
  run length=$2 outer=$3 inner=$4 --dtype $1 --output "$work/npy" >"$work/log" ||
    { cat "$work/log"; return 1; }
  loop $2 $3 $4 $gate
}
for length in 1 31 32 33 1023; do
  few 5/3 && ok "$length elements, innermost" looped fp32 $length 5 1
  few 5/3 && ok "$length elements, across memory" looped fp32 $length 2 7
done
long && ok "100000 elements" looped fp32 100000 1 1
long && ok "100000 elements, across memory" looped fp32 100000 1 3
ok "100001 elements of two rows" looped fp32 100001 2 1
long && ok "many rows" looped fp32 300 600 1
for dtype in fp16 $(long && echo bf16); do ok "1023 elements, $dtype" looped $dtype 1023 3 2; done
for case in every maps integers nonfinite softly; do
  ok "$case" run case=$case
  long && ok "$case, fp16, unfused" run case=$case --dtype fp16 --lowering unfused
done
for shape in "length=33 inner=1" "length=1023 inner=1" "length=20000 outer=1 inner=1" \
  "length=3 inner=40"; do
  few 4/2 shapes || continue
  ok "integers, $shape" run case=integers $shape
done
ok "a map before and maps behind, of rows in parts" run case=maps outer=1 inner=1 length=60000
one() { # the maps around a scan are part of its kernel
  local got
  got=$(build/nngen show tests/models/scan.lua --set case=maps "$@" | grep -c '^# kernel')
  [ "$got" = 1 ] || { echo "$got kernels"; return 1; }
}
ok "maps around a scan are one kernel" one
ok "also where a row is in parts" one outer=1 inner=1 length=100000
checked() { NNGEN_SIM_CHECK=all NNGEN_SIM_SEED=$1 run "${@:2}"; }
if [ "$NNGEN_DEVICE" = sim ]; then
  for seed in 1 $(long && echo 2); do
    ok "all checks, thread order $seed" checked $seed case=every
    ok "all checks, rows in parts, thread order $seed" checked $seed outer=2 inner=1 length=30000
    for threads in 16 $(long && echo 1); do
      ok "parts that wait for parts, $threads at once, order $seed" \
        env NNGEN_SIM_SEED=$seed NNGEN_SIM_THREADS=$threads \
        build/nngen tests/models/scan.lua --quiet --check --set outer=1 inner=1 length=100000
    done
  done
fi
parts() { # few long rows use the whole GPU, and the model knows
  build/nngen show tests/models/scan.lua --set outer=1 inner=1 length=100000000 --costs --json |
    tr -d ' ,"' | awk -F: '$1 == "layer" {scan = $2 == "cumsum"}
      scan && $1 == "modelled_us" {us = $2} END {exit !(us > 1 && us < 400)}'
}
ok "a row of 100 M elements is shared by many blocks" parts
same() { # the same bits in every run, whichever block comes first
  run outer=1 inner=1 length=50000 --output "$work/a" >"$work/log" &&
    NNGEN_SIM_SEED=3 run outer=1 inner=1 length=50000 --output "$work/b" >"$work/log" &&
    cmp "$work/a/y.npy" "$work/b/y.npy"
}
ok "parts are added in one order" same
tap_done
