#!/usr/bin/env bash
# How many kernels each network of models/ is, all entries but init: at most what launches.txt says.
# A change of fusion that no result shows is seen here. BLESS=1 writes what is now; read the
# difference.
. "$(dirname "$0")/../tap.sh"
list=tests/models/launches.txt
count() { # count OPTIONS...
  build/nngen show "$@" | grep '^# kernel' | grep -vc ', init,'
}
if [ "${BLESS:-}" ]; then
  while read -r _ options; do echo "$(count $options) $options"; done <$list >"$work/new"
  cp "$work/new" $list
fi
at_most() { # at_most COUNT OPTIONS...
  local got; got=$(count "${@:2}")
  [ "$got" -gt 0 ] && [ "$got" -le $1 ] ||
    { echo "$got kernels, $list says at most $1: nngen show ${*:2} says what is apart, and why"
      return 1; }
}
while read -r most options; do ok "${options#models/}" at_most $most $options; done <$list
tap_done
