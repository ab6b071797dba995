#!/usr/bin/env bash
# Contractions of random shapes (contraction.lua) against the oracle, in every dtype, with tiles
# that the model puts in any place, under several thread orders. A failing shape is made smaller
# while it still fails. Thousands: make fuzz NNGEN_FUZZ_COUNT=N
. "$(dirname "$0")/../tap.sh"
first=${NNGEN_FUZZ_FIRST:-1} count=${NNGEN_FUZZ_COUNT:-$(long && echo 2 || echo 1)}
dtypes=(fp32 fp16 bf16 tf32)
model=tests/models/contraction.lua

# fails SHAPE OPTIONS...: is the result of this one shape wrong, or the run ended by a fault?
fails() {
  local shape=$1; shift
  build/nngen $model --quiet --check --set "shapes=$shape" "$@" >"$work/one" 2>&1
  case $? in 1 | 3) return 0 ;; *) return 1 ;; esac
}
# smaller SHAPE OPTIONS...: prints a shape that fails too, with no number that can be less.
smaller() {
  local words=($1) again=1 i n try; shift
  while [ $again = 1 ]; do
    again=0
    for ((i = 1; i < ${#words[@]}; i++)); do
      n=${words[i]}
      for try in 0 1 $((n / 2)) $((n - 1)); do
        [ $try -lt $n ] && [ $try -ge 0 ] || continue
        words[i]=$try
        if fails "${words[*]}" "$@"; then again=1; break; fi
        words[i]=$n
      done
    done
  done
  echo "${words[*]}"
}
random() { # random SEED THREAD-ORDER OPTIONS...
  local seed=$1 shape name
  export NNGEN_SIM_SEED=$2
  shift 2
  build/nngen $model --quiet --check --set seed=$seed count=10 "$@" >"$work/log" 2>&1 && return
  tail -3 "$work/log"
  while IFS=$'\t' read -r name shape; do
    fails "$shape" "$@" || continue
    shape=$(smaller "$shape" "$@")
    echo "try: build/nngen $model --check --set 'shapes=$shape' $*"
    return 1
  done < <(grep -aP '^y\d+\t' "$work/log")
  echo "try: build/nngen $model --check --set seed=$seed count=10 $*"
  return 1
}
for ((i = first; i < first + count; i++)); do
  o="--dtype ${dtypes[i % 4]} --candidate $((i * 7 % 101 + 1))"
  ok "seed $i, $o" random $i $((i % 5)) $o
done
unset NNGEN_SIM_SEED
[ "${NNGEN_FUZZ_COUNT:-}" ] && { tap_done; exit; } # the rest is not random

exact() { # whole numbers: every product and sum is exact, so is the result
  build/nngen $model --quiet --check --set exact=1 most=64 "$@" >"$work/log" 2>&1 ||
    { tail -2 "$work/log"; return 1; }
  awk \
    '/^output +y/ {n++} /^output +y/ && !/error 0.00e\+00/ {print; bad = 1} END {exit bad || !n}' \
    "$work/log"
}
long && ok "whole numbers are exact, fp32" exact --dtype fp32 --set seed=3 count=10
long && ok "whole numbers are exact, tf32" exact --dtype tf32 --set seed=4 count=10
ok "whole numbers are exact, fp16" exact --dtype fp16 \
  --set seed=5 count=$(long && echo 10 || echo 5)

ok "an operand that phases would copy in different ways" build/nngen $model --quiet --check \
  --dtype tf32 --set "shapes=data 1 4 1 13 236 1 3 1 3 0 0 1 1 4"

for dtype in fp16 $(long && echo fp32); do
  ok "infinities and NaN spread as IEEE 754 says, $dtype" build/nngen tests/models/nonfinite.lua \
    --quiet --check --dtype $dtype
done

# Every tile, with 1 to 16 parts of k as they fit, and two rings each.
candidates() { # candidates DTYPE: all of them, until the first one comes again
  local n first now
  for ((n = 1; n <= 512; n++)); do
    now=$(build/nngen show $model --set "shapes=$2" --dtype $1 --candidate $n --costs |
      awk '/^y1|^matmul|^conv/ {print $2, $4, $6, $8; exit}')
    [ "$now" = "$first" ] && break
    [ $n = 1 ] && first=$now
    echo "$n $now"
  done
}
# each DTYPE SHAPE STEP [LONG]: two candidates, STEP x 3 and STEP x 6 (in the long run one of LONG,
# else of 6), each under another thread order, none with a bank conflict.
each() {
  local n tile tried=0 count= step=${4:-6}
  [ $NNGEN_DEVICE = sim ] && count=--count
  while read -r n tile; do
    [ $((n % step)) = 0 ] || ! long || continue
    NNGEN_SIM_SEED=$n build/nngen $model --quiet --check $count --set "shapes=$2" --dtype $1 \
      --candidate $n >"$work/log" 2>&1 &&
      sed -n '/^counted by/,/^$/p' "$work/log" |
      awk 'NR > 1 && NF && $NF != 0 {bad = 1} END {exit bad}' ||
      { echo "candidate $n ($tile):"; tail -4 "$work/log"; return 1; }
    tried=$((tried + 1))
  done < <(if long; then candidates "$@"; else printf '%d\n' $(($3 * 3)) $(($3 * 6)); fi)
  [ $tried -ge $(long && echo 3 || echo 1) ] || { echo "only $tried candidates"; return 1; }
}
few 8/4 && ok "candidates, conv fp32" each fp32 "conv 2 40 9 11 40 3 3 1 1 1 1 1 1 1" 5
few 8/4 && ok "candidates, conv fp16" each fp16 "conv 2 40 9 11 40 3 3 1 1 1 1 1 1 1" 7 7
few 8/4 && ok "candidates, conv bf16, taps of whole blocks" \
  each bf16 "conv 1 64 7 6 40 3 3 1 1 1 1 1 1 1" 11 9
few 8/4 && ok "candidates, conv fp16, channels in units" each fp16 \
  "conv 1 3 11 12 20 7 7 2 2 3 3 1 1 1" 5 5
few 8/4 && ok "candidates, matmul bf16, both across k" each bf16 "matmul 1 70 90 250 2 0" 2
few 8/4 && ok "candidates, matmul tf32, both across k" each tf32 "matmul 1 70 90 120 1 0" 3 4
few 8/4 && ok "candidates, matmul fp16, b across k" each fp16 "matmul 1 60 72 120 0 0" 3
few 8/4 && ok "candidates, matmul tf32, b across k" each tf32 "matmul 1 60 72 60 0 0" 3 2
cut() { candidates fp16 "$1" | grep -qv ' 1$'; } # cut SHAPE: a candidate has parts of k
no_more_parts() { # a product in many parts, the same one when it is refused
  cut "matmul 1 64 64 4096 0 1" || { echo "the one product is not cut"; return 1; }
  candidates fp16 "$1" | grep -q ' 1$' && ! cut "$1" || { echo "$1 has parts"; return 1; }
}
ok "phases without a tap, and nothing else" build/nngen $model --quiet --check --dtype fp32 \
  --set "shapes=data 1 1 1 2 1 1 2 2 1 1 0 1 1 1;data 2 8 2 2 8 1 1 3 3 0 0 1 1 1"
ok "no parts of k where it is short" no_more_parts "matmul 1 64 64 100 0 1"
ok "filters of more taps than bits tell of are gathered" build/nngen $model --quiet --check \
  --dtype fp16 \
  --set "shapes=conv 1 8 3 40 16 1 31 1 1 0 3 1 1 1;conv 1 8 3 40 16 1 30 1 1 0 3 1 1 1"
# units DTYPE: few channels, and odd numbers of them, columns of 2, 4 or 8: filters of any width,
# paddings on either side, rows that end inside a unit or in parts that nobody reads; gradients.
units() {
  build/nngen $model --quiet --check --dtype $1 \
    --set exact=1 "shapes=conv 2 3 14 14 20 7 7 2 2 3 3 1 1 1; conv 1 3 15 17 16 5 5 2 2 2 2 1 1 1; \
      conv 1 3 9 16 8 3 3 2 2 1 1 1 1 1; conv 1 3 23 23 16 11 11 4 4 2 2 1 1 1; \
      conv 1 3 12 13 16 3 3 2 2 1 1 1 1 1 0 0; conv 1 3 12 13 16 3 3 2 2 0 0 1 1 1 1 1; \
      conv 1 3 14 15 16 7 7 2 2 2 2 1 1 1 3 3; conv 1 3 9 10 16 1 1 2 2 0 0 1 1 1; \
      conv 1 5 8 14 8 3 3 3 4 0 0 1 1 1; conv 2 1 6 20 8 4 5 1 2 2 1 1 1 1; \
      conv 1 7 5 10 8 1 2 1 6 0 1 1 1 1; conv 1 3 9 16 8 3 3 2 2 1 1 2 1 1; \
      conv 1 2 9 9 16 3 3 2 2 1 1 1 1 1; conv 1 33 5 6 16 3 3 1 1 1 1 1 1 1; \
      conv 1 3 1 64 16 1 40 1 2 0 4 1 1 1; conv 1 3 1 2 16 1 5 1 2 0 3 1 1 1; \
      filter 2 3 80 81 20 7 7 2 2 3 3 1 1 1; filter 24 3 80 80 10 5 5 2 2 2 2 1 1 1; \
      filter 2 3 10 11 8 3 3 1 1 1 1 1 1 1; filter 1 3 9 16 8 3 3 2 2 1 1 1 1 1" \
    >"$work/log" 2>&1 || { tail -3 "$work/log"; return 1; }
}
# in_units CHANNELS DTYPE SHAPE: what it reads has so many channels.
in_units() {
  build/nngen show $model --dtype $2 --set "shapes=$3" --stage layout >"$work/log" || return
  grep -qP "= copy.* [bf]+(16|32)\(\d+,$1,[^)]*\)<0,2,3,1> \"x1\"" "$work/log" ||
    { grep '= copy' "$work/log"; return 1; }
}
long && ok "channels in units, fp16" units fp16
ok "7 x 7 in steps of 2: two pixels a unit" in_units 8 fp16 "conv 2 3 32 32 64 7 7 2 2 3 3 1 1 1"
ok "the same of its gradient" in_units 8 bf16 "filter 12 3 80 80 64 7 7 2 2 3 3 1 1 1"
ok "3 x 3 in steps of 1: a zero channel" in_units 4 fp16 "conv 2 3 32 32 64 3 3 1 1 1 1 1 1 1"
ok "multiplies weigh more in fp32" in_units 2 fp32 "conv 8 3 224 224 64 7 7 2 2 3 3 1 1 1"
groups() { # groups DTYPE: of few channels, which are packed: all, some, as many as there can be
  build/nngen $model --quiet --check --dtype $1 \
    --set exact=1 "shapes=conv 2 6 9 8 10 3 3 2 2 1 1 1 1 2; \
      conv 1 128 7 7 128 3 3 1 1 1 1 1 1 32; conv 1 32 6 6 64 3 3 1 1 1 1 1 1 32; \
      conv 2 10 5 6 15 2 3 1 2 0 1 2 1 5"
}
ok "packed groups, fp16" groups fp16
long && ok "packed groups, tf32" groups tf32
vectors() { # vectors DTYPE: of one row, of one column, of both, and with nothing to add up
  build/nngen $model --quiet --check --dtype $1 \
    --set "shapes=matmul 1 1 100 70 0 0; matmul 1 1 64 513 0 1; matmul 1 33 1 70 0 0; \
      matmul 2 33 1 70 1 1; matmul 3 1 9 70 0 0; matmul 1 1 1 40 0 0; matmul 1 1 7 1 0 0; \
      matmul 1 1 100 70 2 2; matmul 2 30 20 1 0 0; conv 2 24 9 13 1 1 1 1 1 0 0 1 1 1; \
      conv 2 24 9 13 1 1 1 2 2 1 0 1 1 1; filter 2 24 9 13 1 1 1 1 1 0 0 1 1 1"
}
long && ok "products of vectors, fp32" vectors fp32
ok "products of vectors, fp16" vectors fp16
same_bits() { # same_bits OPTIONS...: whatever order threads and blocks run in
  local seed
  for seed in 0 1 $(long && echo 2 3); do
    NNGEN_SIM_SEED=$seed build/nngen $model --quiet --no-check --output "$work/bits$seed" \
      "$@" >"$work/log" || return
    grep -q ' /[0-9]' "$work/log" || { echo "no kernel has parts of k"; return 1; }
    for file in "$work"/bits0/*.npy; do cmp "$file" "$work/bits$seed/${file##*/}" || return; done
  done
}
ok "parts of k and sums of columns give the same bits in every order" \
  same_bits --set "shapes=;matmul 1 33 40 4000 0 0;conv 1 160 5 7 24 3 3 1 1 1 1 1 1 1"
tap_done
