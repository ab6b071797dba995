#!/usr/bin/env bash
# The modelled time of a network, in us: at most 2 % more than modelled.txt says, and not a tenth
# less. BLESS=1 writes what is now; read the difference.
. "$(dirname "$0")/../tap.sh"
list=tests/models/modelled.txt
modelled() { # modelled OPTIONS...
  build/nngen show "$@" --costs --json | sed -n '/"kernels"/q; s/^  "modelled_us": \(.*\),$/\1/p'
}
if [ "${BLESS:-}" ]; then
  while read -r _ options; do echo "$(modelled $options) $options"; done <$list >"$work/new"
  cp "$work/new" $list
fi
no_worse() { # no_worse US OPTIONS...
  local got; got=$(modelled "${@:2}")
  awk -v got="$got" -v us=$1 'BEGIN {exit !(got <= 1.02 * us && got >= 0.9 * us)}' ||
    { echo "$got us modelled, $list says $1"; return 1; }
}
while read -r us options; do ok "${options#models/}" no_worse $us $options; done <$list
tap_done
