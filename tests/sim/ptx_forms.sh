#!/usr/bin/env bash
# ptx_forms.sh [TEST ...]: the instructions of PTX that libcusim knows (the tables of
# runtime/sim/ptx/emit_*.c) and those the tests run and hold to values, as a table: how many of each
# family, how many forms (an instruction with its modifiers and types), and which were not run.
# TEST: programs below build/tests/ (else those of PTX and, by NVIDIA's NVRTC, the primitives that
# are built). A test that fails counts for nothing and makes this fail.
set -u
cd "$(dirname "$0")/../.."
work=$(mktemp -d) failed=0
trap 'rm -rf "$work"' EXIT
direct='sim/test_ptx sim/test_ptx_forms sim/test_ptx_products sim/test_ptx_values sim/test_ptx_video
        sim/test_mma sim/test_mma_shapes sim/test_wmma sim/test_clusters sim/test_ptx_kernels sim/test_ptx_tensors sim/test_early'
if [ $# = 0 ]; then
  set -- $direct
  for program in build/tests/prim/test_*; do
    [ -x "$program" ] && [ ! -d "$program" ] && set -- "$@" "${program#build/tests/}"
  done
fi

# The opcodes of the texts that were compiled, without guards and labels: one a line.
opcodes() {
  find "$work/run" -name source.ptx -exec cat {} + | sed 's|//.*||' | tr ';{}' '\n\n\n' |
    sed -E -e 's/^[[:space:]]*([A-Za-z_$][A-Za-z0-9_$]*:[[:space:]]+)?//' \
      -e 's/^@!?%?[A-Za-z0-9_]+[[:space:]]+//' |
    grep -oE '^[a-z][a-z0-9]*([.:]+[A-Za-z0-9_]+)*([[:space:]]|$)' | tr -d ' \t' | sort -u
}

for test in "$@"; do
  mkdir "$work/run"
  case $test in prim/*) front=nvrtc ;; *) front=cxx ;; esac
  if NNGEN_SIM_KEEP=1 TMPDIR=$work/run NNGEN_SIM_FRONTEND=$front build/tests/$test \
    >"$work/said" 2>&1; then
    opcodes >>"$work/forms"
  else
    echo "# $test fails: $(tail -1 "$work/said")" >&2
    failed=1
  fi
  rm -rf "$work/run"
done
sort -u "$work/forms" -o "$work/forms"

# Which file of the emitter knows which instruction, but those it refuses by name: `family
# instruction`, one a line.
for file in runtime/sim/ptx/emit_*.c; do
  family=${file##*/emit_} family=${family%.c}
  sed -n '/^const EmitRow/,/{0}}/p' "$file" | grep -oE '\{"[a-z0-9_.:]+", *[a-z_]+' |
    grep -vE 'emit_(texture|sparse|multimem)$' | tr -d '{"' | sed 's/,.*//' |
    sed "s/^/$family /"
done >"$work/known"

awk -v known="$work/known" '
  BEGIN {
    while ((getline line < known) > 0) {
      split(line, word, " ")
      family[word[2]] = word[1]
      if (!(word[1] in count)) order[++families] = word[1]
      count[word[1]]++
      names[word[1]] = names[word[1]] " " word[2]
    }
  }
  { # the longest instruction that the form begins with
    name = $1
    while (!(name in family) && sub(/\.[^.]*$/, "", name));
    if (name in family) { forms[name]++; all++ }
  }
  END {
    print "| family (`emit_*.c`) | instructions | run by tests | forms | not run |"
    print "|---|---|---|---|---|"
    for (i = 1; i <= families; i++) {
      f = order[i]; run = sum = 0; missing = ""
      n = split(names[f], list, " ")
      for (k = 1; k <= n; k++)
        if (list[k] in forms) { run++; sum += forms[list[k]] } else missing = missing " " list[k]
      print "| " f " | " n " | " run " | " sum " |" missing " |"
      known_all += n; run_all += run
    }
    print "| all | " known_all " | " run_all " | " all " | |"
  }' "$work/forms"
exit $failed
