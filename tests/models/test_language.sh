#!/usr/bin/env bash
# BERT, GPT-2 and LLaMA, small: each kernel against the oracle, and the outputs of weights under
# their public names against what the architecture means (transformers_reference.py, plain Python)
# and, where it is installed, against the code they come from (torch_transformers.py).
. "$(dirname "$0")/../tap.sh"
. tests/models/transformers.sh

tiny="batch=2 tokens=9 vocab=31 positions=12 layers=2 heads=3 width=24 inner=40"
means bert $tiny
published bert transformers $tiny
half bert --set $tiny
ok "BERT has 108 891 648 parameters without its pooler" count bert 108891648 --set size=base
ok "names of bert-base-uncased" named bert bert.encoder.layer.1.output.LayerNorm.gamma \
  --set prefix=bert gamma=true

tiny="batch=2 tokens=9 vocab=31 positions=12 layers=2 heads=3 width=24"
means gpt2 $tiny
published gpt2 transformers $tiny
half gpt2 --set $tiny
ok "GPT-2 has 124 439 808 parameters" count gpt2 124439808 --set size=small
ok "names with a prefix" named gpt2 transformer.h.1.attn.c_attn.weight --set prefix=transformer

tiny="batch=2 tokens=9 vocab=31 layers=2 heads=4 groups=2 width=32 inner=40 theta=1000"
means llama $tiny
published llama transformers $tiny
half llama --set $tiny
ok "LLaMA 3 has 8 030 261 248 parameters" count llama 8030261248 --set size=llama3_8b
ok "tied, it has no head of its own" count llama 7504924672 --set size=llama3_8b tied=true
long && ok "llama, tied" small llama fp32 --set $tiny tied=true
tap_done
