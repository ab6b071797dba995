#!/usr/bin/env bash
# Every bad model and command line of cases.txt, with its exact exit code and message.
#
# cases.txt holds blocks: a line "## NAME: [VARIABLE=VALUE ...] ARGUMENTS", then "=> CODE", then
# what stderr must be.
# The short run leaves out three of the cases that end at a limit of time or memory.
# BLESS=1 rewrites it from what happens now: read the difference before committing it.
set -u
cd "$(dirname "$0")/../.."
export LC_ALL=C NNGEN_DEVICE=sim NO_COLOR=1 XDG_CACHE_HOME=${XDG_CACHE_HOME:-$PWD/build/tests/cache}
cases=tests/errors/cases.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plain() { # what differs by machine, compiler and key is made the same
  sed -E "s#$work#WORK#g; s#$XDG_CACHE_HOME#CACHE#g; s/[0-9a-f]{32}/KEY/; /: In function/d;
    s/^(templates[^:]*):[0-9]+[:0-9 ]*error.*/\\1:LINE: error ... of the host compiler/
    /^templates[^:(]*\([0-9]+\): error/ { # NVRTC's: with the line, a caret, and how many
      s/\(.*/:LINE: error ... of the host compiler/; n; N; N; N; d }" "$1" | uniq
}
run() { # run LINE: the block of this line of cases.txt as it is now, to $work/raw
  local args=${1#*: } variables= code said
  while [[ "$args" =~ ^([A-Z_]+=[^ ]*)\ (.*)$ ]]; do
    variables+=" ${BASH_REMATCH[1]}" args=${BASH_REMATCH[2]}
  done
  eval "$variables timeout 60 build/nngen $args" >"$work/out" 2>"$work/err" </dev/null
  code=$?
  said=$(<"$work/err")
  printf '%s\n=> %s\n%s\n\n' "$1" $code "$said" >>"$work/raw"
}
export WORK=$work
. tests/errors/prepare.sh "$work"
slow=$([ "${NNGEN_TEST_LONG:-}${BLESS:-}" ] || echo "op_ref_endless|node_bomb|memory_bomb")
while IFS= read -r line; do run "$line"; done < \
  <(grep '^## ' "$cases" | grep -vE "^## (${slow:-^}):")
plain "$work/raw" >"$work/new"
[ "${BLESS:-}" ] && cp "$work/new" "$cases"
# The blocks of both files, side by side.
awk '
  /^## / {line = $0; if (NR != FNR) lines[++n] = line; next}
  NR == FNR {want[line] = want[line] "\n" $0; next}
  {got[line] = got[line] "\n" $0}
  END {
    for (i = 1; i <= n; i++) {
      line = lines[i]; w = want[line]; g = got[line]
      sub(/\n+$/, "", w); sub(/\n+$/, "", g)
      name = substr(line, 4); sub(/: .*/, "", name)
      if (w == g) {print "ok " i " - " name; continue}
      failed = 1
      print "not ok " i " - " substr(line, 4)
      gsub(/\n/, "\n#   ", w); gsub(/\n/, "\n#   ", g)
      print "#  want:" w "\n#  got:" g
    }
    print "1.." n
    exit failed
  }' "$cases" "$work/new"
