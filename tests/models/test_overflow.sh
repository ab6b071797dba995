#!/usr/bin/env bash
# Whether f16 overflows depends on what a model computes, not on what was fused.
. "$(dirname "$0")/../tap.sh"
for case in product squares statistic mixed root window; do
  for lowering in fused unfused; do
    ok "beyond f16 on the way: $case, $lowering" build/nngen tests/models/overflow.lua --quiet \
      --dtype fp16 --lowering $lowering --set case=$case
  done
done
tap_done
