#!/usr/bin/env bash
# Products of one row: what multiplies and scales them is their kernel's; and what is not.
. "$(dirname "$0")/../tap.sh"
model=tests/models/vectors.lua
vector() { # vector CASE DTYPE KERNELS [SETTING...]
  build/nngen $model --quiet --check --dtype $2 --set case=$1 "${@:4}" >"$work/log" 2>&1 &&
    grep -q "ops -> $3 kernel" "$work/log" || { cat "$work/log"; echo "not $3 kernels"; return 1; }
}
for one in glu:2 joined:2 thirds:1 same:1 by_hand:2 unequal:3 output:2 whole:2 before:2 rms:2 \
  layer:2 rms_glu:3 read_again:3 shared:3 batches:2 axes:2; do
  dtypes=(fp32 fp16 bf16)
  for dtype in ${dtypes[@]}; do
    few 4/1 || continue
    case=${one%:*}
    ok "$case, $dtype" vector $case $dtype ${one#*:}
  done
done
for one in glu:2 joined:2 rms_glu:3; do
  ok "${one%:*} of a matrix of one row, odd sizes" vector ${one%:*} fp16 ${one#*:} rank=2 K=92 N=37
done
once() { # once DTYPE BYTES: weights that entries share are stored once
  build/nngen show $model --dtype $1 --set case=entries --plan >"$work/plan" &&
    bytes=$(sed -n 's/^ "static_bytes": \(.*\),/\1/p' "$work/plan") && echo "$bytes bytes" &&
    [ "$bytes" -lt $2 ]
}
ok "weights of several entries are stored once, fp32" once fp32 $((4 * 3 * 96 * 64 + 16384))
ok "and in 16 bits" once fp16 $((2 * 3 * 96 * 64 + 16384))
ok "they are right, bf16" vector entries bf16 2
row_only() { # row_only DTYPE: a cache's new row, made of its own rows, does not rewrite all of it
  cat >"$work/cache.lua" <<'LUA'
local nn = require "nn"
local P = nn.config{P = 4096}.P
local s, x = nn.state("s", {1, 2, P, 8}), nn.input("x", {1, 2, 1, 4})
local pos = nn.input("pos", {1}, {dtype = "i32", below = P})
local first, second = nn.slice(s, 3, 1, 1), nn.slice(s, 3, 2, 2)
local row = nn.concat({nn.slice(first, 4, 5, 8) + x, nn.slice(second, 4, 1, 4) * 2}, 4)
local new = nn.where(nn.index({1, 1, P, 1}, 3):eq(pos), row, s)
nn.update(s, new)
nn.output("y", x * 2)
LUA
  build/nngen "$work/cache.lua" --quiet --check --dtype $1 --set P=16 >"$work/log" 2>&1 &&
    build/nngen "$work/cache.lua" --quiet --no-check --dtype $1 --json >"$work/json" &&
    python3 -c "
import json, sys
moved = sum(k['bytes_read'] + k['bytes_written'] for k in json.load(open('$work/json'))['kernels'])
print(moved, 'bytes')
sys.exit(not moved < 4096)" || { cat "$work/log"; return 1; }
}
ok "a row of a cache made of its rows" row_only fp16
ok "glu, tf32" vector glu tf32 2
tap_done
