#!/usr/bin/env bash
# Text from GPT-2 and LLaMA: a token a run, of keys and values that states hold, is what whole
# prompts give; seeded draws; a full context.
. "$(dirname "$0")/../tap.sh"
model=gpt2
run() { build/nngen models/$model.lua --quiet "$@"; }
text() { # text FILE: count, then the tokens of the state
  python3 - "$1" <<'P'
import json, struct, sys
data = open(sys.argv[1], 'rb').read()
size = struct.unpack('<Q', data[:8])[0]
header = json.loads(data[8:8 + size])
def ints(name):
    begin, end = header[name]['data_offsets']
    return struct.unpack('<%di' % ((end - begin) // 4), data[8 + size + begin:8 + size + end])
print(ints('count')[0], *ints('tokens'))
P
}
written() { # written STEPS OPTIONS...: the text after a prompt of 6 tokens and some steps
  local steps=$1; shift
  run "$@" --set tokens=6 $settings --entry prompt --save "$work/a.safetensors" >"$work/log" ||
    { cat "$work/log"; return 1; }
  run "$@" --set tokens=6 $settings --entry next --graph --steps $steps \
    --weights "$work/a.safetensors" --output "$work/next" \
    --save "$work/b.safetensors" >"$work/log" ||
    { cat "$work/log"; return 1; }
  text "$work/b.safetensors"
}
ids() { # ids TOKEN...: a npy file of (1, count) i32
  python3 - "$work/ids.npy" "$@" <<'P'
import struct, sys
ids = [int(x) for x in sys.argv[2:]]
header = "{'descr': '<i4', 'fortran_order': False, 'shape': (1, %d), }" % len(ids)
header += ' ' * (63 - (10 + len(header)) % 64) + '\n'
open(sys.argv[1], 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) +
                              header.encode() + struct.pack('<%di' % len(ids), *ids))
P
}
# The logits of the last step are those that the whole text gives there; and the most likely token,
# where none was drawn, is the one that was written.
matches() { # matches STEPS DTYPE MOST-ERROR
  local steps=$1 list count
  list=($(written $steps --dtype $2)) || { echo "${list[*]}"; return 1; }
  count=${list[0]}
  [ $count = $((7 + steps)) ] || { echo "$count tokens, not $((7 + steps))"; return 1; }
  ids "${list[@]:1:count}"
  run --dtype $2 --set tokens=$count --weights "$work/a.safetensors" \
    --input input_ids="$work/ids.npy" --output "$work/npy" >"$work/log" ||
    { cat "$work/log"; return 1; }
  python3 - "$work/npy/logits.npy" "$work/next/next_logits.npy" $count $3 "$settings" \
    "${list[@]:1:count}" <<'P'
import struct, sys
def load(path):
    data = open(path, 'rb').read()
    at = 10 + struct.unpack('<H', data[8:10])[0]
    return struct.unpack('<%df' % ((len(data) - at) // 4), data[at:])
whole, last, count, most, drawn, ids = (
    load(sys.argv[1]), load(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5],
    [int(x) for x in sys.argv[6:]])
vocab = len(last)
want = whole[(count - 2) * vocab:(count - 1) * vocab]
error = (sum((a - b) ** 2 for a, b in zip(want, last)) / sum(a * a for a in want)) ** 0.5
print(ids, 'relative error', error)
assert error <= most
if drawn:
    assert len(set(ids[6:])) > 2
else:
    assert ids[-1] == max(range(vocab), key=lambda v: want[v])
P
}
settings=
ok "ten tokens, one a run" matches 10 fp32 1e-5
model=llama
long && few 1/2 && ok "ten tokens of LLaMA" matches 10 fp32 1e-5
long && few 1/2 && ok "ten tokens of LLaMA, fp16" matches 10 fp16 5e-3
model=gpt2
settings="temperature=3.0 seed=5"
ok "ten drawn tokens, fp32" matches 10 fp32 1e-5
long && ok "ten drawn tokens, fp16" matches 10 fp16 5e-3
a=$(written 8) b=$(written 8)
ok "drawn tokens are the same for a seed" [ "$a" = "$b" ]
settings="temperature=3.0 seed=6"
ok "and others for another" [ "$a" != "$(written 8)" ]
settings="temperature=3.0 seed=5 top_k=1"
c=$(written 8)
settings=
ok "of the most likely alone: as without drawing" [ "$c" = "$(written 8)" ]
settings="temperature=3.0 seed=5 top_p=0.001"
d=$(written 8)
ok "of the least probability: as without drawing" [ "$c" = "$d" ]
settings="temperature=3.0 seed=5 top_p=0.999999"
d=$(written 8)
ok "of all probability: as without a limit" [ "$a" = "$d" ]
settings="temperature=3.0 seed=5 top_p=0.5"
ok "ten tokens drawn of half the probability" matches 10 fp32 1e-5
settings=
full() { # no token is written beyond the last position, and the model's line says why
  local list=($(written 33))
  [ ${list[0]} = 40 ] && [ ${#list[@]} = 41 ] || return 1
  run --entry next --weights "$work/b.safetensors" --save "$work/c.safetensors" >"$work/log" 2>&1
  [ $? = 5 ] && grep -q "^nngen: models/transformer.lua:[0-9]*: state 'count' is 41 .*, not 0 to 40: the context of 40 tokens is full" \
    "$work/log" && grep -q "|   local count = " "$work/log" &&
    [ "$(text "$work/c.safetensors" | cut -d' ' -f2-)" = "$(text "$work/b.safetensors" |
      cut -d' ' -f2-)" ]
}
ok "a context that is full: an error, and the text stays" full
last_prompt() { # one of as many tokens as positions says which would follow, and is kept whole
  run --set tokens=40 --entry prompt --save "$work/d.safetensors" --output "$work/last" --check ||
    return
  local list=($(text "$work/d.safetensors"))
  ids ${list[@]:1}
  run --set tokens=40 --weights "$work/d.safetensors" --input input_ids="$work/ids.npy" \
    --output "$work/npy" || return
  [ ${list[0]} = 40 ] && python3 - "$work/last/first_token.npy" "$work/npy/logits.npy" <<'P' || return
import struct, sys
token, logits = (open(path, 'rb').read() for path in sys.argv[1:])
last = struct.unpack('<97f', logits[-97 * 4:])
assert struct.unpack('<i', token[-4:])[0] == max(range(97), key=lambda v: last[v])
P
  fails 5 "state 'count' is 41" run --entry next --weights "$work/d.safetensors"
}
long && ok "a prompt that fills the context" last_prompt
ok "more tokens than positions" fails 2 "there are more tokens than positions" \
  run --set tokens=41 --entry prompt
ok "top_k of what is not drawn" fails 2 "top_k needs a temperature above 0" \
  run --set top_k=5 --entry next
ok "top_p of what is not drawn" fails 2 "top_p needs a temperature above 0" \
  run --set top_p=0.5 --entry next
shown() { build/nngen show models/gpt2.lua "$@"; }
weights_once() { # what weights are made into is the same memory for every entry
  local model twice
  for model in gpt2 llama; do
    build/nngen show models/$model.lua --set layers=1 | grep '^# kernel.*, init, ' >"$work/init"
    twice=$(grep -E '(mul\+sub|concat\+(mul|copy)), init' "$work/init" |
      sed 's/.*reads \(%[0-9]* %[0-9]*\).*/\1/' | sort | uniq -d)
    [ -s "$work/init" ] && [ ! "$twice" ] || { cat "$work/init"; return 1; }
  done
  [ "$(grep -c 'cos+sin, init' "$work/init")" = 1 ] || { cat "$work/init"; return 1; }
}
ok "weights are scaled and joined once for all entries" weights_once
in_place() { ! shown | grep ': permute, next'; }
ok "heads of one token are read where they are" in_place
ok "keys and values are stored in 16 bits" \
  grep -q 'state().* bf16(1,3,40,8).*"h.0.attn.keys"' <(shown --dtype bf16)
table() { # the position is one more after each step, and leaves a table of 5 rows in the sixth
  cat >"$work/table.lua" <<'LUA'
local nn = require "nn"
local at = nn.state("at", {1}, {dtype = "i32"})
nn.output("row", nn.param("rows", {5, 4}):gather(at))
nn.update(at, at + 1)
LUA
  build/nngen "$work/table.lua" --no-check --quiet --steps 5 >"$work/log" &&
    grep -q "^steps .*after the last" "$work/log" || { cat "$work/log"; return 1; }
  build/nngen "$work/table.lua" --no-check --quiet --steps 6 >"$work/log" 2>&1
  [ $? != 0 ] && grep -q "table.lua:3" "$work/log" || { cat "$work/log"; return 1; }
}
wrapped() { # states whose values become ids in ways that intervals of real numbers do not show
  local case
  cat >"$work/wrapped.lua" <<'LUA'
local nn = require "nn"
local cfg = nn.config{case = "nan"}
if cfg.case == "nan" then
  local x = nn.state("x", {1})
  nn.output("y", nn.param("w", {5, 4}):gather(x:clamp(1, 5):to("i32") - 1))
  nn.update(x, nn.log(x - 2))
elseif cfg.case == "u8" then
  local at = nn.state("at", {1}, {dtype = "u8", init = 100})
  nn.output("y", nn.param("w", {400, 4}):gather(at:to("i32") - 100))
  nn.update(at, at + 100)
elseif cfg.case == "bf16" then
  local at = nn.state("at", {1}, {dtype = "bf16"})
  nn.output("y", nn.param("w", {260, 4}):gather(at:to("i32")))
  nn.update(at, nn.minimum(at + 300, 259))
end
LUA
  for case in nan u8 bf16; do
    build/nngen "$work/wrapped.lua" --no-check --quiet --steps 3 --set case=$case >"$work/log" 2>&1
    [ $? != 0 ] && grep -q "wrapped.lua:[0-9]*: gather: id" "$work/log" ||
      { echo "$case"; cat "$work/log"; return 1; }
  done
}
ok "so are ids of NaN, of bytes that wrap around, and of rounded states" wrapped
freely() { # freely WHEN OPTIONS...: the host waited then
  run --entry prompt --save "$work/free.safetensors" --no-check >/dev/null &&
    run --weights "$work/free.safetensors" --entry next --no-check "${@:2}" >"$work/log" &&
    grep -q "^steps .*; the host waited $1" "$work/log" || { grep ^steps "$work/log"; return 1; }
}
ok "tokens follow each other by one graph, and the host waits for the last" freely "after the last" \
  --steps 20 --graph
ok "ids that may leave their table are checked between steps" table
ok "each kernel of a step is right" run --entry next --check
long && ok "fp16, and of a prompt" run --entry prompt --check --dtype fp16
tap_done
