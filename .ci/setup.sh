#!/usr/bin/env bash
# Installs the Debian packages that nngen builds with. Does nothing when all are there.
set -u
packages=(gcc g++ make liblua5.4-dev libjansson-dev libxxhash-dev libpng-dev zlib1g-dev
  uthash-dev libcmocka-dev libopenblas-dev)
probe=(/usr/include/lua5.4/lua.h /usr/include/jansson.h /usr/include/xxhash.h /usr/include/png.h
  /usr/include/zlib.h /usr/include/uthash.h /usr/include/cmocka.h)
missing=0
for f in "${probe[@]}"; do [ -e "$f" ] || missing=1; done
for c in gcc g++; do command -v $c >/dev/null || missing=1; done
ls /usr/lib/*/libopenblas.a >/dev/null 2>&1 || missing=1
[ $missing = 0 ] && exit 0
install="apt-get install -y --no-install-recommends ${packages[*]}"
if ! command -v apt-get >/dev/null; then
  echo "nngen: needs these Debian packages (or your system's like): ${packages[*]}" >&2
  exit 4
fi
if [ "$(id -u)" = 0 ]; then sudo=
elif sudo -n true 2>/dev/null; then sudo=sudo
else
  echo "nngen: packages are missing; type: sudo $install" >&2
  exit 4
fi
echo "nngen: installing ${packages[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
{ $sudo apt-get update -qq && $sudo $install -qq; } >"$log" 2>&1 || {
  tail -20 "$log" >&2
  echo "nngen: installing failed; type: sudo $install" >&2
  exit 4
}
rm -f "$log"
