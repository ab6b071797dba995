#!/usr/bin/env bash
# Rounding alone fails no check, where results have few digits left or stand beside a step; a kernel
# that is off does.
. "$(dirname "$0")/../tap.sh"
run() {
  build/nngen tests/models/rounding.lua --quiet --set "case=$1" "wrong=${2:-false}" "${@:3}"
}
says() {
  run "$1" >"$work/said" && grep -q '; rounding alone explains up to [0-9.e+-]*) ok$' "$work/said" ||
    { cat "$work/said"; return 1; }
}
for case in digits edges difference sums; do
  ok "rounding: $case" says $case
  ok "rounding: $case, a wrong kernel" fails 1 "wrong result" run $case true
  ok "rounding: $case, unfused" run $case false --lowering unfused
done
# Numbers of which some are NaN where the oracle's are not: no rounding of the others explains that.
cat >"$work/holed.lua" <<'LUA'
local nn = require "nn"
nn.op_row{name = "holed", cuda = "($1 > 2.f ? nn_log(-1.f) : $1)", ref = function(x) return x end}
local x, w = nn.input("x", {64, 64}), nn.input("w", {64, 64})
nn.output("y", nn.op.holed(nn.matmul(x, w) * 0.25 - 0.1) * 3)
LUA
ok "NaN among numbers" fails 1 "wrong result" build/nngen "$work/holed.lua" --quiet
ok "rounding: padded" run padded
ok "rounding: padded, a wrong kernel" fails 1 "wrong result" run padded true
long && ok "rounding: padded, fp16, unfused" run padded false --dtype fp16 --lowering unfused
ok "rounding: largest" run largest
ok "rounding: largest, a wrong kernel" fails 1 "wrong result" run largest true
ok "rounding: moments" run moments
ok "rounding: moments, a wrong kernel" fails 1 "wrong result" run moments true
ok "rounding: places" run places false --dtype bf16
long && ok "rounding: steep" run steep false --dtype bf16
ok "rounding: steeper" run steeper false --dtype bf16
ok "rounding: tables, fp16" run tables false --dtype fp16
ok "rounding: tables, bf16" run tables false --dtype bf16
behind() { # many seeds: chance decides which element is beside the step
  local seed
  for seed in 1 2 3 4 5 6; do run behind false --dtype $1 --seed $seed >/dev/null || return; done
}
for dtype in fp16 bf16 tf32; do
  ok "rounding: behind, $dtype" behind $dtype
  ok "rounding: behind, a wrong kernel, $dtype" fails 1 "wrong result" run behind true --dtype $dtype
done
for dtype in fp32 bf16; do
  ok "rounding: ids, $dtype" run ids false --dtype $dtype
  ok "rounding: ids, one is off by one, $dtype" fails 1 "1 integers differ that must be equal" \
    run ids true --dtype $dtype
done
tap_done
