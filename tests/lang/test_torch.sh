#!/usr/bin/env bash
# Functions of the model language and their options beside PyTorch's, over random arguments: a test
# for each section of torch_cases.py and its like, one model of as many outputs as it has cases.
. "$(dirname "$0")/../tap.sh"
python=
for p in /usr/bin/python3 python3; do
  [ -z "$python" ] && $p -c 'import torch, numpy' 2>/dev/null && python=$p
done
for cases in tests/lang/torch_{cases,options,functions}.py; do
  for name in $(sed -n 's/^\(section\|layers\)("\([a-z_]*\)".*/\2/p' $cases); do
    if [ -z "$python" ]; then skip "$name" "python3-torch is not installed"
    else ok "$name" $python -W ignore $cases build/nngen "$work" "$name"; fi
  done
done
if [ -z "$python" ]; then skip "running statistics" "python3-torch is not installed"
else ok "running statistics" $python -W ignore tests/lang/torch_steps.py build/nngen "$work"; fi
tap_done
