#!/usr/bin/env bash
# Copies of parameters, 16-bit or rounded to TF32, live across steps (gen/pass/weight_copies.c): what
# updates a parameter writes its copy; of 16 bits, nothing else of training reads the parameter. test_resume.sh shows that the copies
# stay those of the parameters, to the bit.
. "$(dirname "$0")/../tap.sh"
# alone LEAST OPTIONS...: at least so many parameters have copies, and only their updates read them
alone() {
  local least=$1; shift
  build/nngen show "$@" --entry train --arch sm_90a --plan >"$work/plan" || return
  python3 - "$work/plan" $least <<'PYTHON'
import json, sys
plan = json.load(open(sys.argv[1]))
tensors, kernels = plan["tensors"], plan["kernels"]
init = {s["kernel"] for e in plan["entries"] if e["name"] == "init" for s in e["steps"]
        if s["kind"] == "launch"}
def touched(k, written):
    return {a["tensor"] for a in kernels[k]["args"] if a["written"] == written}
copies = {} # of each parameter: what is made of it, perhaps beside others
for k in init:
    for t in touched(k, False):
        if tensors[t]["role"] == "state":
            copies.setdefault(t, set()).update(touched(k, True))
copied = set(copies)
narrow = {t for t in copied if any(tensors[w]["dtype"] != "f32" for w in copies[t])}
for k in set(range(len(kernels))) - init:
    for t in narrow & touched(k, False) - touched(k, True):
        sys.exit("%s reads %s" % (kernels[k]["name"], tensors[t]["name"]))
for t in copied:
    shape = sorted(tensors[t]["shape"])
    for k in set(range(len(kernels))) - init:
        if t in touched(k, True) and not any(
                sorted(tensors[w]["shape"]) == shape for w in copies[t] & touched(k, True)):
            sys.exit("%s updates %s and no copy" % (kernels[k]["name"], tensors[t]["name"]))
if len(copied) < int(sys.argv[2]):
    sys.exit("%d parameters have copies, at least %s are wanted" % (len(copied), sys.argv[2]))
PYTHON
}
ok "a transformer block in bf16" alone 4 models/block.lua --dtype bf16
ok "a residual network in bf16" alone 20 models/resnet18.lua --dtype bf16
ok "in fp16, with a scaled loss" alone 20 models/resnet18.lua --dtype fp16 --set loss_scaling=true
ok "a perceptron of large products in tf32" alone 2 models/mlp.lua --dtype tf32 --set batch=2048
# A linear layer of (B, N, C) reads its input as it is, its gradient as rows: both in 16 bits.
cat >"$work/rows.lua" <<'LUA'
local nn = require "nn"
nn.entry("train", function()
  local loss = nn.input("x", {6, 5, 16}):linear("a", {out = 24}):relu():square():mean()
  nn.output("loss", loss)
  nn.optimize(loss, {optimizer = "sgd", lr = 0.1})
end)
LUA
once() {
  build/nngen run "$work/rows.lua" --entry train --dtype bf16 --quiet --check >"$work/log" &&
    grep -q "ops -> 4 kernels" "$work/log" || { grep "^kernels\|: rel" "$work/log"; return 1; }
}
ok "an input is converted once for a layer and its gradient" once
tap_done
