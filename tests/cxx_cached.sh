#!/usr/bin/env bash
# cxx_cached.sh, under a compiler's name in front of PATH: that compiler, but what it once made of a
# kernel comes from build/tests/cxx. Tests of libcusim compile the same kernels under many seeds,
# settings and builds, and each is to be compiled once. libcusim calls it in a folder that holds all
# that it reads; whatever else is asked goes to the compiler as it is. (It starts as few programs as
# it can: it is called thousands of times.)
here=${0%/*} name=${0##*/}
PATH=:$PATH: PATH=${PATH//":$here:"/:} PATH=${PATH#:} PATH=${PATH%:}
out= reads="kernels.ii device/cusim_guard.o"
case " $* " in
  *" kernels.ii "*" -o kernels.s "*) out=kernels.s ;;
  *" kernels.ii "*" -o image.so "*) out=image.so ;;
  # Of PTX: precompiled headers are called by a hash of them.
  *" -include "*" kernels.cc "*" -o image.so "*) out=image.so reads=kernels.cc ;;
  *" kernels.cc "*" -o image.so "*) out=image.so reads="kernels.cc $(find device -type f | sort)" ;;
  " -dM -E -x c++ /dev/null ") # each process asks for its macros
    kept=$here/../macros.$name known=
    [ -s "$kept" ] && [ -f "$kept.path" ] && read -r known <"$kept.path"
    [ "$known" = "$PATH" ] ||
      { "$name" "$@" >"$kept.$$" && mv "$kept.$$" "$kept" && echo "$PATH" >"$kept.path"; } ||
      { code=$?; rm -f "$kept.$$"; exit $code; }
    exec cat "$kept"
    ;;
  *) exec "$name" "$@" ;;
esac
read -r key _ < <({ echo "$PATH $name $*"; cat $reads; } | sha256sum)
kept=$here/../$key
[ -f "$kept" ] && touch -c "$kept" && exec cp "$kept" "$out"
said=$("$name" "$@" 2>&1)
code=$?
[ -z "$said" ] || echo "$said" >&2
[ $code = 0 ] && [ -z "$said" ] && cp "$out" "$kept.$$" && mv "$kept.$$" "$kept"
exit $code
