#!/usr/bin/env bash
# Whether f16 overflows depends on what a model computes, not on what was fused.
. "$(dirname "$0")/../tap.sh"
within() { # within CASE LOWERING: every output is, not for what rounding may do, nor as an infinity
  build/nngen tests/models/overflow.lua --dtype fp16 --lowering $2 --set case=$1 >"$work/log" ||
    return 1
  ! grep 'rounding alone\|beyond the range' "$work/log"
}
for case in product squares gathered statistic mixed readers shared positions root scores window \
  outputs gates ratio rows factor; do
  for lowering in fused unfused; do
    few 5/3 || continue
    ok "beyond f16 on the way: $case, $lowering" within $case $lowering
  done
done
says_infinite() {
  build/nngen tests/models/overflow.lua --dtype fp16 --set case=beyond >"$work/log" || return 1
  grep -q "2048 of its elements are beyond the range of this dtype, and infinite" "$work/log"
}
ok "infinite results are said to be so" says_infinite
says_why() {
  build/nngen show tests/models/overflow.lua --dtype fp16 --stage prec |
    grep -q '^# it may overflow 16 bits, and a reader would notice, so stored in f32: %'
}
ok "show says why values are not stored in 16 bits" says_why
precise() { # precise DTYPE LOWERING: integers, ids and draws have the bits that they have in fp32
  local name
  build/nngen tests/models/precise.lua --quiet --dtype $1 --lowering $2 \
    --output "$work/$1$2" >"$work/log" || { cat "$work/log"; return 1; }
  for name in pooled joined floored top drawn; do
    cmp "$work/fp32fused/$name.npy" "$work/$1$2/$name.npy" || return 1
  done
  cmp "$work/$1$2/drawn.npy" "$work/$1$2/turned.npy" &&
    cmp <(tail -c 256 "$work/$1$2/first.npy") <(tail -c 256 "$work/$1$2/largest.npy")
}
for dtype in fp32 fp16 bf16; do
  ok "ids, draws and orders, $dtype, fused" precise $dtype fused
  long && ok "ids, draws and orders, $dtype, unfused" precise $dtype unfused
done
tap_done
