#!/usr/bin/env bash
# Queries, keys and values are stored where attention reads them, in whole vectors, whatever order
# the columns of their projection have.
. "$(dirname "$0")/../tap.sh"
model=tests/models/split_columns.lua
stored() { # stored KERNELS LANES PACK DTYPE SETTING...: so many neighbours are stored together
  local set="pack=$3 ${*:5}"
  build/nngen $model --quiet --check --dtype $4 --set $set >"$work/log" 2>&1 &&
    grep -q "ops -> $1 kernels" "$work/log" || { cat "$work/log"; return 1; }
  build/nngen show $model --dtype $4 --cuda --set $set >"$work/cuda" || return 1
  grep -m1 "neighbouring outputs per thread" "$work/cuda" | tee "$work/lanes" | grep -q "= $2;" ||
    { cat "$work/lanes"; echo "want $2"; return 1; }
}
for pack in n3hd nh3d nhd3 nd3h ndh3 n3dh; do
  for read in permute slices; do
    for of in fp16:8 fp32:4 bf16:8; do
      [ $pack$read = n3dhslices ] || few 5/2 || continue
      lanes=${of#*:}
      [ $pack$read = n3dhslices ] && { few 5/3 apart || continue; lanes=2; } # of each slice alone
      ok "$pack, $read, ${of%:*}" stored 3 $lanes $pack ${of%:*} read=$read
    done
  done
done
ok "chunks of each head, fp16" stored 3 8 nh3d fp16 read=chunks
ok "without a bias, odd sizes" stored 3 8 nhd3 fp16 bias=false N=37 H=3 D=24
ok "what is also read whole keeps the order of the model" stored 4 1 nhd3 fp16 read=whole
others() { # others CASE DTYPE KERNELS
  build/nngen tests/models/columns.lua --quiet --check --dtype $2 --set case=$1 >"$work/log" 2>&1 &&
    grep -q "ops -> $3 kernel" "$work/log" || { cat "$work/log"; echo "not $3 kernels"; return 1; }
}
for of in glu:1 parallel:2 turned:1 rotary:1 shared:3 dims:2 shuffle:1 wide_bias:2; do
  few 2/1 others && ok "columns: ${of%:*}, fp32" others ${of%:*} fp32 ${of#*:}
done
ok "columns: rotary pairs, bf16" others rotary bf16 3 # and of its input, its parts
tap_done
