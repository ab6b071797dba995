#!/usr/bin/env bash
# What nngen emit says of mistakes, and which files it writes over.
. "$(dirname "$0")/../tap.sh"
emit() { build/nngen emit models/lenet.lua "$@"; }
quick="--kernels-only --quiet"
touch "$work/file"
cat >"$work/wide.lua" <<'LUA'
local nn = require "nn"
nn.output("y", nn.input("x", {4096, 1024}):linear("fc", {out = 1024}))
LUA

ok "no folder" fails 2 "nngen emit: expected a folder, as in: nngen emit models/lenet.lua -o out" emit
ok "a file for a folder" fails 2 "$work/file: is a file; expected a folder" emit -o "$work/file"
ok "a folder that cannot be" fails 5 "No such file" emit -o /proc/no/where $quick
ok "an unknown GPU" fails 2 "--arch sm_12: expected a list of sm_80, sm_90a, sm_100a" \
  emit -o "$work/a" --arch sm_80,sm_12
ok "GPUs that have no instructions in common" \
  fails 2 "kernels for sm_90a have products of warp groups, which sm_100a lacks: add sm_80" \
  build/nngen emit "$work/wide.lua" -o "$work/wide" --dtype bf16 --no-check --arch sm_90a,sm_100a
ok "no GPU" fails 2 "expected a list of sm_80, sm_90a, sm_100a" emit -o "$work/a" --arch ,
ok "a name that is none of C's" fails 2 "--name 3d: expected letters, digits and _" \
  emit -o "$work/a" --name 3d
ok "a name that the C has itself" fails 2 "--name launch: is reserved by C or a header" \
  emit -o "$work/a" --name launch
ok "weights that are not there" fails 5 "nowhere.safetensors" \
  emit -o "$work/a" --weights nowhere.safetensors
ok "two that exclude each other" fails 2 "one of the two" emit -o "$work/a" --kernels-only \
  --weights-in-code
ok "host code of kernels alone" fails 2 "there is no host code" emit -o "$work/a" \
  --kernels-only --lang cpp
for name in strlen select M_PI; do
  ok "--name $name" fails 2 "is reserved by C or a header" emit -o "$work/a" --name $name
done
ok "an option of another verb" fails 2 "unknown option --graph" emit -o "$work/a" --graph
ok "a mistake in the model" fails 2 "did you mean" \
  build/nngen emit tests/errors/unknown_layer.lua -o "$work/a"
ok "batches that are no numbers" fails 2 "--set batch=1,x: expected up to 8 whole numbers" \
  emit -o "$work/a" --set batch=1,x
ok "a batch twice" fails 2 "--set batch=1,8,1: 1 is given twice" emit -o "$work/a" --set batch=1,8,1
ok "states of each batch's own" fails 2 "depends on the batch" \
  build/nngen emit models/gpt2.lua -o "$work/a" --set batch=1,2
ok "nothing is left of these" test ! -e "$work/a"
alone() { # what is written speaks of the network, not of what wrote it
  emit -o "$work/g" --no-check --quiet --arch sm_80 --dtype fp16 &&
    ! grep -nE 'libcusim|NVRTC|nngen' "$work"/g/*.{cu,c,h} |
      grep -vE 'ritten by nngen emit from models|[Bb]y nngen emit[.;]'
}
ok "no word about nngen in what it writes" alone
foreign() { # a file that somebody else wrote stays
  mkdir -p "$work/b" && echo 'int x;' >"$work/b/lenet.cu" &&
    fails 2 "lenet.cu exists, and nngen emit did not write it" emit -o "$work/b" $quick &&
    grep -q 'int x' "$work/b/lenet.cu" &&
    [ "$(ls "$work/b")" = lenet.cu ]
}
ok "a foreign file stays" foreign
over() {
  emit -o "$work/c" $quick && emit -o "$work/c" $quick --dtype fp16 &&
    grep -q fp16 "$work/c/lenet.cu"
}
ok "its own files it writes over" over
named() {
  emit -o "$work/d" $quick --name digits &&
    [ "$(ls "$work/d" | tr '\n' ' ')" = 'README.md digits.cu digits.json ' ]
}
ok "--name" named
helps() {
  build/nngen emit --help | grep -q -- '--kernels-only' && build/nngen --help | grep -q '  emit '
}
reserved() { # a model called like a word of the C around it
  build/nngen emit tests/models/states.lua -o "$work/f" $quick && [ -e "$work/f/states_net.cu" ]
}
ok "a model's name that the C has itself" reserved
ok "--help" helps
ok "an entry that there is not" fails 2 "--entry nope: the model has: infer" \
  emit -o "$work/a" --entry nope
headers() { # a header of that name would stand in the place of C's or CUDA's
  mkdir -p "$work/h" && for name in cuda features example _x; do
    cp models/mlp.lua "$work/h/$name.lua" &&
      build/nngen emit "$work/h/$name.lua" -o "$work/h/$name" $quick || return
  done
  [ -e "$work/h/cuda/cuda_net.cu" ] && [ -e "$work/h/features/features_net.cu" ] &&
    [ -e "$work/h/example/example_net.cu" ] && [ -e "$work/h/_x/m_x.cu" ]
}
ok "names of headers" headers
folders() { emit -o "$work/n/e/w" $quick && [ -e "$work/n/e/w/lenet.cu" ]; }
ok "folders above it are made" folders
tells() {
  build/nngen emit models/lenet.lua -o "$work/t" --kernels-only |
    grep -qx "$work/t: lenet.cu lenet.json README.md"
}
ok "it lists what it wrote" tells
whole() { # a failure leaves the folder as it was
  echo x >"$work/short.safetensors" && emit -o "$work/w" --quiet --no-check --arch sm_90a &&
    cp -r "$work/w" "$work/w_before" &&
    fails 5 "short.safetensors" emit -o "$work/w" --quiet --dtype fp16 --arch sm_90a \
      --weights "$work/short.safetensors" &&
    diff -r "$work/w_before" "$work/w" &&
    fails 5 "short.safetensors" emit -o "$work/w_new" --quiet --arch sm_90a \
      --weights "$work/short.safetensors" &&
    [ ! -e "$work/w_new" ]
}
stale() {
  emit -o "$work/w" --quiet --no-check --arch sm_90a --weights-in-code &&
    [ ! -e "$work/w/lenet.safetensors" ] && [ -e "$work/w/lenet_weights.h" ] &&
    emit -o "$work/w" $quick &&
    [ "$(ls "$work/w" | tr '\n' ' ')" = 'README.md lenet.cu lenet.json ' ]
}
if [ -e "${CUDA_PATH:-/usr/local/cuda}/include/cuda.h" ]; then
  ok "a failure leaves the folder as it was" whole
  ok "what is written no more goes" stale
else
  skip "a failure leaves the folder as it was" "requires NVRTC"
  skip "what is written no more goes" "requires NVRTC"
fi
unchanged() {
  emit --diff "$work/c" --dtype fp16 >"$work/said" &&
    grep -q '^14 kernels the same, 0 changed, 0 new, 0 gone' "$work/said"
}
ok "--diff of the same" unchanged
changed() { # what changed, and why
  emit -o "$work/e" $quick && emit --diff "$work/e" --set batch=2 >"$work/said" &&
    grep -qF '  settings  -> batch=2' "$work/said" &&
    grep -qF '  image: shape [1,1,28,28] -> [2,1,28,28]' "$work/said" &&
    grep -q '^changed  lenet__conv1_relu' "$work/said" &&
    grep -q '  grid \[25,1,1\] -> ' "$work/said"
}
ok "--diff of another batch" changed
moved() { # lines that moved, and another path, change no kernel
  mkdir -p "$work/moved" && { echo; cat models/lenet.lua; } >"$work/moved/lenet.lua" &&
    build/nngen emit "$work/moved/lenet.lua" --diff "$work/e" >"$work/said" &&
    grep -q '^9 kernels the same, 0 changed' "$work/said"
}
ok "--diff of a model in another place" moved
library() { # a template that changed shows in its kernels
  mkdir -p "$work/tree/templates" && cp -r gen "$work/tree" && cp -r templates "$work/tree" &&
    sed -i 's/acc\[j\] = /  acc[j] = /; s/^#pragma unroll/#pragma unroll 1/' \
      "$work/tree/templates/window.cu" &&
    NNGEN_DIR=$work/tree emit --diff "$work/e" >"$work/said" &&
    grep -A1 '^changed' "$work/said" | grep -q 'its text' &&
    grep -q '^7 kernels the same, 2 changed, 0 new, 0 gone' "$work/said"
}
ok "--diff of another template" library
ok "--diff of a folder that holds no list" fails 5 "has no list of launches" emit --diff "$work"
batches() { # inputs of two batch sizes have one name
  emit -o "$work/two" $quick --set batch=1,8 &&
    emit --diff "$work/two" --set batch=1,8 >"$work/said" &&
    [ "$(head -2 "$work/said" | tail -1)" = '17 kernels the same, 0 changed, 0 new, 0 gone' ] &&
    python3 -c 'import json, sys
names = [t["c_name"] for t in json.load(open(sys.argv[1]))["tensors"]]
assert len(set(names)) == len(names), names' "$work/two/lenet.json"
}
ok "--diff of two batch sizes, whose names in C differ" batches
renamed() { emit --diff "$work/two" --name digits | grep -qx '  cuda lenet.cu -> digits.cu'; }
ok "--diff of another name" renamed
counts() { # counts ENTRY BEGINS: a model with a state
  printf '%s\n' 'local nn = require "nn"' "local s = nn.state('s', {4}, {init = $2})" \
    "nn.entry('$1', function() nn.output('y', s * 2.0) nn.update(s, s + 1.0) end)" \
    >"$work/counts.lua"
}
beside() { # what changed beside kernels
  counts again 1 && build/nngen emit "$work/counts.lua" -o "$work/counts" $quick &&
    counts once 2 && build/nngen emit "$work/counts.lua" --diff "$work/counts" >"$work/said" &&
    grep -qx '  s: begins_with 1065353216 -> 1073741824' "$work/said" &&
    grep -qx '  entry once is new' "$work/said" && grep -qx '  entry again is gone' "$work/said"
}
ok "--diff of a state's first value, and of an entry" beside
parses() { python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/d/digits.json"; }
if command -v python3 >/dev/null; then ok "the list of launches is JSON" parses
else skip "the list of launches is JSON" "python3 is not installed"; fi
tap_done
