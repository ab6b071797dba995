#!/usr/bin/env bash
# Values that the backward pass computes again under a limit of memory: what plans need, and that
# steps are right.
. "$(dirname "$0")/../tap.sh"
# plan MODEL CONDITION OPTIONS...: the condition, in Python, of the entry train: bytes of its arena;
# arena and flops, times those without the options; how many kernels compute something again.
plan() {
  local model=$1 condition=$2; shift 2
  build/nngen show models/$model.lua --entry train --plan >"$work/free.json" &&
    build/nngen show models/$model.lua --entry train --plan "$@" >"$work/tight.json" || return
  python3 - "$work" "$condition" <<'P'
import json, sys
def read(name):
    plan = json.load(open("%s/%s.json" % (sys.argv[1], name)))
    steps = next(e for e in plan["entries"] if e["name"] == "train")["steps"]
    of = [plan["kernels"][s["kernel"]] for s in steps if s["kind"] == "launch"]
    return (plan["arena_bytes"], sum(k["flops"] for k in of),
            sum(k["name"].endswith("_again") for k in of))
free, tight = read("free"), read("tight")
facts = {"bytes": tight[0], "arena": tight[0] / free[0], "flops": tight[1] / free[1],
         "again": tight[2]}
if not eval(sys.argv[2], facts):
    sys.exit("%s: %s" % (sys.argv[2], {k: v for k, v in facts.items() if k != "__builtins__"}))
P
}
ok "ResNet-18: nothing again where nothing limits" plan resnet18 "flops == 1 and again == 0" \
  --recompute auto
ok "ResNet-18 in 600 MB: little again" \
  plan resnet18 "bytes <= 6e8 and flops <= 1.06 and again > 0" --memory 600M
long && ok "ResNet-18 in 400 MB of 659" plan resnet18 "bytes <= 4e8 and flops <= 1.15" --memory 0.4G
ok "ResNet-18 in half of its memory" plan resnet18 "arena <= 0.5 and flops <= 1.35" --memory 328M
long && ok "ResNet-34 in half of its memory" plan resnet34 "arena <= 0.5 and flops <= 1.35" --memory 550M
ok "autoencoder, all again" plan autoencoder "arena <= 0.75 and again > 3" --recompute all
ok "values that pass by most of a network: a U-Net" plan ../tests/models/skips \
  "arena <= 0.72 and flops <= 1.2" --recompute all
# Each gradient of a weight is made as soon as it can, though all wait for the norm of all.
ok "SqueezeNet: what gradients read does not wait for their norm" \
  plan squeezenet "bytes <= 26e6" --recompute none
ok "and not what is computed again for them" plan squeezenet "bytes <= 22e6" --recompute all
cat >"$work/clipped.lua" <<'LUA'
local nn = require "nn"
local cfg = nn.config{clip = 1.0}
nn.train(32, function()
  local x, labels = nn.images{32, 3, 16, 16, classes = 4}
  x = x:conv2d("first", {out = 16, kernel = 3, pad = 1})
  for i = 1, 8 do x = x + x:relu():conv2d("conv" .. i, {out = 16, kernel = 3, pad = 1}) end
  return {loss = x:global_avg_pool():flatten():linear("fc", {out = 4}):cross_entropy(labels)}
end, {optimizer = "adamw", lr = 0.003, clip_norm = cfg.clip})
LUA
arena_of() { build/nngen show "$@" --plan | sed -n 's/^ "arena_bytes": \([0-9]*\),$/\1/p'; }
clipped() { # gradients of weights take much for themselves, and come early all the same
  local all none
  all=$(arena_of "$work/clipped.lua" --entry train)
  none=$(arena_of "$work/clipped.lua" --entry train --set clip=0.0)
  ((all <= none * 21 / 20)) || { echo "$all bytes, without clipping $none"; return 1; }
}
ok "convolutions and their sums, clipped by the norm of all" clipped
skips() {
  build/nngen tests/models/skips.lua --entry train --quiet --check --recompute all \
    --set batch=2 size=16 width=4 levels=2 >"$work/log" || { tail -5 "$work/log"; return 1; }
  grep -q "_again  *" "$work/log" || { echo "nothing is computed again"; return 1; }
}
ok "and its step is right" skips
step() { # the step of a small network, each kernel and each result against the oracle
  build/nngen tests/models/recompute.lua --entry train --quiet --check "$@" >"$work/log" 2>&1 ||
    { tail -5 "$work/log"; return 1; }
  grep -q "_again  *" "$work/log" || { echo "nothing is computed again"; return 1; }
}
# What waits for the backward part, what it computes again; the bytes are those of the values.
lists() {
  build/nngen show models/autoencoder.lua --entry train --memory 20M >"$work/list" &&
    grep -qE \
      '^# train: most memory is kept at kernel [0-9]+: [0-9.]+ [KMG]B for later kernels$' \
      "$work/list" &&
    grep -qE \
      '^#   %[0-9]+: [0-9.]+ [KMG]B, written by kernel [0-9]+ autoencoder__[a-z0-9_]+, last read by kernel [0-9]+$' \
      "$work/list" &&
    grep -qE \
      '^#   %[0-9]+: [0-9.]+ [KMG]B, recomputed by kernel [0-9]+ autoencoder__[a-z0-9_]+_again$' \
      "$work/list" &&
    build/nngen show models/autoencoder.lua --entry train >"$work/list" &&
    ! grep 'recomputed by' "$work/list"
}
ok "show lists what waits and what is computed again" lists
long && few 1/3 step && ok "a step, all again" step --recompute all
long && few 1/3 step && ok "a step, all again, bf16" step --recompute all --dtype bf16
long && few 1/3 step && ok "a step, all again: the same elements are left out" step --recompute \
  all --set drop=0.3
# masks LAYER SHARE: the arena where all is computed again, in hundredths of that of none, and as
# small as --memory can make it; without dropout it is hardly smaller.
arena() {
  build/nngen show tests/models/dropout.lua --entry train --plan --set batch=64 "$@" |
    sed -n 's/^ "arena_bytes": \([0-9]*\),$/\1/p'
}
masks() {
  local none all plain least; none=$(arena --set layer=$1 --recompute none)
  all=$(arena --set layer=$1 --recompute all)
  plain=$(arena --set layer=$1 --set drop=0 --recompute all)
  least=$(arena --set layer=$1 --memory 1K 2>&1 | sed -n 's/.*at least \([0-9]*\) bytes.*/\1/p')
  [ $((all * 100)) -le $((none * $2)) ] && [ "$all" = "$least" ] &&
    [ $((all * 100)) -le $((plain * 125)) ] ||
    { echo "none $none, all $all, without dropout $plain, at least $least"; return 1; }
}
ok "what dropout leaves out is drawn again: convolutions and norms" masks norm 55
long && ok "what dropout leaves out is drawn again: convolutions" masks conv 62
long && ok "what dropout leaves out is drawn again: products" masks linear 48
narrow() { # what a ReLU before it let through waits as a byte an element, not as four
  local bytes; bytes=$(arena --set layer=conv)
  [ "$bytes" -le 2600000 ] || { echo "$bytes bytes"; return 1; }
}
ok "conditions wait as conditions" narrow
long && ok "a step whose conditions wait" build/nngen tests/models/dropout.lua --entry train --quiet \
  --check --set layer=conv
redrawn() { # each kernel and each result of such a step against the oracle
  build/nngen tests/models/dropout.lua --entry train --quiet --check --recompute all "$@" \
    >"$work/log" 2>&1 || { tail -5 "$work/log"; return 1; }
}
long && few 1/4 drawn && ok "a step that draws again: convolutions and norms" redrawn
long && few 1/4 drawn && ok "a step that draws again: convolutions" redrawn --set layer=conv
long && few 1/4 drawn && ok "a step that draws again: products" redrawn --set layer=linear
long && few 1/4 drawn && ok "a step that draws again: products, bf16" redrawn --set layer=linear \
  --dtype bf16
too_small() { # too_small MESSAGE OPTIONS...
  local message=$1 rc; shift
  build/nngen show models/autoencoder.lua --entry train --plan "$@" >/dev/null 2>"$work/err"; rc=$?
  [ $rc = 2 ] && grep -qE "$message" "$work/err" || { echo "exit $rc"; cat "$work/err"; return 1; }
}
ok "less memory than a step can do with" \
  too_small "need at least [0-9]+ bytes, but --memory is 1000;" --memory 1K
ok "no bytes" too_small "^nngen: --memory much: expected bytes, for example 500M or 2G" --memory much
ok "no such policy" too_small "^nngen: --recompute some: expected one of none, auto, all" \
  --recompute some
ok "none again, and less memory than that needs" \
  too_small "need at least" --recompute none --memory 20M
tap_done
