#!/usr/bin/env bash
# A small kernel is compiled without what it does not call: of the function templates that functions
# of libcusim's headers call, hardly one is instantiated again behind the precompiled headers (once
# there were 160). Nor does it need the preprocessor, where others began with the same includes.
. "$(dirname "$0")/../tap.sh"
compiler=$(command -v g++)
if [ "$NNGEN_DEVICE" != sim ] || [ -z "$compiler" ]; then
  skip "instances of templates" "requires libcusim and g++"; tap_done; exit
fi
echo 'return require "nn".input("x", {4}) + 1' >"$work/model.lua"
instances() { # instances NAME=VALUE...: so libcusim is set; the last program compiled is the kernel
  env "$@" NNGEN_CXX="$compiler -fdump-tree-original=$work/dump" NNGEN_SIM_OPTIMIZE=0 \
    NNGEN_SIM_PRECOMPILED="$work/headers" XDG_CACHE_HOME="$work/cache" \
    build/nngen run "$work/model.lua" --no-check >/dev/null || return
  grep '^;; Function void nn_kernel' "$work/dump" &&
    grep '^;; Function.*\[with' "$work/dump"
  [ "$(grep -c '^;; Function.*\[with' "$work/dump")" -le 24 ]
}
for setting in NNGEN_SIM_CHECK=off NNGEN_SIM_CHECK=all NNGEN_SIM_COUNT=1; do
  ok "the kernel's alone, $setting" instances $setting
done
plain() { # the third of three kernels; their compiler notes what it is to do
  local factor
  printf '%s\n' '#!/bin/sh' "echo \"\$*\" >>'$work/asked'" 'exec g++ "$@"' >"$work/cxx"
  chmod +x "$work/cxx"
  for factor in 2 3 4; do
    : >"$work/asked"
    echo "return require 'nn'.input('x', {4}) * $factor" >"$work/model.lua"
    NNGEN_CXX="$work/cxx" NNGEN_SIM_OPTIMIZE=0 NNGEN_SIM_PRECOMPILED="$work/headers" \
      XDG_CACHE_HOME="$work/cache" build/nngen run "$work/model.lua" --no-check >/dev/null || return
  done
  cat "$work/asked"
  [ "$(grep -c kernels.ii "$work/asked")" = 1 ] && ! grep -e ' -E ' "$work/asked"
}
ok "what stands behind the same includes is not preprocessed" plain
tap_done
