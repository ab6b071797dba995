#!/usr/bin/env bash
# Functions of the model language and their options beside PyTorch's, over random arguments: a test
# for each section of torch_cases.py and its like, one model of as many outputs as it has cases.
# By the oracle; in the long run one section of eight by kernels, on a GPU all of them.
. "$(dirname "$0")/../tap.sh"
python_with torch numpy
program=build/tests/lang/evaluate
export NNGEN_SIM_OPTIMIZE=${NNGEN_SIM_OPTIMIZE:+0} # some thousand kernels that run for no time
[ "$NNGEN_DEVICE" != sim ] && program=build/nngen
# section NAME: what was said of it, from its line to the next section's; fails without an "ok NAME:"
section() {
  sed -nE "/^(not )?ok $1:/,/^(not )?ok /{/^(not )?ok $1:|^ /p}" "$work/said"
  grep -q "^ok $1:" "$work/said" || { cat "$work/complaints"; return 1; }
}
for cases in tests/lang/torch_{cases,options,functions}.py; do
  sections=($(sed -n 's/^\(section\|layers\)("\([a-z_]*\)".*/\2/p' $cases)) by_kernels=() others=()
  for ((i = 0; i < ${#sections[@]}; i++)); do
    if long && few 1/8 sections; then by_kernels+=(${sections[i]})
    else others+=(${sections[i]}); fi
  done
  if [ "$python" ]; then
    long && $python -W ignore $cases build/nngen "$work" ${by_kernels[@]}
    $python -W ignore $cases $program "$work" ${others[@]}
  fi >"$work/said" 2>"$work/complaints"
  for name in ${sections[@]}; do
    if [ "$python" ]; then ok "$name" section "$name"
    else skip "$name" "python3-torch is not installed"; fi
  done
done
if [ "$python" ]; then
  ok "running statistics" $python -W ignore tests/lang/torch_steps.py build/nngen "$work"
else skip "running statistics" "python3-torch is not installed"; fi
tap_done
