#!/usr/bin/env bash
# A transformer block and the Vision Transformer, small: each kernel against the oracle, and the
# outputs of weights under their public names against what the architecture means
# (transformers_reference.py, plain Python) and, where it is installed, against the code they come
# from (torch_transformers.py).
. "$(dirname "$0")/../tap.sh"
. tests/models/transformers.sh

tiny="tokens=9 width=24 heads=3 batch=2"
ok "block has 12 593 152 parameters" count block 12593152
means block $tiny
half block --set tokens=33 width=48 heads=3
ok "block, a step of training with dropout" small block fp32 --entry train --set $tiny dropout=0.1
drops() { # of the same weights, the loss of the second step is another one
  local from= i loss all=
  for i in 1 2; do
    build/nngen models/block.lua --quiet --no-check --entry train \
      --set $tiny dropout=0.5 lr=0 $from --save "$work/w$i.safetensors" \
      --output "$work/drops" >"$work/log" 2>&1 ||
      { tail -3 "$work/log"; return 1; }
    from="--weights $work/w$i.safetensors"
    loss=$(tail -c 4 "$work/drops/train.loss.npy" | od -An -tx4) all+=$loss
  done
  [ "$(echo $all | tr ' ' '\n' | sort -u | wc -l)" = 2 ] || { echo "losses$all"; return 1; }
}
ok "each step drops others" drops

tiny="batch=2 image=16 patch=8 layers=2 heads=3 width=24 inner=40 classes=7"
means vit $tiny
published vit torchvision $tiny
half vit --set $tiny
ok "vit_b_16 has 86 567 656 parameters" count vit 86567656 --set size=b_16
tap_done
