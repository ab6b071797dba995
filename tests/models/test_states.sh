#!/usr/bin/env bash
# States and entries (states.lua) against the oracle, over several runs, saved and restored.
. "$(dirname "$0")/../tap.sh"
run() { build/nngen tests/models/states.lua --quiet --check "$@"; }
for case in counter integers largest average swap moved cache descent shared row row_of_old \
  row_used two_indices two_rows other_rows other_than_row rows_below columns another_state placed \
  tails \
  turned flipped early narrow; do
  [[ $case =~ ^(counter|integers|largest|average|cache)$ ]] || few 5/2 fused &&
    ok "$case" run --set case=$case
  few 10/2 unfused && ok "$case, fp16, unfused" run --set case=$case --dtype fp16 --lowering unfused
done
ok "another entry" run --set case=counter --entry reset
ok "an entry that trains" run --set case=descent --entry train
ok "replayed as a graph, from the same states" run --set case=cache --graph --repeat 4
ok "an entry that does not exist" \
  fails 2 "--entry rest: tests/models/states.lua has no such entry; it has: infer, reset" \
  run --set case=counter --entry rest
cat >"$work/old.lua" <<'LUA'
local nn = require "nn"
local s = nn.state("s", {3}, {init = 7})
nn.update(s, s + 1)
nn.output("read", s * 2)
LUA
old() { # wherever the update stands, a state is read as it was before the run
  local o
  for o in fused unfused; do
    build/nngen "$work/old.lua" --quiet --check --lowering $o --output "$work/old" \
      --save "$work/old.safetensors" >"$work/log" || return
    [ "$(tail -c 12 "$work/old/read.npy" | od -An -tf4 | xargs)" = "14 14 14" ] &&
      [ "$(tail -c 12 "$work/old.safetensors" | od -An -tf4 | xargs)" = "8 8 8" ] || return
  done
}
ok "a state that is read behind its update is the old one" old
last() { tail -c 4 "$1" | od -An -td4 | tr -d ' '; }
counts() { # 7, 8, 9 over three runs; then another entry's 10, and 0
  local from= want
  for want in 7 8 9; do
    run --set case=counter $from --save "$work/n.safetensors" --output "$work/n" >/dev/null ||
      return
    [ "$(last "$work/n/before.npy")" = $want ] || { last "$work/n/before.npy"; return 1; }
    cp "$work/n.safetensors" "$work/m.safetensors"; from="--weights $work/m.safetensors"
  done
  run --set case=counter $from --entry reset --save "$work/n.safetensors" \
    --output "$work/n" >/dev/null &&
    [ "$(last "$work/n/was.npy")" = 10 ] &&
    run --set case=counter --weights "$work/n.safetensors" --output "$work/n" >/dev/null &&
    [ "$(last "$work/n/before.npy")" = 0 ]
}
ok "saved and restored" counts
lacks() { # a network's weights alone begin a step of training: what else the step has is said
  local file=$work/mlp.safetensors said="$work/said"
  build/nngen models/mlp.lua --quiet --save "$file" >"$said" &&
    ! grep ^weights "$said" &&
    build/nngen models/mlp.lua --quiet --weights "$file" >"$said" && ! grep ^weights "$said" &&
    build/nngen models/mlp.lua --quiet --entry train --weights "$file" --save "$work/all" \
      >"$said" &&
    grep "^weights   not in $file, initialised: train.step, adam.exp_avg.fc1.weight, " "$said" |
    grep -q " and 7 more$" &&
    build/nngen models/mlp.lua --quiet --entry train --weights "$file" --json |
    python3 -c 'import json, sys
names = json.load(sys.stdin)["not_in_weights"]
sys.exit("train.step" not in names or "fc1.weight" in names)' &&
    build/nngen models/mlp.lua --quiet --entry train --weights "$work/all" >"$said" &&
    ! grep ^weights "$said"
}
ok "states that a file of weights has not" lacks
falls() { # the loss of each step is below the one before
  local from= i loss before=1e30
  for i in 1 2 3; do
    run --set case=descent --entry train $from --save "$work/w.safetensors" \
      --output "$work/d" >/dev/null || return
    loss=$(tail -c 4 "$work/d/loss.npy" | od -An -tf4)
    awk "BEGIN {exit !($loss < $before)}" || { echo "$loss, before $before"; return 1; }
    before=$loss; cp "$work/w.safetensors" "$work/v.safetensors"
    from="--weights $work/v.safetensors"
  done
}
ok "descent goes down" falls
in_place() { # a state read element by element is written where it is; a moved one is not
  build/nngen show tests/models/states.lua --set case=average --plan >"$work/average" &&
    ! grep -q '"copy"' "$work/average" &&
    build/nngen show tests/models/states.lua --set case=moved --plan | grep -q '"copy"'
}
ok "in place where legal" in_place
shared() { # values of shared.lua: 2 calls between, equal ones, a mean where it belongs
  build/nngen tests/models/shared.lua --quiet --check --dtype $1 --output "$work/shared" &&
    python3 - "$work/shared" $2 <<'P'
import struct, sys
def data(name):
    npy = open("%s/%s.npy" % (sys.argv[1], name), "rb").read()
    return npy[10 + struct.unpack("<H", npy[8:10])[0]:]
assert struct.unpack("<i", data("calls")) == (2,), data("calls")
assert not any(data("difference")) and not any(data("off")), data("off")
for name in "ordered", "same":
    values = struct.unpack("<24f", data(name))
    assert max(map(abs, values)) < float(sys.argv[2]), (name, values)
P
}
ok "calls of a shared function" shared fp32 1e-5
ok "calls of a shared function, bf16" shared bf16 0.1
# Of three places the middle one is beyond the last row: two rows of 64 bytes are written of one
# state or two, and x is read there; the places are 4 + 12 bytes, written and read again where a
# kernel of their own adds them.
cat >"$work/two.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {3})
nn.output("first", x + 1)
nn.output("fixed", nn.param("p", {3}) * 2)
nn.entry("other", function() nn.output("second", x * 2) end)
LUA
written() { # written ENTRY NAMES: --output writes what the entry makes, and what never changes
  rm -rf "$work/of" && build/nngen "$work/two.lua" --quiet --entry $1 --output "$work/of" || return
  [ "$(cd "$work/of" && echo *)" = "$2" ] || { ls "$work/of"; return 1; }
}
cat >"$work/rows.lua" <<'LUA'
local nn = require "nn"
local cfg = nn.config{case = "where", positions = 4096}
local cache = nn.state("cache", {2, 4, cfg.positions, 64})
local x, at = nn.input("x", {2, 4, 1, 64}), nn.input("at", {1}, {dtype = "i32", below = 9})
local of_each = nn.input("of_each", {2, 1, 1, 1}, {dtype = "i32", below = 9})
local row = nn.index({1, 1, cfg.positions, 1}, 3)
local made = {
  where = function() return nn.where(row:eq(at), x, cache) end,
  each = function() return nn.where(row:eq(of_each), x, cache) end, -- another row of each example
  norm = function() return nn.where(row:eq(at), x:rms_norm("n"), cache) end,
  index_copy = function() return cache:index_copy(3, at, x) end,
}
local all = made[cfg.case]()
nn.update(cache, all)
local q = nn.input("q", {2, 4, 1, 64})
if cfg.case == "norm" then nn.output("y", q:attention(all, all)) end
LUA
few_blocks() { # few_blocks CASE: the kernels that write one row of a cache have a block or two
  local blocks
  blocks=$(build/nngen show "$work/rows.lua" --set case=$1 |
    sed -n '/attention/d;s/^# kernel.* grid \([0-9]*\)x.*/\1/p' | sort -n | tail -1)
  [ "$blocks" -le 2 ] || { echo "$blocks blocks"; return 1; }
  build/nngen "$work/rows.lua" --quiet --check --set case=$1 positions=7
}
for case in where each norm index_copy; do ok "one row of a cache, $case" few_blocks $case; done
ok "outputs of the entry that ran" written infer "first.npy fixed.npy"
ok "outputs of another entry" written other "fixed.npy second.npy"
counted() { # counted CASE BYTES: the distinct bytes of all kernels
  build/nngen tests/models/states.lua --quiet --count --json --set case=$1 >"$work/j" || return
  local bytes=$(awk -F'[:,]' '/"distinct_bytes"/ {sum += $2} END {print sum}' "$work/j")
  [ "$bytes" = $2 ] || { echo "case $1: $bytes bytes counted, not $2"; return 1; }
}
if [ $NNGEN_DEVICE = sim ]; then
  ok "one row is written" counted row $((2 * 64 + 2 * 64 + 4))
  ok "one row is read and written" counted row_of_old $((3 * 2 * 64 + 4))
  ok "one row of each of two states is written" counted two_rows $((4 + 2 * 64 + 2 * 2 * 64))
  ok "all is written where another row of another state changes" counted other_rows 4036
fi
tap_done
