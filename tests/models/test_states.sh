#!/usr/bin/env bash
# States and entries (states.lua) against the oracle, over several runs, saved and restored.
. "$(dirname "$0")/../tap.sh"
run() { build/nngen tests/models/states.lua --quiet --check "$@"; }
for case in counter average swap moved cache descent shared; do
  ok "$case" run --set case=$case
  ok "$case, fp16, unfused" run --set case=$case --dtype fp16 --lowering unfused
done
ok "another entry" run --set case=counter --entry reset
ok "an entry that trains" run --set case=descent --entry train
ok "replayed as a graph, from the same states" run --set case=cache --graph --repeat 4
ok "an entry that does not exist" \
  fails 2 "--entry rest: tests/models/states.lua has no such entry; it has: infer, reset" \
  run --set case=counter --entry rest
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
tap_done
