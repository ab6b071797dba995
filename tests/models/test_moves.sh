#!/usr/bin/env bash
# Stores through moves (moves.lua): against the oracle, in as many kernels as each case says, with
# the bytes that were planned; under several thread orders and tiles.
. "$(dirname "$0")/../tap.sh"
model=tests/models/moves.lua
stored() { # stored OPTIONS...
  build/nngen $model --quiet --check "$@" >"$work/log" 2>&1 || { tail -3 "$work/log"; return 1; }
  awk '/^kernels expected/ {want = $3} /^kernels .* ops/ {got = $5}
    END {if (got > want) print got, "kernels, at most", want; exit !want || got > want}' "$work/log"
}
for dtype in fp32 $(long && echo fp16 tf32); do # bf16 is fp16 under another name
  few 1/3 && ok "stored in place, $dtype" stored --dtype $dtype
done
for place in $(long && echo 3 5); do
  few 1/2 candidates && ok "stored in place, candidate $place, fp16" env NNGEN_SIM_SEED=$place \
    build/nngen $model --quiet --check --dtype fp16 --candidate $place
done
long && ok "unfused: a layer's own moves alone" build/nngen $model --quiet --check --lowering unfused
planned_is_counted() { # each kernel touches the bytes it was planned to touch, within 1 %
  [ $NNGEN_DEVICE = sim ] || return 0
  NNGEN_SIM_OPTIMIZE=${NNGEN_SIM_OPTIMIZE:+g} build/nngen $model --quiet --no-check --count --json \
    "$@" >"$work/j" || return # counted, -O0 takes longer to compile than -Og
  sed -n '/^{/,$p' "$work/j" | tr -d ' ,"' | awk -F: '
    $1 == "bytes_read" && !n {r = $2; n = 1; next} $1 == "bytes_written" && n == 1 {w = $2; n = 2}
    $1 == "distinct_bytes" {kernels++; e = ($2 - r - w) / (r + w)
      if (e > 0.01 || e < -0.01) {print "planned", r + w, "counted", $2; bad = 1}}
    $1 == "name" {n = 0} END {exit bad || kernels < 25}'
}
long && few 1/2 bytes && ok "planned bytes are counted bytes, fp32" planned_is_counted
long && few 1/2 bytes && ok "planned bytes are counted bytes, fp16" planned_is_counted --dtype fp16
cat >"$work/steps.lua" <<'LUA'
-- A recurrence, step by step, whose results are joined: more than a kernel has arguments for.
local nn = require "nn"
local c = nn.config{steps = 520, width = 4}
local x, h, list = nn.input("x", {c.steps, c.width}), nn.zeros({c.width}), {}
for t = 1, c.steps do
  h = h * 0.9 + x:select(1, t):tanh()
  list[t] = h + x:select(1, t)
end
nn.output("y", nn.stack(list))
LUA
if long; then ok "520 results of steps, joined" build/nngen "$work/steps.lua" --quiet --check
else ok "520 results of steps, joined" build/nngen show "$work/steps.lua" --cuda; fi
# Gradients of borders and of what is turned around: those of a gather by the same places, but made
# of moves, in the time of a copy: no kernel compares each place with each.
cat >"$work/borders.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {3, 6})
local cases = {
  {x:pad({3, 2}, "reflect"), {3, 2, 1, 0, 1, 2, 3, 4, 5, 4, 3}},
  {x:pad({2, 3}, "replicate"), {0, 0, 0, 1, 2, 3, 4, 5, 5, 5, 5}},
  {x:pad({6, 1}, "circular"), {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0}},
  {x:flip{2}, {5, 4, 3, 2, 1, 0}},
}
local gathered = nn.config{gathered = true}.gathered
for i, case in ipairs(cases) do
  local function gradient(y)
    return nn.grad((y * y * nn.index(y.shape, 2):to("f32")):sum(), x)
  end
  local by_moves = gradient(case[1])
  local by_places = gathered and gradient(x:gather(nn.tensor(case[2]), 2)) or 0
  nn.output("off" .. i, gathered and (by_moves - by_places):abs():amax() or by_moves)
end
LUA
borders() {
  build/nngen show "$work/borders.lua" --set gathered=false | grep scatter_add && return 1
  build/nngen "$work/borders.lua" --quiet --check --output "$work/off" >"$work/log" 2>&1 ||
    { tail -3 "$work/log"; return 1; }
  tail -qc 4 "$work"/off/off[1-4].npy | od -An -v -tf4 -w4 |
    awk '{n++} $1 > 1e-5 {print "off by", $1; bad = 1} END {exit bad || n != 4}'
}
ok "gradients of borders are made of moves" borders
tap_done
