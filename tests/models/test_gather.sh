#!/usr/bin/env bash
# Gathers and scatters (gather.lua) against the oracle; ids that a table has not.
. "$(dirname "$0")/../tap.sh"
run() { build/nngen tests/models/gather.lua --quiet --check "$@"; }
for case in rows along embedding scatter; do
  ok "$case" run --set case=$case
  ok "$case, fp16, unfused" run --set case=$case --dtype fp16 --lowering unfused
done
kernels() { # the embeddings and the norm are one kernel, the product another
  run --set case=embedding >"$work/log" && grep -q '^layer\|gather+gather' "$work/log" &&
    [ "$(grep -c 'rowwise\|contract\|map ' "$work/log")" -le 3 ]
}
ok "embeddings are part of the norm" kernels
if [ "$NNGEN_DEVICE" = sim ]; then
  ok "an id outside the table ends the launch" fails 3 "an id is inside its table" \
    run --set case=outside
else
  ok "an id outside the table is found by the check" fails 2 "is not 0 to 4" run --set case=outside
fi
tap_done
