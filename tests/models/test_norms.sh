#!/usr/bin/env bash
# Norms between two products are no kernels of their own: the first product's kernel joins the
# statistics of its rows, the second one multiplies what is not yet normalised.
. "$(dirname "$0")/../tap.sh"
norms=tests/models/norms.lua
run() { build/nngen $norms --quiet --check --set "$@"; }
kernels() { # kernels N SETTING...: so many of the entry, and right
  local want=$1 got; shift
  got=$(build/nngen show $norms --set "$@" | grep -c '^# kernel.*infer')
  [ "$got" = "$want" ] || { echo "$got kernels, want $want"; return 1; }
  run "$@"
}
for case in layer plain rms library scaled; do
  few 5/2 || continue
  ok "$case: two products" kernels 2 case=$case
done
ok "what the norm is added to computes it there" kernels 3 case=behind
ok "several products of one norm are one, and others read what it normalises" kernels 2 case=several
ok "norm after norm" kernels 8 case=chain
ok "a norm that leaves the model: the second product's kernel makes it" kernels 2 case=leaves
for shape in "rows=130 width=300" "rows=9 width=2000 columns=5" "rows=300 width=32" \
  "rows=70 width=1024 columns=64" "rows=2 width=84"; do
  few 4/2 shapes || continue
  ok "rows of several tiles, the last of fewer columns: $shape" kernels 2 case=layer $shape
done
ok "rows of no multiple of four stay as they are, made by the second product's kernel" kernels 2 \
  case=layer width=6
exact() { run "$@" --dtype tf32 && [ "$(build/nngen show $norms --set "$@" --dtype tf32 |
  grep -c '^# kernel.*mean.*second: reduce_sum+.*infer')" = 1 ]; }
ok "tf32, which would round before the norm, keeps it" exact case=layer
for dtype in fp16 bf16; do
  for case in layer rms behind several; do
    few 5/2 dtypes || continue
    ok "$case, $dtype" run case=$case rows=130 --dtype $dtype
  done
done
for offset in 1 10 100; do # of what is normalised: its mean; the products cancel
  ok "a mean of $offset deviations" run case=layer offset=$offset
done
for seed in 1 2 3 4; do
  long || continue
  ok "tiles of a row in any order, all checks, seed $seed" env NNGEN_SIM_CHECK=all \
    NNGEN_SIM_SEED=$seed build/nngen $norms --quiet --check --set case=chain rows=70 width=320
done
# Kernels are fewer by the norms, and planned bytes are counted ones.
layers() { # layers MODEL N [OPTION...]: kernels of the plan
  local got; got=$(build/nngen show models/$1.lua "${@:3}" | grep -c '^# kernel.*infer')
  [ "$got" = "$2" ] || { echo "$got kernels, want $2"; return 1; }
}
ok "a transformer block: five kernels, of which the first begins with the norm of its input" \
  layers block 5
ok "the same in fp16" layers block 5 --dtype fp16
ok "where blocks of products follow each other, norms are kernels" layers block 7 --dtype bf16 \
  --set batch=8
bert() { # kernels that each further layer adds
  local one two
  one=$(build/nngen show models/bert.lua --set layers=2 | grep -c '^# kernel.*infer')
  two=$(build/nngen show models/bert.lua --set layers=4 | grep -c '^# kernel.*infer')
  [ $((two - one)) = 10 ] || { echo "$one kernels with two layers, $two with four"; return 1; }
}
ok "five kernels for each layer of BERT" bert
tap_done
