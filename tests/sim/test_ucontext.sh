#!/usr/bin/env bash
# The way that fibers switch on processors without an assembly of ours (ucontext): the tests of
# device code on a libcusim that is built with it.
set -u
tests=(prim/test_threads sim/test_foreign ${NNGEN_TEST_LONG:+prim/test_matrix sim/test_reports})
[ "${DEVICE:-sim}" = sim ] || { echo "1..0 # SKIP only on libcusim"; exit 0; }
[ -e build/libcusim_ucontext.so ] ||
  { echo "1..0 # SKIP build/libcusim_ucontext.so is not built"; exit 0; }
echo "1..${#tests[@]}"
n=0
for t in "${tests[@]}"; do
  n=$((n + 1))
  if out=$(CUSIM_LIBRARY=build/libcusim_ucontext.so "build/tests/$t" 2>&1); then
    echo "ok $n - $t"
  else
    echo "not ok $n - $t"
    echo "$out" | grep -E 'libcusim|ERROR|not ok' | sed 's/^/# /'
  fi
done
