#!/usr/bin/env bash
# Derivatives of attention in many forms (weigh.lua), each kernel and each output against the
# oracle; which of them keep scores out of memory.
. "$(dirname "$0")/../tap.sh"
derived() { # derived CASE DTYPE KERNELS: so many of the template `weigh`
  build/nngen tests/models/weigh.lua --quiet --check --dtype $2 --set case=$1 >"$work/log" 2>&1 ||
    { cat "$work/log"; return 1; }
  [ "$(grep -c " weigh  " "$work/log")" -ge $3 ] ||
    { cat "$work/log"; echo "not $3 kernels compute scores again"; return 1; }
}
i=0
for one in plain:3 bias:1 table:1 rows:1 dropout:3 lengths:3 lse:3 grouped:3 one_key:0 \
  odd_values:0 deep:3 low:3 itself:3 twice:3 two_values:1 entropy:1 shared_keys:2 learned_keys:2 \
  mixed_heads:1 fused_projection:3 einsum:3 joined_batches:3 repeated_heads:3 \
  exponentials:0 other_batches:0 joined_inputs:0 padded_types:0; do
  few 3 || continue
  dtypes=(fp32 fp16) i=$((i + 1))
  for dtype in $(long && echo fp32 fp16 || echo ${dtypes[i % 2]}); do
    [ $one$dtype = twice:3fp16 ] && continue # rounding twice costs it the gate of a model
    ok "${one%:*}, $dtype" derived ${one%:*} $dtype ${one#*:}
  done
done
for one in lengths $(long && echo grouped fused_projection); do ok "$one, tf32" derived $one tf32 3; done
ok "scores far from 0, fp32" derived far fp32 3
hidden() { derived hidden bf16 3 && ! grep -e "rounding alone" "$work/log"; }
ok "a mask that is stored rounded, bf16" hidden
trained() {
  build/nngen tests/models/weigh.lua --quiet --check \
    --entry train --set case=trained >"$work/log" 2>&1 || { cat "$work/log"; return 1; }
  [ "$(grep -c " weigh  " "$work/log")" = 3 ] || { cat "$work/log"; return 1; }
}
ok "scores divided by a parameter that is trained" trained
in_order() {
  build/nngen show tests/models/weigh.lua --set case=joined_inputs |
    grep -q '^%0 = input() : f32(2,3,4,8)<0,1,2,3>'
}
ok "inputs that are joined and moved lie as they are given" in_order
tap_done
