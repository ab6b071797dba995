#!/usr/bin/env bash
# Keys and values that no query sees are not finite (hidden.lua): the check takes it that attention
# skips them, and finds a kernel that drops a NaN which is seen.
. "$(dirname "$0")/../tap.sh"
run() { build/nngen tests/models/hidden.lua --quiet --check "$@"; }
ok "lengths" run
ok "lengths, derivatives" run --set grad=true
ok "lengths, derivatives, bf16" run --dtype bf16 --set grad=true
ok "lengths, unfused" run --lowering unfused
ok "minus infinity is added" run --set mask=added grad=true
ok "a NaN that is seen" run --set seen=true grad=true
ok "a NaN that is seen is dropped" fails 1 \
  "4160 elements are finite where the oracle's are not, or the reverse, first at 0: 0, expected nan" \
  run --set seen=true wrong=true
tap_done
