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
outside() { # outside FORM FROM: in libcusim's own C++ the launch ends; else the check finds it
  local code=2 text="is not 0 to 4"
  [ "$NNGEN_DEVICE-${NNGEN_SIM_FRONTEND:-cxx}" = sim-cxx ] && code=3 \
    text="an id is inside its table"
  fails $code "$text" run --set case=outside form=$1 from=$2
}
for form in gather take_along embedding loss rows scatter scatter_add index_add index_fill one_hot
do
  ok "an id too large, $form" outside $form 5
  ok "an id below 0, $form" outside $form -100
done
tap_done
