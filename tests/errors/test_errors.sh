#!/usr/bin/env bash
# Every bad model and command line of cases.txt, with its exact exit code and message.
#
# cases.txt holds blocks: a line "## NAME: ARGUMENTS", then "=> CODE", then what stderr must be.
# BLESS=1 rewrites it from what happens now: read the difference before committing it.
set -u
cd "$(dirname "$0")/../.."
export NNGEN_DEVICE=sim NO_COLOR=1 XDG_CACHE_HOME=${XDG_CACHE_HOME:-$PWD/build/tests/cache}
cases=tests/errors/cases.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0 failed=0
run() { # run NAME ARGUMENTS: stderr to $work/got, after "=> CODE"
  eval "timeout 60 build/nngen $2" >"$work/out" 2>"$work/err" </dev/null
  local code=$?
  { echo "=> $code"; sed "s#$work#WORK#g" "$work/err"; } >"$work/got"
}
export WORK=$work
. tests/errors/prepare.sh "$work"
while IFS= read -r line; do
  name=${line#\#\# } args=${name#*: } name=${name%%: *}
  n=$((n + 1))
  run "$name" "$args"
  awk -v want="$line" '$0 == want {on = 1; next} /^## / {on = 0} on' "$cases" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' >"$work/want"
  if [ "${BLESS:-}" ]; then
    { echo "$line"; cat "$work/got"; echo; } >>"$work/new"
  elif cmp -s "$work/got" "$work/want"; then
    echo "ok $n - $name"
  else
    echo "not ok $n - $name: nngen $args"
    diff "$work/want" "$work/got" | sed 's/^/#   /'
    failed=1
  fi
done < <(grep '^## ' "$cases")
[ "${BLESS:-}" ] && cp "$work/new" "$cases"
echo "1..$n"
exit $failed
