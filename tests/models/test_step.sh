#!/usr/bin/env bash
# Whole steps of training as plans: every kernel against the oracle, in every precision, and how few
# of them there are.
. "$(dirname "$0")/../tap.sh"
step() {
  build/nngen tests/models/step.lua --quiet --check --entry train "$@" >"$work/log" 2>&1 ||
    { tail -4 "$work/log"; return 1; }
}
long && few 1/2 && ok "a step, every access checked" env NNGEN_SIM_CHECK=all build/nngen \
  tests/models/step.lua --quiet --check --entry train --set batch=2 size=8
ok "three steps of weights that are tied, bf16" build/nngen tests/models/tied.lua --quiet --check \
  --entry train --dtype bf16 --steps 3
long || ok "a step" step --set batch=2 size=8
long && few 1/2 && ok "a step, gradients clipped by their norm" step --set optimizer_clip=0.5
long && few 1/2 && ok "a step, unfused" step --lowering unfused
for dtype in $(long && echo bf16 tf32); do few 1/2 && ok "a step, $dtype" step --dtype $dtype; done
long && few 1/2 && ok "a step, fp16 with a scaled loss" step --dtype fp16 --set loss_scaling=true
ok "an evaluation" build/nngen tests/models/step.lua --quiet --check --entry eval
skips() { # a loss that overflows fp16 changes nothing but the scale, which is halved
  local at=$work/skip
  build/nngen tests/models/step.lua --quiet --no-check --entry train --dtype fp16 \
    --set loss_scaling=true --save "$at.1" >/dev/null || return
  python3 tests/models/step_weights.py scale "$at.1" 1e38 "$at.2" || return
  build/nngen tests/models/step.lua --quiet --no-check --entry train --dtype fp16 \
    --set loss_scaling=true --weights "$at.2" --save "$at.3" >/dev/null || return
  python3 tests/models/step_weights.py skipped "$at.2" "$at.3"
}
long && ok "a step whose gradients overflow is left out, and the scale halved" skips
grows() { # after 2000 good steps, up to 2^24; in fp32, where nothing overflows
  local at=$work/grows weigh=tests/models/step_weights.py scale want
  local step="build/nngen tests/models/step.lua --quiet --no-check --entry train"
  $step --set loss_scaling=true --save "$at.1" >/dev/null || return
  for scale in 65536 16777216; do
    want=$((scale == 65536 ? 131072 : 16777216))
    python3 $weigh scale "$at.1" $scale "$at.2" 1999 &&
      $step --set loss_scaling=true --weights "$at.2" --save "$at.3" >/dev/null &&
      python3 $weigh is "$at.3" $want || return
  done
}
long && ok "the scale doubles after 2000 steps, but not without end" grows
# plan MODEL CONDITION OPTIONS...: of the entry train, in Python: kernels, copies, arena, bytes,
# unfused bytes.
plan() {
  local model=$1 condition=$2; shift 2
  build/nngen show models/$model.lua --entry train --plan "$@" >"$work/fused.json" &&
    build/nngen show models/$model.lua --entry train --plan \
      --lowering unfused "$@" >"$work/unfused.json" || return
  python3 - "$work" "$condition" <<'P'
import json, sys
def read(name):
    plan = json.load(open("%s/%s.json" % (sys.argv[1], name)))
    steps = next(e for e in plan["entries"] if e["name"] == "train")["steps"]
    of = [plan["kernels"][s["kernel"]] for s in steps if s["kind"] == "launch"]
    return plan, steps, of, sum(k["bytes_read"] + k["bytes_written"] for k in of)
plan, steps, of, moved = read("fused")
facts = {"kernels": len(of), "copies": len(steps) - len(of),
         "arena": plan["arena_bytes"] / plan["arena_bound"],
         "fewer": read("unfused")[3] / moved, "ops": [k["ops"] for k in of]}
if not eval(sys.argv[2], facts):
    sys.exit("%s: %s" % (sys.argv[2], {k: v for k, v in facts.items()
                                       if k not in ("ops", "__builtins__")}))
P
}
ok "ResNet-18, CIFAR, batch 128: at most 120 kernels, half the bytes" \
  plan resnet18 "kernels <= 120 and copies == 0 and arena <= 1.1 and fewer >= 2"
ok "ResNet-34: twice the layers" plan resnet34 "kernels <= 215 and copies == 0 and fewer >= 2"
ok "a convolution's kernel makes the scale of the batch norm behind it" \
  plan resnet18 "sum('conv2d+' in o and 'rsqrt' in o for o in ops) >= 15"
ok "weights are updated in the epilogues of their gradients" \
  plan resnet18 "sum('conv2d_filter' in o and o.endswith('sub') for o in ops) >= 15"
ok "small updates are one launch" \
  plan resnet18 "sum('+sub and ' in o and o.endswith(' more') for o in ops) == 1"
computed() { # computed MODEL MOST OPTIONS...: kernels that make an operand element by element
  build/nngen show models/$1.lua --entry train --cuda "${@:3}" >"$work/cuda" || return
  local count; count=$(grep -c 'computed_source<' "$work/cuda")
  [ "$count" -le "$2" ] || { echo "$count kernels, wanted at most $2"; return 1; }
}
for dtype in bf16 $(long && echo fp32); do # what is left: filters' gradients by images of one or three channels
  ok "ResNet-18: operands are copied, $dtype" computed resnet18 1 --dtype $dtype
  ok "autoencoder: operands are copied, $dtype" computed autoencoder 2 --dtype $dtype
done
ok "autoencoder: at most 36 kernels, no copies" plan autoencoder "kernels <= 36 and copies == 0"
ok "block: derivatives of attention are written among those of q, k and v" plan block \
  "kernels <= 34 and copies == 0 and arena <= 1.1 and not any('concat' in o or o == 'permute' for o in ops)" \
  --dtype bf16
linear() { # of twice the tokens scores are four times as many: they are not in memory
  local bytes=()
  for tokens in 1024 2048; do
    bytes+=("$(build/nngen show models/block.lua --entry train --plan --set tokens=$tokens "$@" |
      sed -n 's/^ "arena_bytes": \([0-9]*\),$/\1/p')")
  done
  [ "${bytes[1]}" -gt 0 ] && [ $((bytes[1] * 2)) -le $((bytes[0] * 5)) ] ||
    { echo "arena: ${bytes[*]} bytes"; return 1; }
}
for dtype in bf16 $(long && echo fp32); do
  ok "block: the arena of a step grows as tokens do, $dtype" linear --dtype $dtype
done
tap_done
