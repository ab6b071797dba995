#!/usr/bin/env bash
# `nngen help`: what it prints of functions of the model language, and that models/README.md lists
# them as they are.
. "$(dirname "$0")/../tap.sh"
listed() {
  build/nngen help --markdown >"$work/list" && sed -n '/^### Sources/,$p' models/README.md >"$work/readme" &&
    sed -n '/^### Sources/,$p' "$work/list" | diff - "$work/readme" || { echo "nngen help --markdown makes the list of models/README.md"; return 1; }
}
entry() { build/nngen help "$1" >"$work/entry" && grep -qF -- "$2" "$work/entry" || { cat "$work/entry"; return 1; }; }
ok "models/README.md lists every function as it is" listed
ok "an entry has the signature" entry slice 'slice(x, axis, first = nil, last = nil, step = 1)'
ok "other names of an argument" entry conv2d 'also kernel_size'
ok "what it is in PyTorch" entry nn.conv2d 'PyTorch: nn.Conv2d'
ok "another name of a function" entry cat 'torch.cat'
ok "words an argument may be" entry gelu '"none", "tanh"; by default none'
ok "a function with its own signature" entry einsum 'einsum(equation, a, b, ...)'
ok "a list of names" entry nn 'adaptive_avg_pool2d'
ok "options of a verb" entry emit '--kernels-only'
ok "an op of the table" entry op.conv2d 'op.conv2d(a, b, {stride, pad, dilation, groups})'
ok "all ops" entry op 'op.reduce_var(a, {axes}): a.m2 / a.count'
ok "an op that is none" fails 2 "did you mean 'op.matmul'?" build/nngen help op.mtmul
ok "a name that is none" fails 2 "help: nn has no 'sofmax'; did you mean 'softmax'?" build/nngen help sofmax
ok "two names" fails 2 "'b': help of one function at a time" build/nngen help a b
tap_done
