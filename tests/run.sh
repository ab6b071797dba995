#!/usr/bin/env bash
# run.sh TEST...: runs each test program (it speaks TAP on stdout), prints what failed, and ends
# with one line `N passed, N failed, N skipped`. NNGEN_TEST=REGEX picks programs by name.
set -u
export NNGEN_DEVICE=${NNGEN_DEVICE:-${DEVICE:-sim}} # the device of every test
jobs=${NNGEN_JOBS:-$(nproc)}
out=$(mktemp -d) || exit 4
trap 'rm -rf "$out"' EXIT
one() { # one TEST INDEX: its TAP to $out/INDEX.tap, a crash or a silent end as a failed test
  local log=$2/$3
  local begin; begin=$(date +%s%N)
  CMOCKA_MESSAGE_OUTPUT=TAP timeout "${NNGEN_TEST_TIMEOUT:-300}" "$1" >"$log.tap" 2>"$log.err" </dev/null
  local rc=$?
  echo $((($(date +%s%N) - begin) / 1000000)) >"$log.ms"
  sed -i -E 's/^not (ok [0-9]+ # *SKIP)/\1/' "$log.tap" # cmocka calls a skipped test "not ok"
  local planned; planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$log.tap" | tail -1)
  local ran; ran=$(grep -cE '^(not )?ok\b' "$log.tap")
  if [ -z "$planned" ] || [ "$planned" != "$ran" ]; then
    echo "not ok - $1 ended early: exit code $rc, ${planned:-no plan} planned, $ran ran" >>"$log.tap"
  elif [ $rc != 0 ] && ! grep -q '^not ok' "$log.tap"; then
    echo "not ok - $1 exit code $rc" >>"$log.tap"
  fi
}
export -f one
i=0
for t in "$@"; do
  [[ -z "${NNGEN_TEST:-}" || "$t" =~ $NNGEN_TEST ]] && printf '%s\0%s\0%s\0' "$t" "$out" "$i"
  i=$((i + 1))
done | xargs -0 -r -n3 -P"$jobs" bash -c 'one "$0" "$1" "$2"'
passed=0 failed=0 skipped=0 i=0
for t in "$@"; do
  if [ -f "$out/$i.tap" ]; then
    s=$(grep -cE '^ok\b.*# *SKIP' "$out/$i.tap"); o=$(grep -cE '^ok\b' "$out/$i.tap")
    f=$(grep -cE '^not ok\b' "$out/$i.tap")
    printf '%-52s %4d ok %3d skipped %3d failed %6d ms\n' "$t" $((o - s)) "$s" "$f" "$(cat "$out/$i.ms")"
    grep -E '^ok\b.*# *SKIP' "$out/$i.tap" | sed 's/^/    /'
    if [ "$f" != 0 ]; then
      grep -vE '^ok\b' "$out/$i.tap" | sed 's/^/    /' | head -120
      tail -40 "$out/$i.err" | sed 's/^/    stderr: /'
    fi
    passed=$((passed + o - s)) failed=$((failed + f)) skipped=$((skipped + s))
  fi
  i=$((i + 1))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
