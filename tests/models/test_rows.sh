#!/usr/bin/env bash
# Batches become rows of one product where the right operand is the same for all of them, however
# the left one lies.
. "$(dirname "$0")/../tap.sh"
explain() { build/nngen "$1" --quiet --device sim --dtype fp16 --explain "$2" 2>/dev/null; }
product() { # product MODEL LAYER: "m N, n N, k N, batch N"
  explain "$@" | sed -n 's/^  product \(.*\); the best.*/\1/p'
}
is() { # is MODEL LAYER M BATCH
  product "$1" "$2" | grep -q "^m $3, .* batch $4$" || { product "$1" "$2"; return 1; }
}
rows=tests/models/rows.lua block=tests/models/transformer.lua
ok "a linear layer is one product" is $rows __inner 60 1
ok "the value that is computed on the way" is $rows __computed1 60 1
ok "matrices of one row" is $rows __one_row1 7 1
ok "what is turned" is $rows __turned1 21 1
ok "only the dimensions that the right operand lacks" is $rows __matmul 20 3
ok "dimensions that do not lie together" is $rows __permuted1 60 1
for layer in norm1_qkv out up down; do ok "$layer of a transformer" is $block __$layer 20 1; done
tuned() { # tuned MODEL LAYER KEY: a tuning file names the product, not the shapes of the model
  explain "$1" "$2" | grep -F "in a tuning file: \"fp16 matmul $3\""
}
ok "the key of a linear layer" tuned $block __norm1_qkv "20x32 by 32x96 transposed"
attention_key() {
  explain $block __matmul |
    grep -F "in a tuning file: \"fp16 attention 4x10x16 to 4x10x16 by 4x10x16\""
}
ok "the key of attention" attention_key
ok "the key of all rows" tuned $rows __permuted1 "60x24 by 24x20 transposed"
for dtype in fp32 tf32 fp16 bf16; do
  for lowering in fused unfused; do
    few 8/2 || continue
    o="--quiet --check --dtype $dtype --lowering $lowering"
    ok "rows, $dtype $lowering" build/nngen $rows $o
    ok "transformer, $dtype $lowering" build/nngen $block $o
    ok "values of rows before any reduction, $dtype $lowering" build/nngen tests/models/gates.lua $o
  done
done
tap_done
