#!/usr/bin/env bash
# nn.attention of odd shapes (attention.lua), against the oracle and against what it means; then
# what holds of it whatever it computes (attention_laws.lua).
. "$(dirname "$0")/../tap.sh"
. tests/models/attention.sh
some=$(long && echo causal,two_documents,)causal_window,together
inputs longer queries=5 keys=33 groups=1
ok "one head of keys, more keys than queries, fp32" both $some,prefixes,alibi fp32 1e-5
ok "the same, fp16" both $some fp16 3e-3
inputs shorter queries=33 keys=5 groups=6
ok "more queries than keys, so that some see none, fp32" both $some,window fp32 1e-5
inputs deep queries=33 keys=33 heads=3 groups=3 depth=40 values=40 batch=1
long && ok "three heads of depth 40, 33 tokens, fp16" both plain,lengths,$some fp16 3e-3
inputs odd queries=33 keys=33 heads=4 groups=2 depth=33 values=31 batch=1
long && ok "heads of 33 and 31 numbers, fp16" both plain,causal,gradient,$some fp16 3e-3
one() { # its scores are in no memory
  build/nngen show tests/models/attention.lua --dtype fp16 --set cases=causal depth=33 values=31 \
    >"$work/o" && grep -q '^# kernel .*matmul+.*exp.*+matmul' "$work/o"
}
ok "which are attention in one kernel" one
inputs query queries=1 keys=33
ok "one query, fp16" both $some fp16 3e-3
inputs key queries=9 keys=1
ok "one key, fp32" both plain,lengths,causal,two_documents fp32 1e-5
inputs point queries=1 keys=1 heads=1 groups=1 depth=1 values=1
ok "one query and one key of one number" both plain,lengths,gradient fp32 1e-5

law() { # law CASE DTYPE GATE VERB: the two outputs of attention_laws.lua, compared
  build/nngen tests/models/attention_laws.lua --quiet --check --dtype $2 --set case=$1 \
    --output "$work/$1" &&
    $reference ${4:-equal} "$work/$1/one.npy" "$work/$1/other.npy" $3 ${5:-}
}
few 4/2 && ok "a causal row is the row of a run that ends there" law prefix fp32 1e-5
few 4/2 && ok "the last queries of a run, alone" law continued fp16 3e-3
few 4/2 && ok "keys in another order" law permuted fp16 3e-3
few 4/2 && ok "keys in two parts, joined by log-sum-exp" law split fp32 1e-5
few 4/2 && ok "keys written out for each head of a group" law groups fp16 3e-3
ok "tensors of functions are of batches" law of_batches fp32 1e-6
few 4/2 && ok "options that say nothing" law void fp32 1e-6
few 4/2 && ok "dropout keeps its share and scales it" law dropout fp32 1e-5 dropout 0.3
tap_done
