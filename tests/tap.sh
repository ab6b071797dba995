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
export NNGEN_TEST_TURN=${NNGEN_TEST_TURN:-0}
# Also what takes long, and shows little that the rest does not.
long() { [ "${NNGEN_TEST_LONG:-}" ]; }
# few N[/M] [LIST]: for a list of cases much like each other, as `few N || continue`: true for every
# N-th call, the first among them; in the long run for all, or every M-th: which ones, the turn says
# (NNGEN_TEST_TURN), so that runs of M commits have them all; with the turn `all`, every one. Calls
# with another LIST are counted apart, as those of two lists whose cases take turns must be.
declare -A few_calls=()
few() {
  local every=${1%/*} turn=0
  if long; then
    every=1
    [[ "$1" == */* && $NNGEN_TEST_TURN != all ]] && every=${1#*/} turn=$NNGEN_TEST_TURN
  fi
  [ $(((few_calls[${2:-all}]++ + turn) % every)) = 0 ]
}
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
# python_with MODULE...: true, and $python names a Python that has these; else it is empty. They are
# looked for, not loaded: PyTorch takes two seconds.
python_with() {
  local p
  for p in /usr/bin/python3 python3; do
    python=$p
    $p -c 'import importlib.util as u, sys
sys.exit(not all(u.find_spec(name) for name in sys.argv[1:]))' "$@" 2>/dev/null && return
  done
  python=
  return 1
}
# figure NAME VALUE...: what a test has measured, for `make bench`: a line of the file NNGEN_FIGURES.
figure() { [ -z "${NNGEN_FIGURES:-}" ] || (IFS=$'\t'; echo "$*") >>"$NNGEN_FIGURES"; }
tap_done() { echo "1..$tap_n"; }
