#!/usr/bin/env bash
# A step of a language model: what would cost memory of the size of its logits, or copies of q, k
# and v, is not there.
. "$(dirname "$0")/../tap.sh"
model=tests/models/gpt_step.lua
large="batch=8 tokens=1024 width=768 heads=12 vocabulary=50304"
build/nngen show $model --entry train --dtype bf16 --set $large --stage fuse >"$work/fuse"
kernels() { grep -cE "^# kernel [0-9]+ gpt_step__$1: $2.*, train, " "$work/fuse"; }
with_gradient() {
  [ "$(kernels 'cross_entropy[a-z_0-9]*' 'reduce_lse+.*eq.*mul.*add')" = 1 ] ||
    { grep '^# kernel.*cross_entropy' "$work/fuse"; return 1; }
}
ok "a cross-entropy and the gradient of its logits are one kernel" with_gradient
short() { # logits are stored in 16 bits, once
  [ "$(grep -cE '^%[0-9]+ = matmul.* : bf16\(8,1024,50304\).*"head"' "$work/fuse")" = 2 ] # and eval
}
ok "logits are bf16" short
ok "gradients of q, k and v are written where their product's gradient reads them" eval \
  '! grep -E "^# kernel.*(concat|reshape_grad_reshape|: reshape)" "$work/fuse"'
right() {
  build/nngen $model --quiet --check --entry train --steps 2 --set "$@"
}
ok "a step, fp32" right dtype=fp32
long && ok "a step, bf16" right dtype=bf16
rows="batch=8 tokens=32 vocabulary=20000 width=16"
together() { # as large
  build/nngen show $model --entry train --set $rows --stage fuse >"$work/fuse"
  with_gradient && right $rows
}
long && ok "of so many rows that one kernel has both" together
tap_done
