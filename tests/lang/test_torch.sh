#!/usr/bin/env bash
# Functions of the model language and their options beside PyTorch's, over random arguments: a test
# for each section of torch_cases.py and its like, one model of as many outputs as it has cases.
# By the oracle; in the long run, and on a GPU, by kernels.
. "$(dirname "$0")/../tap.sh"
python_with torch numpy
program=build/tests/lang/evaluate
export NNGEN_SIM_OPTIMIZE=${NNGEN_SIM_OPTIMIZE:+0} # some thousand kernels that run for no time
{ long || [ "$NNGEN_DEVICE" != sim ]; } && program=build/nngen
# section NAME: what was said of it, from its line to the next section's; fails without an "ok NAME:"
section() {
  sed -nE "/^(not )?ok $1:/,/^(not )?ok /{/^(not )?ok $1:|^ /p}" "$work/said"
  grep -q "^ok $1:" "$work/said" || { cat "$work/complaints"; return 1; }
}
for cases in tests/lang/torch_{cases,options,functions}.py; do
  [ "$python" ] && $python -W ignore $cases $program "$work" >"$work/said" 2>"$work/complaints"
  for name in $(sed -n 's/^\(section\|layers\)("\([a-z_]*\)".*/\2/p' $cases); do
    if [ "$python" ]; then ok "$name" section "$name"
    else skip "$name" "python3-torch is not installed"; fi
  done
done
if [ "$python" ]; then
  ok "running statistics" $python -W ignore tests/lang/torch_steps.py build/nngen "$work"
else skip "running statistics" "python3-torch is not installed"; fi
tap_done
