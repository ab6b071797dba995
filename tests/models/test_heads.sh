#!/usr/bin/env bash
# Queries and keys that are normalised and turned before attention (heads.lua): what attention
# computes of them as it loads them, against the oracle and PyTorch; and how many kernels are left.
. "$(dirname "$0")/../tap.sh"
model=tests/models/heads.lua
export NNGEN_SIM_CHECK=all
kernels() { # of the layers, without copies of inputs to 16 bits
  build/nngen show $model --stage fuse --dtype $dtype --set "$@" | grep '^# kernel' |
    grep -v ', init,' | grep -vcE ': copy( and [0-9]+ more)?, '
}
right() { build/nngen $model --quiet --check --dtype $dtype --set "$@"; }
left() { # left COUNT SETTINGS...: so many kernels, and right
  local got; got=$(kernels "${@:2}")
  [ "$got" = $1 ] || { echo "$got kernels, want $1"; return 1; }
  right "${@:2}"
}
few_sizes="N=17 D=40"
# The projection, and attention: nothing between them, for few rows. In fp16 what is divided by its
# own length is stored in fp32 (gen/pass/prec.c): values, in fp16, are a product of their own.
for dtype in fp32 fp16; do
  for form in rms layer l2 twice scaled; do
    count=2
    [ $form-$dtype = l2-fp16 ] && count=3
    few 10/3 && ok "$form, $dtype" left $count form=$form $few_sizes
  done
  for turn in halves rotate pairs; do
    few 6/3 turned && ok "norms and turned $turn, $dtype" left 2 form=rms turn=$turn $few_sizes
    few 6/3 part && ok "a part of the heads, turned $turn, $dtype" left 2 form=layer turn=$turn \
      part=16 $few_sizes
  done
  few 4 whole && ok "norms of all heads of a position, $dtype" left 2 form=rms whole=true $few_sizes
done
ok "pairs that are stacked, of projections alone, fp16" left 2 form=none turn=stacked $few_sizes
dtype=bf16
for size in 20 64 80 96 128 256; do
  few 6/2 sizes && ok "turned heads of $size, bf16" right form=none turn=rotate D=$size H=2 G=1 N=33
done
for rows in 1 17 129; do
  long && few 1/2 rows && ok "$rows rows, bf16" right form=rms turn=halves N=$rows
  long && few 1/2 rows && ok "$rows rows, all heads share their keys, tf32" \
    env dtype=tf32 build/nngen $model --quiet --check --dtype tf32 --set form=layer G=1 N=$rows
done
dtype=fp16
# Many rows: queries are made where they are loaded, once; keys by one kernel, for each tile would
# make them again.
large="N=1024 H=16 G=8 D=128 width=64"
fewer() { # fewer MOST SETTINGS...: at most so many kernels
  local got; got=$(kernels "${@:2}")
  [ "$got" -le $1 ] || { echo "$got kernels, want at most $1"; return 1; }
}
template() { # of the kernel of keys
  build/nngen show $model --dtype fp16 --plan --set $large form=rms turn=halves |
    sed -n 's/.*"class_name": *"\(heads\)".*/\1/p'
}
ok "norms of many queries are made in attention" fewer 3 $large form=rms
ok "and turned" fewer 3 $large form=rms turn=halves
long && ok "norms and turned keys are one kernel" eval \
  '[ "$(template)" = heads ] && right N=300 H=4 G=2 D=64 form=rms turn=halves'
ok "keys of which a part is turned, too" fewer 3 $large form=none turn=halves part=24
ok "keys as they are" fewer 2 $large form=rms turn=rotate keys=false
why() { # why REASON SETTINGS...
  build/nngen show $model --dtype fp16 --set "${@:2}" | grep "not fused with .*: $1"
}
ok "why keys are not" why "each tile of queries would recompute its rows" $large form=rms
next="past=70 N=1 H=8 causal=false"
ok "one token more in a cache" right form=rms turn=halves $next
ok "its query is made in attention, its key by one kernel" fewer 5 form=rms turn=halves $next
tuned() { # tuned TILE SETTINGS...: with this tile, as if it had been measured as the fastest
  local tile=$1 entry device; shift
  device=$(build/nngen $model --quiet --json --no-check --set N=1 |
    sed -n 's/^  "device": "\(.*\)",/\1/p')
  entry=$(build/nngen $model --quiet --device sim --dtype fp16 --explain attention --set "$@" |
    sed -n 's/.*in a tuning file: \("[^"]*attention[^"]*"\).*/\1/p')
  printf '{"schema_version": 1, "devices": {"%s": {%s: {"tile": "%s"}}}}' \
    "$device" "$entry" "$tile" >"$work/tuning.json"
  right "$@" --tuning "$work/tuning.json" >"$work/tuned" &&
    grep -q "${tile%%x*} rows x $(expr "$tile" : '[0-9]*x\([0-9]*\)') keys" "$work/tuned" ||
    { cat "$work/tuning.json" "$work/tuned"; return 1; }
}
for tile in "128x32 warps 32x0 stages 2 parts 1" "16x64 warps 16x0 stages 2 parts 1" \
  "64x32 warps 16x0 stages 2 parts 2" "128x128 warps 16x0 stages 2 parts 1"; do
  long && few 1/2 tiles && ok "tile ${tile%% *}, parts ${tile##* }" tuned "$tile" form=rms \
    turn=rotate N=150 D=64 width=40 causal=false
done
for entry in $(long && echo eval train); do
  ok "$entry, where the backward pass reads what is stored" build/nngen $model --quiet --check \
    --dtype fp16 --entry $entry --set form=rms turn=halves part=24 train=true
done
for seed in $(long && echo 1 2 3 4); do
  few 1/2 orders && ok "thread order $seed" env NNGEN_SIM_SEED=$seed build/nngen $model --quiet \
    --check --dtype fp16 --set form=layer turn=halves N=70
done
if build/nngen doctor 2>/dev/null | grep -q "^NVRTC.*version"; then
  unspilled() { # unspilled ARCH SETTINGS...: it compiles, and no kernel spills
    build/nngen $model --quiet --arch $1 --dtype fp16 --json --set "${@:2}" >"$work/json" || return
    ! grep -B5 '"spill_bytes": [1-9]' "$work/json" && grep -q '"spill_bytes": 0' "$work/json"
  }
  sizes="128"
  long && sizes="20 40 64 80 96 128 256"
  for arch in sm_90a $(long && echo sm_80 sm_100a); do
    case $arch in sm_80) sizes="40 80 128" ;; sm_100a) sizes="20 64 96 256" ;; esac
    for size in $sizes; do
      few 1/3 spills && ok "heads of $size spill nothing, $arch" \
        unspilled $arch N=2048 H=16 G=8 D=$size width=64 turn=halves
      long && [ $arch = sm_90a ] && few 1/3 keys && ok "keys of $size with them, $arch" \
        unspilled $arch N=64 H=16 G=16 D=$size width=64 turn=rotate form=layer
    done
  done
fi
python_with torch numpy
torch() { # torch SETTINGS...: what PyTorch computes in double, of the same weights
  local folder=$work/torch; rm -rf "$folder"
  $python tests/models/torch_heads.py "$folder" "$@" || return
  build/nngen $model --quiet --check --set "$@" --input x="$folder/in/x.npy" \
    --weights "$folder/weights.safetensors" --output "$folder/got" || return
  python3 tests/models/attention_reference.py equal "$folder/got/y.npy" "$folder/out/y.npy" 1e-5
}
while read -r settings; do
  few 12/2 torch || continue
  if [ "$python" ]; then ok "as PyTorch: $settings" torch $settings
  else skip "as PyTorch: $settings" "PyTorch is not installed"; fi
done <<'CASES'
form=rms turn=halves N=33
form=layer turn=rotate part=16 N=33 causal=false
form=l2 turn=pairs N=20 B=2
form=rms whole=true turn=rotate N=9
form=none turn=halves D=20 N=17
form=softmax turn=halves order=bhnd N=17
CASES
tap_done
