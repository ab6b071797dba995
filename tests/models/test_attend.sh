#!/usr/bin/env bash
# Attention as one kernel (attend.lua): every form of score against the oracle, shapes, what is
# skipped, and what keeps it from being one kernel.
. "$(dirname "$0")/../tap.sh"
model=tests/models/attend.lua
run() { build/nngen $model --quiet --check --set "$@"; }
kernels() { # of the layers, without copies of inputs to 16 bits
  build/nngen show $model --stage fuse --dtype ${dtype:-fp16} --set "$@" | grep '^# kernel' |
    grep -vcE ': copy( and [0-9]+ more)?, '
}
one() { # one FORM SETTINGS...: attention is one kernel, and right
  local form=$1; shift
  [ "$(kernels form=$form "$@")" = 1 ] || { kernels form=$form "$@"; return 1; }
  run form=$form "$@" --dtype ${dtype:-fp16}
}
dtype=fp16
for form in plain unscaled threshold window documents alibi softcap dropout; do
  few 4/3 || continue
  ok "$form" one $form
done
ok "grouped heads, causal, a head's values of another size" one causal H=4 G=2 N=40 M=70 W=24
dtype=fp32
for form in causal alibi steep; do
  few 3 && ok "$form, fp32" one $form N=70 M=90 H=4 G=2 D=24
done
dtype=tf32
for form in softcap $(long && echo causal); do
  ok "$form, tf32" one $form N=70 M=90 H=4 G=2 D=24
done
ok "values of 129, tf32: a thread stores several columns" run form=plain D=64 W=129 N=5 M=9 B=1 \
  H=1 G=1 --dtype tf32
dtype=bf16
for form in causal lengths unsafe dropped added; do
  few 5/3 bf16 && ok "$form, bf16" one $form N=70 M=90
done
ok "all heads share their keys, bf16" one window G=1 N=9 M=80 D=64 W=64
ok "scores of deviation 20, bf16" one steep
long && ok "scores far from 0, bf16" one far
dtype=fp16
ok "scores far from 0, fp16" one far
ok "scores far from 0, parts of the keys" one far G=1 H=2 N=4 M=3000 B=1
ok "where floats are rounded, tiles are not skipped" run form=tenths M=200 --dtype fp16
ok "one query: parts of the keys" one causal G=2 H=8 N=1 M=2048 B=1
parts() { # parts PATTERN SETTINGS...: the keys are cut into so many
  build/nngen $model --quiet --device sim --dtype fp16 --explain matmul --set B=1 H=2 G=1 "${@:2}" |
    grep -qE "\"tile\": \"[^\"]* parts ($1)( |\")" &&
    one lengths B=1 H=2 G=1 "${@:2}"
}
ok "few rows are cut into parts of the keys" parts '8|16|32' form=lengths N=3 M=4000
ok "many parts are joined in groups" parts '32|64|128' form=lengths N=1 M=40000 D=32 W=32
# shares FORM SHARES: tiles of a causal mask, skipped, with conditions and plain
shares() {
  build/nngen tests/models/masks.lua --quiet --check --dtype bf16 --set form=$1 >/dev/null &&
    build/nngen tests/models/masks.lua --dtype bf16 --set tokens=4096 form=$1 --explain matmul |
    grep "tiles of scores: $2"
}
for form in added filled not_zero logarithm lowest lowest_added lowest_by_batch lowest_filled \
  lowest_scaled lowest_alibi lowest_biased lowest_joined; do
  few 3/2 shares || continue
  ok "a causal mask, $form: tiles are skipped, or plain" \
    shares $form '48.4 % skipped, 3.1 % with conditions, 48.4 % plain'
done
ok "a window of the lowest number, a choice in a choice" shares lowest_window \
  '92.4 % skipped'
for form in strict twice by_head; do # in PyTorch all keys of a row that sees none have one weight
  ok "the lowest number, $form: no infinity" shares $form '0.0 % skipped'
done
same_rows() { # rows that see no key, fused and not
  build/nngen tests/models/masks.lua --quiet --set form=$1 --no-check --output "$work/fused" &&
    build/nngen tests/models/masks.lua --quiet --set form=$1 --no-check --output "$work/unfused" \
      --lowering unfused &&
    $python tests/models/compare_npy.py "$work/unfused" "$work/fused" 1e-5
}
counted_skips() { # ids that stand in a tensor, or are gathered from it, hide the same tiles
  local form
  $python -c 'import numpy, sys
numpy.save(sys.argv[1], numpy.repeat(numpy.arange(4, dtype="i4"), 75))' "$work/of.npy"
  for form in documents gathered; do
    build/nngen tests/models/masks.lua --quiet --count --device sim --input of="$work/of.npy" \
      --set form=$form | awk '/^counted/ { on = 1 } on && /^matmul/ { print $(NF - 2) }' \
      >"$work/$form" # MFLOP
  done
  cat "$work/documents" "$work/gathered"
  diff "$work/documents" "$work/gathered" &&
    awk '$1 > 0 && $1 < 14 { n++ } END { exit n != 1 }' "$work/documents" # of 28
}
if python_with numpy; then
  [ "$NNGEN_DEVICE" = sim ] && ok "tiles of other documents are skipped" counted_skips
  for form in strict half lowered padding; do
    ok "and all keys of such a row count, $form" same_rows $form
  done
  for form in bytes halves brain cut wrapped; do
    ok "no tile is skipped that a condition shows: $form" same_rows $form
  done
else skip "rows fused and not" "NumPy is not installed"
fi
ok "sums of some of the powers, fp16" one counted N=70 M=90
ok "sums of some of the powers, parts of the keys" one counted G=1 H=2 N=3 M=1000 B=1
ok "parts without a key" one lengths G=1 H=2 N=3 M=1000 B=2 D=24
# tuned TILE SETTINGS...: with this tile, as if it had been measured as the fastest.
tuned() {
  local tile=$1 entry device; shift
  device=$(build/nngen $model --quiet --json --no-check --set N=1 M=1 |
    sed -n 's/^  "device": "\(.*\)",/\1/p')
  entry=$(build/nngen $model --quiet --device sim --dtype fp16 --explain matmul --set "$@" |
    sed -n 's/.*in a tuning file: \("[^"]*"\).*/\1/p')
  printf '{"schema_version": 1, "devices": {"%s": {%s: {"tile": "%s"}}}}' \
    "$device" "$entry" "$tile" >"$work/tuning.json"
  run "$@" --dtype fp16 --tuning "$work/tuning.json" >"$work/tuned" &&
    grep -q "${tile%%x*} rows x $(expr "$tile" : '[0-9]*x\([0-9]*\)') keys" "$work/tuned" ||
    { cat "$work/tuning.json" "$work/tuned"; return 1; }
}
for tile in "128x32 warps 32x0" "128x64 warps 32x0"; do
  few 2 || continue
  ok "warps of 32 rows, whose queries are read again, ${tile%% *}" \
    tuned "$tile stages 2 parts 1" form=causal B=1 H=2 G=1 N=130 M=100 D=96 W=96
done
written() { NNGEN_SIM_CHECK=all tuned "$@"; }
ok "parts: what stands behind a row of values is not read" \
  written "64x32 warps 16x0 stages 2 parts 4" B=1 H=1 G=1 N=4 M=777 D=34 W=66
ok "one key" run form=causal M=1 N=5 --dtype fp16
if long; then
  for form in prefix keep blocks bias unsafe; do ok "$form" one $form; done
  dtype=bf16
  for form in causal window prefix lengths documents keep alibi bias dropout; do
    few 1/6 && ok "$form, grouped heads, bf16" one $form H=6 G=2 N=50 M=65 D=16 W=32
  done
  dtype=fp16
  for size in 16 32 48 64 80 96 128 160 256; do
    few 1/6 && ok "heads of $size" one plain D=$size W=$size N=17 M=129
  done
  for size in 8 32 36 64 96 128 256; do
    few 1/6 && ok "heads of $size, fp32" run form=window D=$size W=$size N=17 M=65
  done
  for seed in 1 2 3 4 5; do
    few 1/6 && ok "thread order $seed" env NNGEN_SIM_SEED=$seed build/nngen $model --quiet --check \
      --dtype fp16 --set form=window N=200 M=200
  done
  for tile in 1 2 3 4 5 6 7 8; do
    few 1/6 && ok "tile $tile" run form=causal N=150 M=150 --dtype fp16 --candidate $tile
    few 1/6 && ok "tile $tile, fp32" run form=causal N=150 M=150 --candidate $tile
  done
  for rows in 1 17 127 128 129; do
    few 1/6 && ok "$rows rows" run form=causal N=$rows M=$rows --dtype fp16
  done
fi
same() { # same FORM SETTINGS: with --no-flash the same results, within what 16 bits allow
  run "$@" --dtype fp16 --no-flash
}
ok "--no-flash keeps scores in memory" [ "$(build/nngen show $model --stage fuse --dtype fp16 \
  --no-flash | grep '^# kernel' | grep -vcE ': copy( and [0-9]+ more)?, ')" -ge 3 ]
ok "and is right" same form=causal
why() { # why REASON OPTIONS...: nngen show says what keeps scores in memory
  build/nngen show $model "${@:2}" | grep "^# attend__.*, not fused with attend__.*: $1"
}
ok "odd heads are apart" why "head elements are not contiguous" --dtype fp16 --set D=33
ok "and of moves" why "its probabilities are permuted or reshaped" --set form=later
ok "a key without a value is values of rows" one sink N=9 M=20
ok "a condition that two layers read is computed by each" [ "$(kernels form=twice)" = 2 ]
long && ok "two layers" run form=twice --dtype fp16
large="H=32 G=32 N=16384 M=16384 B=1 D=32 W=32 form=causal"
ok "more than 2^31 scores, which are never in memory" build/nngen show $model --cuda \
  --dtype fp16 --set $large
ok "but not in memory" fails 2 "(1, 32, 16384, 16384) has 8589934592 elements" \
  build/nngen show $model --cuda --dtype fp16 --no-flash --set $large
shares() { # shares LEAST-SKIPPED MOST-SKIPPED LEAST-PLAIN FORM SETTINGS...: of tiles, in percent
  local least=$1 most=$2 plain=$3 form=$4 got; shift 4
  got=$(build/nngen $model --quiet --device sim --dtype fp16 --explain matmul \
    --set form=$form "$@" 2>&1 | grep "tiles of scores")
  echo "$got"
  echo "$got" | awk -v least=$least -v most=$most -v plain=$plain '
    {ok = $5 >= least && $5 <= most && $10 >= plain && $5 + $7 + $10 > 99.8}
    END {exit !ok}' FS='[ %]+'
}
square="B=1 D=64 W=64 H=1 G=1"
ok "causal skips nearly half, and has few tiles with the condition" \
  shares 45 50 45 causal $square N=4096 M=4096
ok "causal, more keys than queries" shares 20 25 65 causal $square N=2048 M=4096
ok "a window's work is linear in its width" shares 90 93.8 3 window $square N=4096 M=4096 window=256
ok "and again" shares 93 96.9 0 window $square N=4096 M=4096 window=128
ok "blocks along the diagonal" shares 85 93.8 0 blocks $square N=1024 M=1024
ok "grouped heads, causal" shares 25 48 25 causal B=1 H=4 G=2 N=320 M=320
ok "what tensors say is not known before" shares 0 0 0 lengths
ok "no conditions" shares 0 0 100 alibi
unspilled() { # unspilled ARCH HEAD DTYPE: it compiles, and no kernel spills
  build/nngen $model --quiet --arch $1 --dtype $3 --set D=$2 W=$2 H=8 G=8 N=2048 M=2048 form=causal \
    --json >"$work/json" || return
  ! grep -B5 '"spill_bytes": [1-9]' "$work/json" && grep -q '"spill_bytes": 0' "$work/json"
}
if build/nngen doctor 2>/dev/null | grep -q "^NVRTC.*version"; then
  i=0
  for arch in sm_80 sm_90a sm_100a; do
    sizes="64 128"
    long && sizes="16 32 40 64 80 96 128 160 192 256"
    for size in $sizes; do
      few 3/3 spills && ok "heads of $size spill nothing, $arch" unspilled $arch $size fp16
      long && [ $((i++ % 3)) = 0 ] && few 1/3 exact && # one of three GPUs for each size
        ok "heads of $size spill nothing, fp32, $arch" unspilled $arch $size fp32
    done
  done
fi
# Conditions on floats that hold NaN: with it no comparison is sure, whatever a tile's others are.
cat >"$work/nan.lua" <<'LUA'
local nn = require "nn"
local q, k = nn.input("q", {1, 1, 8, 16}), nn.input("k", {1, 1, 200, 16})
local v, a = nn.input("v", {1, 1, 200, 16}), nn.input("a", {200})
local function seen(mask) return q:attention(k, v, {mask = mask}) end
local cases = {
  more = function() return seen(a:gt(0)) end,
  number = function() return seen(a:isnan():logical_not()) end,
  finite = function() return seen(a:isfinite()) end,
  bent = function() return seen(a:tanh():gt(0)) end,
  number_itself = function()
    return nn.softmax(nn.where(a:isnan(), 0 / 0, q:matmul(k:transpose()))):matmul(v)
  end,
  twice = function() -- the first query sees no key
    local seen = nn.index({8, 1}, 1):gt(0)
    local p = nn.softmax(nn.where(seen, q:matmul(k:transpose()), -1 / 0))
    return nn.where(seen, p, 0):matmul(v)
  end,
  naive = function()
    return nn.softmax(nn.where(a:isnan(), -1 / 0, q:matmul(k:transpose()))):matmul(v)
  end,
}
nn.output("y", cases[nn.config{case = "more"}.case]())
LUA
nan() { # nan EVERY: each EVERY-th of the numbers
  python3 - "$work/a.npy" $1 <<'P'
import struct, sys
header = "{'descr': '<f4', 'fortran_order': False, 'shape': (200,), }"
header += ' ' * (63 - (10 + len(header)) % 64) + '\n'
a = [float('nan') if i % int(sys.argv[2]) == 0 else 1.0 for i in range(200)]
open(sys.argv[1], 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) +
                              header.encode() + struct.pack('<200f', *a))
P
  for case in more number finite bent twice naive; do
    build/nngen "$work/nan.lua" --quiet --check --input a="$work/a.npy" --set case=$case || return
  done
}
ok "conditions on NaN" nan 3
cat >"$work/rows.lua" <<'LUA'
-- Rows of scores that are NaN, -inf and inf, whose probabilities are then 0.
local nn = require "nn"
local c = nn.config{N = 9, M = 40}
local q, k = nn.input("q", {1, 2, c.N, 16}), nn.input("k", {1, 2, c.M, 16})
local row, s = nn.index({c.N, 1}, 1), q:matmul(k:transpose())
for i, value in ipairs{0 / 0, -1 / 0, 1 / 0} do s = nn.where(row:eq(i), value, s) end
nn.output("y", nn.nan_to_num(s:softmax(), 0):matmul(nn.input("v", {1, 2, c.M, 16})))
LUA
for sizes in "N=9 M=40" "N=5 M=3000"; do # in one part of the keys, in several
  ok "rows that are NaN, $sizes" build/nngen "$work/rows.lua" --quiet --check --dtype fp16 \
    --set $sizes
done
compiles() { build/nngen "$work/nan.lua" --quiet --no-check --set case=$1; }
ok "a score that is NaN by the model" compiles number_itself
ok "conditions on one NaN of many numbers" nan 200
cat >"$work/half.lua" <<'LUA'
local nn = require "nn"
local function input(name, n) return nn.input(name, {1, 2, n, 32}):half() end
local s = input("q", 65):matmul(input("k", 70):transpose()) / 32 ^ 0.5
nn.output("y", s:float():softmax(-1):half():matmul(input("v", 70)):float())
LUA
ok "probabilities that the model makes 16 bits of" build/nngen "$work/half.lua" --quiet --check
tap_done
