#!/usr/bin/env bash
# run.sh TEST...: runs each test program (it speaks TAP on stdout); as each ends, prints its line
# (with the seconds of processor time it and its children took) and what failed of it, and at last
# one line `N passed, N failed, N skipped`. NNGEN_TEST=REGEX picks programs by name. A program that
# runs longer than NNGEN_TEST_TIMEOUT seconds is ended: 600, in the long run 2400.
set -u
export NNGEN_TEST_TIMEOUT=${NNGEN_TEST_TIMEOUT:-$([ "${NNGEN_TEST_LONG:-}" ] && echo 2400 ||
  echo 600)}
# Which of like cases the long run takes (`few` in tap.sh), and which third of the programs does
# only what it does in the short run: others after each commit.
export NNGEN_TEST_TURN=${NNGEN_TEST_TURN:-$([ "${NNGEN_TEST_LONG:-}" ] &&
  git log -1 --format=%ct 2>/dev/null || echo 0)}
export NNGEN_DEVICE=${NNGEN_DEVICE:-${DEVICE:-sim}} # the device of every test
jobs=${NNGEN_JOBS:-$(nproc)}
# Most of a test's time is the host's compiler, at work on kernels that run for milliseconds: it
# optimizes little. In the long run tests of libcusim and of primitives compile as users do.
optimize=${NNGEN_SIM_OPTIMIZE:-$([ "${NNGEN_TEST_LONG:-}" ] && echo g || echo 0)}
export optimize
export NNGEN_SIM_PRECOMPILED=${NNGEN_SIM_PRECOMPILED-$PWD/build/tests/precompiled}
# pyenv's python3 is a script that looks for the program, longer than most of our Python takes.
python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) && [ -x "$python" ] &&
  eval "python3() { ${python@Q} \"\$@\"; }" && export -f python3
# Tests of libcusim compile by way of cxx_cached.sh. What none of them has asked for in a day goes.
export cxx=$PWD/build/tests/cxx
mkdir -p "$cxx/bin" && find "$cxx" -type f -mtime +0 -delete
for name in c++ g++ clang++; do ln -sf "$PWD/tests/cxx_cached.sh" "$cxx/bin/$name"; done
out=$(mktemp -d) || exit 4
trap 'rm -rf "$out"' EXIT
one() { # one TEST INDEX: its TAP to $out/INDEX.tap, a crash or a silent end as a failed test
  local log=$2/$3 as=(env) form=
  [ "${NNGEN_TEST_LONG:-}" ] && [ $NNGEN_TEST_TURN != all ] &&
    [ $((($3 + NNGEN_TEST_TURN) % 3)) = 0 ] &&
    as=(env -u NNGEN_TEST_LONG) form=", as in the short run"
  local TIMEFORMAT='%3R %3U %3S' rc wall user sys path=$PATH level=$optimize
  if [[ "$1" =~ (sim|prim)/test_ ]]; then
    path=$cxx/bin:$PATH level=$([ "${NNGEN_TEST_LONG:-}" ] || echo g)
  fi
  {
    time "${as[@]}" PATH=$path NNGEN_SIM_OPTIMIZE=$level CMOCKA_MESSAGE_OUTPUT=TAP \
      timeout "$NNGEN_TEST_TIMEOUT" "$1" >"$log.tap" 2>"$log.err" </dev/null
    rc=$?
  } 2>"$log.time"
  read -r wall user sys <"$log.time"
  sed -i -E 's/^not (ok [0-9]+ # *SKIP)/\1/' "$log.tap" # cmocka calls a skipped test "not ok"
  local planned; planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$log.tap" | tail -1)
  local ran; ran=$(grep -cE '^(not )?ok\b' "$log.tap")
  if [ -z "$planned" ] || [ "$planned" != "$ran" ]; then
    echo "not ok - $1 ended early: exit code $rc, ${planned:-no plan} planned, $ran ran" \
      >>"$log.tap"
  elif [ $rc != 0 ] && ! grep -q '^not ok' "$log.tap"; then
    echo "not ok - $1 exit code $rc" >>"$log.tap"
  fi
  local s o f
  s=$(grep -cE '^ok\b.*# *SKIP' "$log.tap"); o=$(grep -cE '^ok\b' "$log.tap")
  f=$(grep -cE '^not ok\b' "$log.tap")
  {
    printf '%-44s %4d ok %3d skipped %3d failed %6.1f s, %6.1f s of processors%s\n' "$1" \
      $((o - s)) "$s" "$f" "$wall" "$(awk "BEGIN { print $user + $sys }")" "$form"
    grep -E '^ok\b.*# *SKIP' "$log.tap" | sed 's/^/    /'
    if [ "$f" != 0 ]; then
      grep -vE '^ok\b' "$log.tap" | sed 's/^/    /' | head -120
      tail -40 "$log.err" | sed 's/^/    stderr: /'
    fi
  } >"$log.said"
  echo "$((o - s)) $f $s" >"$log.counts"
  (flock 9 2>/dev/null; cat "$log.said") 9>>"$2/lock" # one program's lines stay together
}
export -f one
i=0
for t in "$@"; do
  [[ -z "${NNGEN_TEST:-}" || "$t" =~ $NNGEN_TEST ]] && printf '%s\0%s\0%s\0' "$t" "$out" "$i"
  i=$((i + 1))
done | xargs -0 -r -n3 -P"$jobs" bash -c 'one "$0" "$1" "$2"'
passed=0 failed=0 skipped=0 p=0 f=0 s=0
for counts in "$out"/*.counts; do
  [ -f "$counts" ] || continue
  read -r p f s <"$counts"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
[ "${NNGEN_TEST_LONG:-}" ] && echo "the turn of like cases: NNGEN_TEST_TURN=$NNGEN_TEST_TURN"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
