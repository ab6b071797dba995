#!/usr/bin/env bash
# bench_ptx.sh: what libcusim's path of PTX does, as Markdown tables, which runtime/sim/PTX.md
# has, too. Builds the tests it reads; kernels of Triton and CUTLASS where `make test-foreign` has
# left them in build/foreign.
set -u
cd "$(dirname "$0")/../.."
row() { printf '| %s | %s | %s |\n' "$1" "$2" "$3"; }
faulty='test_ptx test_ptx_products test_clusters test_early'
prims=$(for c in tests/prim/test_*.c; do basename "$c" .c; done)
forms='test_ptx_forms test_ptx_values test_ptx_video test_mma test_mma_shapes test_wmma
       test_ptx_kernels test_ptx_tensors'
make -s --no-print-directory $(printf ' build/tests/sim/%s' $faulty $forms) \
  $(printf ' build/tests/prim/%s' $prims) >&2 || exit 4

passed() { # of a test program's words: cmocka's count
  sed -n 's/^\[  PASSED  \] \([0-9]*\) test(s).*/\1/p'
}
primitives() {
  local names called=0 name total=0 alike=0 program cxx ptx
  names=$(cat templates/lib/prim.cuh templates/lib/prim_hopper.cuh | sed 's|//.*||' |
    grep -oE '\bnn_[a-z0-9_]+ *\(' | tr -d ' (' | grep -v nn_alignment | sort -u)
  for name in $names; do # some are put together: nn_ldmatrix_x%d%s
    grep -qE "\b($name|${name%_x[124]*}_x%d%s)\b" tests/prim/test_*.c && called=$((called + 1))
  done
  for program in $prims; do
    cxx=$(build/tests/prim/$program 2>&1 | passed)
    ptx=$(NNGEN_SIM_FRONTEND=nvrtc build/tests/prim/$program 2>&1 | passed)
    total=$((total + ${cxx:-0}))
    [ "${cxx:-0}" = "${ptx:-none}" ] && alike=$((alike + cxx))
  done
  row "primitives declared / named by tests of them" "$(wc -w <<<"$names") / $called" "all"
  row "tests of primitives that pass from C++ / and from NVRTC's PTX" "$total / $alike" "all"
}
planted() {
  local test said faults=0 right=0 accused=0
  for test in $faulty; do
    said=$(build/tests/sim/$test 2>/dev/null) || accused=1
    said=$(sed -nE 's/^# ([0-9]+) planted faults are caught, ([0-9]+) right.*/\1 \2/p' <<<"$said")
    [ "$said" ] || continue
    faults=$((faults + ${said% *})) right=$((right + ${said#* }))
  done
  row "faults planted in PTX (Hopper's among them) that are caught" "$faults" "at least 20"
  row "right twins that are accused, of $right" "$([ $accused = 0 ] && echo 0 || echo some)" "0"
}
foreign() {
  local work=build/foreign said pair stem right=0 run=0
  local libraries=$PWD/build:${CUDA_PATH:-/usr/local/cuda}/lib64
  [ -x $work/check_triton ] && ls $work/triton/*.ptx >/dev/null 2>&1 && {
    said=$($work/check_triton $work/triton 2>/dev/null)
    row "Triton's kernels for sm_80, sm_89, sm_90a that run and are right" \
      "$(grep -c '^ok' <<<"$said") of $(ls $work/triton/*.ptx | wc -l)" "all"
  }
  for stem in $work/cutlass/*.so; do
    stem=${stem%.so}
    [ -x $work/check_cutlass ] && [ -f "$stem.ptx" ] || continue
    run=$((run + 1))
    LD_LIBRARY_PATH=$libraries $work/check_cutlass "$stem.ptx" "$stem.so" >/dev/null 2>&1 &&
      right=$((right + 1))
  done
  [ $run = 0 ] || row "CUTLASS's kernels for sm_80 and sm_90a that run and are right" \
    "$right of $run" "all"
}
echo "| what | figure | wanted |"
echo "|---|---|---|"
primitives
planted
foreign
printf '\nInstructions of PTX, and forms of them that tests run:\n\n'
tests/sim/ptx_forms.sh
