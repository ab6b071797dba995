#!/usr/bin/env bash
# Rows added up by their ids (scatter.lua): against the oracle, the same bits whatever the order of
# threads and blocks, in work and memory that grow with the rows and the places, not their product.
. "$(dirname "$0")/../tap.sh"
run() { build/nngen tests/models/scatter.lua --quiet --check "$@"; }
for set in "case=rows" "case=rows n=5000 d=33 skewed=true" "case=rows n=1 d=3 size=7" \
  "case=rows n=70 d=300 size=5" "case=rows n=30000 d=1 size=9000" "case=rows n=5 d=1 size=1" \
  "case=maps" "case=maps n=3000 d=70 size=65" "case=integers n=3000" "case=batches" \
  "case=batches n=9 d=1 size=2000" "case=one" "case=one n=20000 d=2" "case=gradient n=70"; do
  few 2/2 && ok "$set" run --set $set
done
for set in "" "d=33 skewed=true" "n=1 d=3 size=7" "n=70 d=300 size=5" "n=5000 d=2 size=70" \
  "n=3000 d=256 size=2 skewed=true" "n=20000 d=7 size=40"; do
  few 7/3 sorted && ok "sorted ids, $set" run --set case=sorted $set
  few 7/3 batches && ok "sorted ids in batches, $set" run --set case=sorted_batches $set
done
for set in "" "n=6000 d=40 size=3"; do
  ok "sorted ids of one place, $set" run --set case=sorted_one $set
done
for dtype in fp16 bf16; do
  long && ok "gradients, $dtype" run --set case=gradient n=70 --dtype $dtype
done
ok "maps, fp16, unfused" run --set case=maps --dtype fp16 --lowering unfused
orders() { # the bits that come out under other orders of threads
  local seed
  for seed in 1 2 3; do
    NNGEN_SIM_SEED=$seed run --set case=rows n=4000 d=3 size=50 skewed=true \
      --output "$work/$seed" >"$work/log" || { cat "$work/log"; return 1; }
  done
  cmp "$work/1/y.npy" "$work/2/y.npy" && cmp "$work/1/y.npy" "$work/3/y.npy"
}
ok "the same bits in any order" orders
sorts() { # sorts KERNELS SET...: so many kernels sort the ids
  local got
  got=$(build/nngen show tests/models/scatter.lua --arch sm_90a --set case=rows size=50257 \
    "${@:2}" | grep -c '^# kernel.* sort_')
  [ "$got" = "$1" ] || { echo "$got kernels sort, expected $1"; return 1; }
}
ok "few ids are not sorted" sorts 0 n=4096 d=768
ok "many ids are sorted first" sorts 6 n=49152 d=768
ok "ids of few places are not" sorts 0 n=49152 d=16 size=64
long && ok "sorted first, against the oracle" run --set case=rows n=65536 d=64 size=50257
ok "ids of a state are sorted by each entry" sorts 12 case=entries n=65536 d=64
long && ok "ids of a state that are sorted" run --entry second \
  --set case=entries n=65536 d=64 size=50257
outside() { # as what compares has it
  run --set case=outside n=${1:-100} size=30 --output "$work/outside" >"$work/log" &&
    [ "$(tail -c 1 "$work/outside/near.npy" | od -An -tu1)" -eq 1 ] &&
    [ "$(tail -c 1 "$work/outside/near_gradients.npy" | od -An -tu1)" -eq 1 ]
}
ok "ids that are no places" outside
stored() { # the last of equal ids wins, whichever way it is found
  run --set case=stored n=300 --output "$work/stored" >"$work/log" &&
    [ "$(tail -c 1 "$work/stored/near.npy" | od -An -tu1)" -eq 1 ] &&
    [ "$(tail -c 1 "$work/stored/rest.npy" | od -An -tu1)" -eq 1 ]
}
ok "elements stored among many places" stored
fused() { # fused KERNELS CODE: so many make it
  printf '%s\n' 'local nn = require "nn"' \
    'local ids = nn.input("ids", {100}, {dtype = "i32", below = 30})' "$2" >"$work/fused.lua"
  [ "$(build/nngen show "$work/fused.lua" | grep -c "^# kernel")" = "$1" ]
}
ok "maps behind sums of vectors" fused 1 \
  'nn.output("y", nn.scatter_add(ids, nn.input("x", {100}), 30):relu())'
ok "maps behind counts" fused 1 'nn.output("y", nn.bincount(ids, 30) * 2 + 1)'
long_ids() { # ids of many maps, each of which reads the one before twice
  printf '%s\n' 'local nn = require "nn"' 'local x = nn.input("x", {50, 4}):exp()' \
    'local i = nn.input("i", {50}, {dtype = "i32", below = 50})' \
    'for k = 1, 34 do i = (i * 3 + i) % 50 end' \
    'nn.output("y", nn.scatter_add(i, x, 50))' >"$work/long.lua"
  timeout 10 build/nngen show "$work/long.lua" >/dev/null
}
ok "ids of many maps" long_ids
whole() { # integers wrap as 32 bits do: exactly
  run --set case=integers n=2000 | grep -q "output *y .*share in error 0.00e+00 (gate 0e+00) ok"
}
ok "integers are exact" whole
# The derivative of a table that scores gather at 512 tokens, of GPT-2's words at 49152.
large() { # large MOST SET...: microseconds of the slowest kernel by the cost model, nothing of 2^31
  build/nngen show tests/models/scatter.lua --costs --json --set "${@:2}" >"$work/log" &&
    tr -d ' ,"' <"$work/log" | awk -F: -v most=$1 '
      $1 == "modelled_us" || $1 == "us" {if ($2 > slowest) slowest = $2}
      END {print slowest " us"; exit !(slowest > 0 && slowest < most)}'
}
ok "a table of scores, 512 tokens" large 300 case=gradient n=512
ok "words" large 900 case=rows n=49152 d=768 size=50257
bad() { # bad TEXT CODE
  printf '%s\n' 'local nn = require "nn"' "$2" >"$work/bad.lua"
  fails 2 "$1" build/nngen "$work/bad.lua" --quiet &&
    grep -q "^nngen: $work/bad.lua:2:" "$work/fails"
}
ok "ids that are floats" bad "expected integer ids (n) or (batch, n), got f32 (4)" \
  'nn.output("y", nn.op.scatter_sum(nn.input("x", {4}), nn.input("r", {4, 2}), {count = 3}))'
ok "rows that are too few" bad "expected one row per id (4), got (3, 2)" \
  'nn.output("y", nn.op.scatter_sum(nn.index({4}, 1), nn.input("r", {3, 2}), {count = 3}))'
ok "no places" bad "size must be 1 to 2^31 - 1, got 0" \
  'nn.output("y", nn.op.scatter_sum(nn.index({4}, 1), nn.input("r", {4, 2}), {count = 0}))'
tap_done
