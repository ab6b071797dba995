#!/usr/bin/env bash
# Kernels compiled by Clang in place of GCC: the tests of device code, of reports, of counters
# and of planted bugs, of which 5 of 51 stay unseen or have no line (README.md). Without
# NNGEN_TEST_LONG=1 one of them; with it also a third of the others, which ones, the turn says.
. "$(dirname "$0")/../tap.sh"
[ "${DEVICE:-sim}" = sim ] || { echo "1..0 # SKIP only on libcusim"; exit 0; }
command -v clang++ >/dev/null || { echo "1..0 # SKIP clang++ is not installed"; exit 0; }
tests=(prim/test_threads)
for t in sim/test_reports prim/test_matrix sim/test_ptx_kernels sim/test_counters \
  "sim/test_planted 5" sim/test_races; do
  long && few 1/3 && tests+=("$t")
done
echo "1..${#tests[@]}"
n=0
for t in "${tests[@]}"; do
  n=$((n + 1))
  # shellcheck disable=SC2086 # a test and its argument
  if out=$(NNGEN_CXX=clang++ build/tests/$t 2>&1); then
    echo "ok $n - $t"
  else
    echo "not ok $n - $t"
    echo "$out" | grep -E 'libcusim|ERROR|not ok' | sed 's/^/# /'
  fi
done
