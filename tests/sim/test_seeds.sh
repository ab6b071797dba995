#!/usr/bin/env bash
# Tests of kernels again on libcusim: under random orders of lanes, warps and blocks, and
# with every access checked. A kernel that is right is right in all of them.
set -u
tests=(prim/test_threads ${NNGEN_TEST_LONG:+prim/test_matrix} sim/test_foreign sim/test_api)
settings=("3 all" ${NNGEN_TEST_LONG:+"1 basic" "2 basic" "4 race" "5 address"})
[ "${DEVICE:-sim}" = sim ] || { echo "1..0 # SKIP only on libcusim"; exit 0; }
echo "1..$((${#tests[@]} * ${#settings[@]}))"
n=0
for t in "${tests[@]}"; do
  for s in "${settings[@]}"; do
    n=$((n + 1))
    read -r seed check <<<"$s"
    if out=$(NNGEN_SIM_SEED=$seed NNGEN_SIM_CHECK=$check "build/tests/$t" 2>&1); then
      echo "ok $n - $t, seed $seed, $check"
    else
      echo "not ok $n - $t, seed $seed, $check"
      echo "$out" | grep -E 'libcusim|ERROR|not ok' | sed 's/^/# /'
    fi
  done
done
