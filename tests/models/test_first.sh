#!/usr/bin/env bash
# Products whose kernel begins with rows, as of a norm of the model's input: all blocks make them
# together, then wait until all are there.
. "$(dirname "$0")/../tap.sh"
model=tests/models/first.lua
run() { build/nngen $model --quiet --check --set "$@"; }
checked() { NNGEN_SIM_CHECK=all run "$@"; }
listed() { build/nngen show $model --set "$@" | grep '^# kernel' | grep -v ', init,'; }
kernels() { # kernels N WORD SETTING...: so many, one of which has this in its name, and right
  local want=$1 word=$2 got; shift 2
  got=$(listed "$@")
  [ "$(grep -c . <<<"$got")" = "$want" ] && grep -q "__$word" <<<"$got" ||
    { echo "$got"; return 1; }
  checked "$@"
}
joined() { kernels 1 norm_fc "$@"; }
for case in layer rms softmax leaves sums gathered changes; do
  few 7/2 || continue
  case $case in
    softmax) word=softmax_fc ;;
    changes) word=norm_mul_add_fc ;;
    *) word=norm_fc ;;
  esac
  [ $case = gathered ] && count=2 || count=1
  for dtype in fp32 $(long && echo fp16 bf16 tf32); do
    ok "$case $dtype" kernels $count $word case=$case --dtype $dtype
  done
done
ok "two products read the rows: the first one makes them" kernels 2 norm_p case=several
ok "a norm behind another product's softmax" kernels 3 softmax_norm2 case=follows --dtype bf16
for shape in "rows=5 width=20" "rows=130 width=300" "rows=300 width=32" "rows=33 width=6" \
  "rows=1000 width=8" "rows=70 width=520 columns=64" "rows=1501 width=260 columns=200"; do
  few 7/2 shapes || continue
  ok "rows of $shape" joined $shape
done
runs() { build/nngen show $model --cuda --set case=layer rows=12000 width=256 columns=1024 |
  grep -q 'kRuns = [2-9]'; }
ok "many rows: jobs of several runs" runs
# Where they stay apart, with the reason.
apart() { # apart REASON SETTING...
  build/nngen show $model --set "${@:2}" | grep -q "not fused with .*norm: $1" && run "${@:2}"
}
ok "long rows stay a kernel" apart "its rows are too long for a warp" rows=64 width=3000
# A GPU may read by another way what __restrict__ says that nobody writes; libcusim would not show it.
shared() { build/nngen show $model --cuda --set case=leaves | grep -qx "  float \*g_norm,"; }
ok "rows that are written and read are not restrict" shared
ok "both operands" apart "both operands of the product" case=both --dtype bf16
ok "a right operand" kernels 2 norm case=right
ok "rows across memory" kernels 2 softmax case=across
cat >"$work/names.lua" <<'LUA'
local nn = require "nn"
nn.output("y", nn.input("x", {37, 192}):layer_norm("norm"):linear("fc", {out = 96}))
nn.output("z", nn.input("w", {37, 192}):linear("norm_fc", {out = 96}))
local one, other = ("many_words_of_one."):rep(6), ("words_of_another."):rep(6)
nn.output("v", nn.input("u", {37, 192}):layer_norm(one .. "norm"):linear(other .. "fc", {out = 96}))
LUA
named() { # symbols are each kernel's own, and short enough
  build/nngen "$work/names.lua" --quiet --check >"$work/log" || { cat "$work/log"; return 1; }
  build/nngen show "$work/names.lua" | grep -o '^# kernel [0-9]* [^:]*' >"$work/list"
  grep -q "names__norm_fc_2$" "$work/list" && [ "$(wc -l <"$work/list")" = 3 ] ||
    { cat "$work/list"; return 1; }
}
ok "names of both, which another layer has, or that are long" named
unfused() { run case=layer --lowering unfused | grep -q '^norm .*rowwise'; }
ok "unfused, the norm is a kernel" unfused
# Counters are back at 0 after each run, whichever block ends last.
ok "runs of one graph, each with another state" run case=changes rows=40 --steps 5 --graph
steps() { # the second run must make its rows, too
  local n
  for n in 1 3; do run case=changes rows=40 --steps $n >/dev/null || return; done
}
ok "run after run" steps
for seed in 1 2 3 4; do
  [ $seed = 1 ] || long || continue
  ok "threads in any order, all checks, seed $seed" env NNGEN_SIM_SEED=$seed NNGEN_SIM_CHECK=all \
    build/nngen $model --quiet --check --set rows=150 width=320
done
crowd() { NNGEN_SIM_THREADS=8 run rows=600 width=1024; }
ok "blocks that run side by side" crowd
planned() { # planned bytes are counted bytes
  build/nngen $model --quiet --count --json --set "$@" | tr -d ' ,"' | awk -F: '
    $1 == "kernels" {on = 1} on && $1 == "bytes_read" && !counted {planned = $2}
    on && $1 == "bytes_written" && !counted {planned += $2} $1 == "counted" {counted = 1}
    $1 == "distinct_bytes" {bytes = $2}
    END {exit !(bytes && bytes <= 1.01 * planned && bytes >= 0.99 * planned)}'
}
[ $NNGEN_DEVICE = sim ] && ok "planned bytes are counted bytes" planned rows=150 width=320
explained() {
  local text
  text=$(build/nngen $model --quiet --device sim --explain norm --set rows=150 width=320)
  grep -q 'its blocks first compute the rows of norm, [0-9]* jobs' <<<"$text" ||
    { echo "$text"; return 1; }
}
ok "--explain, by the name of the norm" explained
tap_done
