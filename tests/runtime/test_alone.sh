#!/usr/bin/env bash
# nngen copied away alone: it starts, says what it misses, and with libcusim beside it, runs.
set -u
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export NO_COLOR=1 NNGEN_CACHE_DIR=$work/cache NNGEN_DEVICE=sim
unset NNGEN_SIM
mkdir "$work/bin" "$work/lib"
cp build/nngen "$work/bin/" && cp -r models "$work/"
cd "$work" || exit 4
n=0 failed=0
expect() { # expect NAME CODE PATTERN COMMAND...
  local name=$1 code=$2 pattern=$3 got
  shift 3
  got=$("$@" 2>&1)
  local rc=$?
  n=$((n + 1))
  if [ $rc = "$code" ] && grep -qE "$pattern" <<<"$got"; then echo "ok $n - $name"
  else
    echo "not ok $n - $name"
    printf 'exit code %s, not %s, or nothing like %s in:\n%s\n' $rc "$code" "$pattern" "$got" |
      sed 's/^/# /'
    failed=1
  fi
}
if ldconfig -p 2>/dev/null | grep -q libcusim; then
  echo "ok 1 - no simulator # SKIP libcusim is installed on this system"; n=1
else
  expect "no simulator" 3 \
    "^nngen: libcusim: not found; searched: $work/bin $work/bin/../lib ld.so" \
    bin/nngen models/mlp.lua
fi
expect "doctor" 0 "^libcusim +not found" bin/nngen doctor
cp "$OLDPWD/build/libcusim.so" lib/
expect "the simulator in ../lib" 0 "relative error" bin/nngen models/mlp.lua
mv lib/libcusim.so bin/
expect "the simulator beside it" 0 "relative error" bin/nngen models/mlp.lua
echo "1..$n"
exit $failed
