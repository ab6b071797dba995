#!/usr/bin/env bash
# Every reduction along every kind of axes (reduce.lua), and of NaN, infinities, ties and large means
# (reduce_special.lua): against the oracle, in every dtype, under several thread orders.
. "$(dirname "$0")/../tap.sh"
run() { build/nngen "$@" --quiet --check; }
all=tests/models/reduce.lua special=tests/models/reduce_special.lua
for dtype in fp32 fp16 bf16; do ok "every reduction, $dtype" run $all --dtype $dtype; done
ok "every reduction, unfused" run $all --lowering unfused
ok "every reduction, odd shape" run $all --set rows=3 columns=7 depth=5
ok "NaN, infinities, ties and large means" run $special
ok "the same of rows longer than registers hold" run $special --set columns=20000
for seed in 1 2; do ok "under thread order $seed" env NNGEN_SIM_SEED=$seed build/nngen $special --quiet --check; done
kernels() { # kernels WANT ARGUMENTS...: so many kernels are made
  local want=$1 got; shift
  got=$(build/nngen show "$@" | grep -c '^# kernel.*reduce_')
  [ "$got" = "$want" ] || { echo "$got kernels, want $want"; return 1; }
}
cat >"$work/siblings.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {4, 30, 50})
nn.output("v", nn.var(x, 2) + nn.sum(x, 2) * nn.amax(x, 2))
nn.output("s", nn.softmax(x, 2))
LUA
ok "reductions of one value are one kernel" kernels 1 "$work/siblings.lua"
ok "which is right" run "$work/siblings.lua"
tap_done
