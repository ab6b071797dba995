#!/usr/bin/env bash
# Maps that read across memory (transposed.lua): one kernel, right, and modelled as reading whole
# sectors: --costs has the part of those that are used in part.
. "$(dirname "$0")/../tap.sh"
model=tests/models/transposed.lua
right() { # right OPTIONS...: one kernel
  [ "$(build/nngen show $model "$@" | grep -c '^# kernel')" = 1 ] || return
  build/nngen $model --quiet --check "$@"
}
for case in $(sed -n 's/^function cases\.\([a-z_]*\).*/\1/p' $model); do
  ok "$case" right --set case=$case
  ok "$case, fp16" right --set case=$case --dtype fp16
done
part() { build/nngen show $model --costs --json "$@" | sed -n 's/.*"sectors": \([0-9.]*\).*/\1/p'; }
whole() { [ "$(part "$@")" = 0.0 ]; }
in_part() { ! whole "$@"; }
ok "a transposed read fills sectors" whole --set case=one n=4096
ok "so does a sum with one" whole --set case=both n=512
ok "every second element does not" in_part --set case=halves n=4096
tap_done
