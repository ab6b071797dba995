#!/usr/bin/env bash
# The functions of an emitted network: runs, graphs, times, where weights and memory come from,
# errors.
. "$(dirname "$0")/../tap.sh"
. tests/emit/emit.sh
without_tools "the API of an emitted network"
dir=$work/lenet

works() (
  compile "cc $strict $sanitized" "$dir" lenet "$root/tests/emit/api.c" && cd "$dir" && ./api
)
cannot_run() { # code for newer GPUs alone, in a program of its own
  build/nngen emit models/lenet.lua -o "$work/newer" --quiet --arch sm_100a &&
    compile "cc $strict" "$work/newer" lenet example.c &&
    (cd "$work/newer" &&
      fails 1 "no machine code and no PTX for this GPU: there is code for sm_100a" ./example)
}
in_code() { # the weights are in the program: it needs no file
  emit models/lenet.lua "$work/code" --weights-in-code && [ ! -e "$work/code/lenet.safetensors" ] &&
    compile "cc $strict" "$work/code" lenet example.c && (cd "$dir" && ./example >said) &&
    (cd "$work/code" && ./example | cmp - "$dir/said")
}

faults() ( # every call that can fail does, in turn
  local wraps="" name
  for name in $(sed -n 's/^WRAP(\([A-Za-z0-9_]*\),.*/\1/p' "$root/tests/emit/faults.c") \
    malloc calloc; do
    wraps="$wraps -Wl,--wrap=$name"
  done
  cp -r "$dir" "$work/faults" &&
    compile "cc $strict -O1 -g $wraps" "$work/faults" lenet "$root/tests/emit/faults.c" &&
    cd "$work/faults" && ./faults
)

emit models/lenet.lua "$dir" && compile "cc $strict" "$dir" lenet example.c
ok "runs, graphs, times, memory, weights, errors" works
[ "$NNGEN_DEVICE" = sim ] && ok "calls that fail, each once" faults
[ "$NNGEN_DEVICE" = sim ] && ok "a GPU without code of its own is reported" cannot_run
ok "weights in the program" in_code
tap_done
