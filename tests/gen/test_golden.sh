#!/usr/bin/env bash
# Golden kernels: the CUDA of a few models, as it was accepted. A refactoring must show that 0
# kernels differ; `make bless` accepts what is generated now.
. "$(dirname "$0")/../tap.sh"
golden() { # golden NAME ARGUMENTS...
  local file=tests/gen/golden/$1.cu; shift
  build/nngen show "$@" --cuda >"$work/new.cu" || return
  [ "${BLESS:-}" ] && cp "$work/new.cu" "$file"
  cmp -s "$work/new.cu" "$file" && return
  diff <(grep -n '__global__' "$file" | wc -l) \
    <(grep -n '__global__' "$work/new.cu" | wc -l) >/dev/null ||
    echo "the number of kernels differs"
  diff "$file" "$work/new.cu" | head -40
  return 1
}
ok "lenet fp32" golden lenet_fp32 models/lenet.lua
ok "mlp fp16" golden mlp_fp16 models/mlp.lua --dtype fp16
ok "resnet18 layer2.0 bf16" golden resnet18_layer2_0_bf16 models/resnet18.lua --dtype bf16 \
  --kernel layer2_0
ok "every map" golden all_maps tests/models/all_maps.lua --kernel ceil
tap_done
