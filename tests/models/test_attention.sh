#!/usr/bin/env bash
# nn.attention with each of its options and all of them (attention.lua): each kernel against the
# oracle, and the outputs against what attention means, computed one query and key at a time
# (attention_reference.py).
. "$(dirname "$0")/../tap.sh"
. tests/models/attention.sh
inputs square
for case in $(sed -n 's/.*case("\([a-z_]*\)".*/\1/p' $model); do
  few 4/2 && ok "$case, fp16" run $case fp16
  long && few 1/2 fp32 && ok "$case, fp32" run $case fp32
done
ok "the outputs are what attention means, fp16" means fp16 3e-3
long && ok "all, fp32" both all fp32 1e-5
long && ok "all, bf16" both all bf16 2e-2
name="scaled_dot_product_attention of PyTorch, fp32"
if ! long; then : # its outputs are those of `all, fp32`
elif python3 -c \
  'import numpy, torch; torch.nn.functional.scaled_dot_product_attention' 2>/dev/null; then
  ok "$name" python3 tests/models/torch_attention.py "$folder" "$folder.fp32" 1e-5
else skip "$name" "PyTorch 2.1 is not installed"; fi
ok "together, unfused" run together fp16 --lowering unfused
for seed in 1 2; do
  ok "together, thread order $seed" env NNGEN_SIM_SEED=$seed build/nngen $model --quiet --check \
    --set cases=together
done
tap_done
