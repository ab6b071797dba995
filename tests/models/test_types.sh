#!/usr/bin/env bash
# Values of every type (types.lua) against the oracle, integers and bools exactly; what goes in and
# out as NumPy files; the policy of precision.
. "$(dirname "$0")/../tap.sh"
run() { build/nngen tests/models/types.lua --quiet --check "$@"; }
for case in integers rewritten constants scalars bools sums borders index random; do
  ok "$case" run --set case=$case
  long && ok "$case, fp16, unfused" run --set case=$case --dtype fp16 --lowering unfused
done
ok "conversions" run --set case=conversions
# 16 bits would round what is cut.
long && ok "conversions, unfused" run --set case=conversions --lowering unfused
ok "squares that leave 16 bits are only summed, fp16" run --set case=variance --dtype fp16
ok "squares that leave 16 bits are only summed, fp16, unfused" \
  run --set case=variance --dtype fp16 --lowering unfused
ok "statistics that leave 16 bits, fp16" run --set case=statistics --dtype fp16
long && ok "statistics that leave 16 bits, fp16, unfused" \
  run --set case=statistics --dtype fp16 --lowering unfused
exact() { # exact OUTPUT...: the same bits as the oracle's
  run --set case=random >"$work/log" || return
  for name; do
    grep -q "^output *$name .* error 0.00e+00 " "$work/log" ||
      { grep "^output *$name" "$work/log"; return 1; }
  done
}
ok "the oracle draws the same bits" exact uniform again mask
differ() { # two draws of one seed are not one
  run --set case=random --output "$work/draws" >/dev/null &&
    ! cmp -s "$work/draws/uniform.npy" "$work/draws/again.npy"
}
ok "draws are never merged" differ
seeds() { # each draws others, and the oracle draws the same ones
  run --set case=seeds --output "$work/seeds" >/dev/null &&
    [ $(ls "$work"/seeds/uniform*.npy | wc -l) = 12 ] &&
    [ $(md5sum "$work"/seeds/uniform*.npy | cut -d' ' -f1 | sort -u | wc -l) = 12 ]
}
ok "seeds of 64 bits" seeds
bytes() { # beyond a byte: not cut without a word
  echo 'local nn = require "nn" nn.output("y", nn.input("x", {4}, {dtype = "u8"}))' >"$work/u8.lua"
  python3 -c "
import struct, sys
text = \"{'descr': '<i4', 'fortran_order': False, 'shape': (4,), }\".ljust(117) + chr(10)
with open('$work/bytes.npy', 'wb') as f:
    f.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text.encode() +
            struct.pack('<4i', 3, 255, 0, 256))"
  fails 5 "element 3 of 'x' is 256, not 0 to 255" build/nngen "$work/u8.lua" --quiet \
    --input x="$work/bytes.npy"
}
ok "a file's integers beyond a byte, for an input of bytes" bytes
again() { # the same in every lowering and tile
  run --set case=random --output "$work/fused" >/dev/null &&
    run --set case=random --lowering unfused --output "$work/unfused" >/dev/null &&
    cmp "$work/fused/dropout.npy" "$work/unfused/dropout.npy" &&
    cmp "$work/fused/normal.npy" "$work/unfused/normal.npy"
}
ok "draws are the same in every lowering" again
policy() { # what nn.precision says of a part is what that part's products read
  run --set case=policy --dtype fp16 >/dev/null &&
    build/nngen show tests/models/types.lua --set case=policy --dtype fp16 \
      --stage prec >"$work/ir" &&
    grep -E 'add.*: f32\(16,48\).*"wide"' "$work/ir" && grep -E 'relu.*: f32' "$work/ir" &&
    build/nngen show tests/models/types.lua --set case=policy --dtype fp16 --cuda --kernel wide |
    grep -q 'using T = float' &&
    build/nngen show tests/models/types.lua --set case=policy --dtype fp16 --cuda --kernel narrow |
    grep -q 'using T = f16'
}
ok "precision of a part of a model" policy
ok "outputs are as exact as the least exact part, and states as their dtype" run --set case=scopes
descr() { # descr TYPE FILE
  head -c 128 "$2" | grep -q "'descr': '$1'" || { head -c 128 "$2"; return 1; }
}
types_out() {
  run --set case=conversions --output "$work/types" >/dev/null &&
    descr '<i4' "$work/types/i32.npy" &&
    descr '|u1' "$work/types/u8.npy" && descr '|b1' "$work/types/flag.npy" &&
    descr '<f4' "$work/types/half.npy"
}
# Each output in the dtype that its name begins with, fp32 else; read back from text, too.
stored() {
  build/nngen show tests/models/types.lua --set case=stored --stage simp >"$work/stored.ir"
  for model in "tests/models/types.lua --set case=stored" "$work/stored.ir"; do
    build/nngen show $model --dtype ${1:-fp32} --plan | tr -d ' ,"' | awk -F: '
      $1 == "name" {name = $2} $1 == "role" {output = $2 == "output"}
      $1 == "dtype" && output {n++; want = name ~ /^b?f16/ ? name : "f32"; sub(/_.*/, "", want)
        if ($2 != want) {print name, $2; bad = 1}} END {exit bad || n != 6}' || return
  done
  run --set case=stored --output "$work/stored" >/dev/null &&
    descr '<f2' "$work/stored/f16.npy" && descr '<f4' "$work/stored/bf16.npy"
}
ok "outputs are written in their own dtype" types_out
scalars_out() { # each in the dtype that its name begins with
  local name
  for low in fused unfused; do
    run --set case=scalars --output "$work/scalars" --lowering $low >/dev/null || return
    for name in "$work"/scalars/*.npy; do
      case ${name##*/} in
        u8*) descr '|u1' "$name" ;; i32*) descr '<i4' "$name" ;; f32*) descr '<f4' "$name" ;;
        *) descr '|b1' "$name" ;;
      esac || { echo "$name"; return 1; }
    done
  done
}
ok "constants that are computed before the run change no dtype" scalars_out
ok "outputs that are converted to 16 bits are stored so" stored
ok "outputs that are converted to 16 bits are stored so, bf16" stored bf16
npy() { # npy DESCR SHAPE BYTES...: an npy file of these bytes (octal) on stdout
  local header="{'descr': '$1', 'fortran_order': False, 'shape': ($2), }"; shift 2
  printf '\x93NUMPY\1\0\166\0%-117s\n' "$header"
  printf "$@"
}
cat >"$work/ids.lua" <<'L'
local nn = require "nn"
local x = nn.input("ids", {3}, {dtype = "i32", below = 1000000000})
nn.output("y", x + 1)
L
exact_ids() { # 16777217 is no float
  npy '<i4' '3,' '\001\000\000\001\005\000\000\000\377\311\232\073' >"$work/ids.npy"
  build/nngen "$work/ids.lua" --quiet --input ids="$work/ids.npy" --output "$work/ids" &&
    [ "$(tail -c 12 "$work/ids/y.npy" | od -An -tu4 | tr -s ' ')" = " 16777218 6 1000000000" ]
}
ok "integers of a file are exact" exact_ids
npy '<i4' '3,' '\001\000\000\000\005\000\000\000\000\312\232\073' >"$work/over.npy"
ok "an integer that the input has not" \
  fails 5 "element 2 of 'ids' is 1000000000, not 0 to 999999999 (declared in $work/ids.lua:2)" \
  build/nngen "$work/ids.lua" --input ids="$work/over.npy"
npy '<f4' '3,' '\000\000\200\077\000\000\200\077\000\000\200\077' >"$work/floats.npy"
ok "floats where integers are wanted" fails 5 "'ids': expected i32, the file holds floats" \
  build/nngen "$work/ids.lua" --input ids="$work/floats.npy"
tap_done
