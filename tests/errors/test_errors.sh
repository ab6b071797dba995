#!/usr/bin/env bash
# Every bad model and command line of cases.txt, with its exact exit code and message.
#
# cases.txt holds blocks: a line "## NAME: [VARIABLE=VALUE ...] ARGUMENTS", then "=> CODE", then
# what stderr must be.
# BLESS=1 rewrites it from what happens now: read the difference before committing it.
set -u
cd "$(dirname "$0")/../.."
export LC_ALL=C NNGEN_DEVICE=sim NO_COLOR=1 XDG_CACHE_HOME=${XDG_CACHE_HOME:-$PWD/build/tests/cache}
cases=tests/errors/cases.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0 failed=0
plain() { # what differs by machine, compiler and key is made the same
  sed -E "s#$work#WORK#g; s#$XDG_CACHE_HOME#CACHE#g; s/[0-9a-f]{32}/KEY/; /: In function/d;
    s/^(templates[^:]*):[0-9]+[:0-9 ]*error.*/\\1:LINE: error ... of the host compiler/
    /^templates[^:(]*\([0-9]+\): error/ { # NVRTC's: with the line, a caret, and how many
      s/\(.*/:LINE: error ... of the host compiler/; n; N; N; N; d }" "$1" | uniq
}
run() { # run NAME ARGUMENTS: stderr to $work/got, after "=> CODE"
  local args=$2 variables=
  while [[ "$args" =~ ^([A-Z_]+=[^ ]*)\ (.*)$ ]]; do
    variables+=" ${BASH_REMATCH[1]}" args=${BASH_REMATCH[2]}
  done
  eval "timeout 60 env $variables build/nngen $args" >"$work/out" 2>"$work/err" </dev/null
  local code=$?
  { echo "=> $code"; plain "$work/err"; } >"$work/got"
}
export WORK=$work
. tests/errors/prepare.sh "$work"
while IFS= read -r line; do
  name=${line#\#\# } args=${name#*: } name=${name%%: *}
  n=$((n + 1))
  run "$name" "$args"
  awk -v want="$line" '$0 == want {on = 1; next} /^## / {on = 0} on' "$cases" |
    sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' >"$work/want"
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
