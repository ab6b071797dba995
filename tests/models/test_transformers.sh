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
long && ok "each step drops others" drops

tiny="batch=2 image=16 patch=8 layers=2 heads=3 width=24 inner=40 classes=7"
means vit $tiny
published vit torchvision $tiny
half vit --set $tiny
ok "vit_b_16 has 86 567 656 parameters" count vit 86567656 --set size=b_16
refused() { # refused TEXT MODEL SETTINGS...: settings that fit nothing, with the line of the model
  fails 2 "$1" build/nngen models/$2.lua --quiet --set "${@:3}" && grep -q "models/$2.lua:[0-9]" \
    "$work/fails"
}
ok "block of odd heads" refused "width must be a multiple of heads" block width=100 heads=3
ok "llama without heads" refused "width must be a multiple of heads" llama heads=0
ok "vit of odd heads" refused "a width of 24 is no multiple of 5 heads" vit heads=5
ok "vit of odd patches" refused "image must be a multiple of patch" vit patch=7
ok "bert of odd heads" refused "a width of 24 is no multiple of 7 heads" bert heads=7
ok "bert, too long" refused "there are more tokens than positions" bert tokens=41
ok "llama of odd groups" refused "4 heads of q are not a multiple of 3 heads of k" llama groups=3
ok "llama of odd heads" refused "need an even head size" llama width=36
ok "gpt2 of odd heads" refused "a width of 24 is no multiple of 5 heads" gpt2 heads=5
ok "gpt2 without a token" refused "a prompt has at least one token" gpt2 tokens=0
ok "gpt2, too long" refused "there are more tokens than positions" gpt2 tokens=41
ok "gpt2, most likely of too many" refused "top_k is from 1 to vocab" gpt2 top_k=98
ok "gpt2, a negative temperature" refused "temperature is above 0" gpt2 temperature=-1.0
tap_done
