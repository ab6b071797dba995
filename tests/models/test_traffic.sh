#!/usr/bin/env bash
# The memory traffic that is planned for an entry of a network, in MB: at most what traffic.txt
# says, and not a tenth less. BLESS=1 writes what is now; read the difference.
. "$(dirname "$0")/../tap.sh"
list=tests/models/traffic.txt
megabytes() { # megabytes ENTRY OPTIONS...
  build/nngen show "${@:2}" --plan | tr -d ' ,"' | awk -F: -v entry=$1 '
    $1 == "kernels" {part = 1} $1 == "entries" {part = 2} $1 == "headers" {exit}
    part == 1 && $1 == "bytes_read" {bytes[count] = $2}
    part == 1 && $1 == "bytes_written" {bytes[count++] += $2}
    part == 2 && $1 == "name" {here = $2 == entry}
    $1 == "kind" {launch = $2 == "launch"}
    here && launch && $1 == "kernel" {all += bytes[$2]}
    END {printf all < 1e8 ? "%.3g\n" : "%.0f\n", all / 1e6}'
}
if [ "${BLESS:-}" ]; then
  while read -r _ entry options; do
    echo "$(megabytes $entry $options) $entry $options"
  done <$list >"$work/new"
  cp "$work/new" $list
fi
at_most() { # at_most MB ENTRY OPTIONS...
  local got; got=$(megabytes "${@:2}")
  awk -v got="$got" -v most=$1 'BEGIN {exit !(got <= most && got >= 0.9 * most)}' ||
    { echo "$got MB planned, $list says $1"; return 1; }
}
while read -r most entry options; do
  ok "$entry of ${options#models/}" at_most $most $entry $options
done <$list
tap_done
