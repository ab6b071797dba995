# tap.sh: the few functions of the shell tests. Source it; end with `tap_done`.
# Every command runs at the root of the tree, on the device NNGEN_DEVICE names (default sim), with a
# kernel cache below build/.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export NNGEN_DEVICE=${NNGEN_DEVICE:-${DEVICE:-sim}} NO_COLOR=1
export LC_ALL=C.UTF-8 # the order of names, wherever it runs
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$PWD/build/tests/cache}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
tap_n=0
ok() { # ok NAME COMMAND...: the command must succeed; its output is shown when it does not
  local name=$1; shift
  tap_n=$((tap_n + 1))
  if "$@" >"$work/out" 2>&1 </dev/null; then echo "ok $tap_n - $name"
  else
    echo "not ok $tap_n - $name (exit $?): $*"
    tail -15 "$work/out" | sed 's/^/#   /'
  fi
}
# Also what takes long, and shows little that the rest does not.
long() { [ "${NNGEN_TEST_LONG:-}" ]; }
# few N: for a list of cases much like each other, as `few N || continue`: true for every N-th call,
# the first among them; in the long run for all.
few_calls=0
few() { long || [ $((few_calls++ % $1)) = 0 ]; }
skip() { # skip NAME WHY
  tap_n=$((tap_n + 1))
  echo "ok $tap_n - $1 # SKIP $2"
}
fails() { # fails CODE TEXT COMMAND...: the command must exit with CODE and print TEXT
  local code=$1 text=$2 got; shift 2
  "$@" >"$work/fails" 2>&1; got=$?
  [ $got = "$code" ] && grep -qF -- "$text" "$work/fails" && return 0
  echo "exit $got, want $code with '$text':"; tail -10 "$work/fails"
  return 1
}
tap_done() { echo "1..$tap_n"; }
