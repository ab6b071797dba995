#!/usr/bin/env bash
# Derivatives of attention in many forms (attend_backward.lua), each kernel and output against the
# oracle; which of them keep scores out of memory.
. "$(dirname "$0")/../tap.sh"
model=tests/models/attend_backward.lua
# derived CASE DTYPE KERNELS[:SUMS]: so many of the templates `attend_backward` and `attend_bias`
derived() {
  build/nngen $model --quiet --check --dtype $2 --set case=$1 >"$work/log" 2>&1 ||
    { cat "$work/log"; return 1; }
  local sums=${3#*:}
  [ $sums = $3 ] && sums=0
  [ "$(grep -c " attend_backward " "$work/log")" -ge ${3%:*} ] &&
    [ "$(grep -c " attend_bias " "$work/log")" -ge $sums ] ||
    { cat "$work/log"; echo "not $3 kernels compute scores again"; return 1; }
}
i=0
for one in plain:3 bias:3:1 bias_own:3:1 bias_keys:3:1 bias_shared:3:1 bias_heads:3:1 bias_odd:3:1 \
  windows:3:1 slopes:3:1 scales:3:1 cap:3:2 table:3:1 rows:3:1 dropout:3 lengths:3 lse:3 grouped:3 \
  one_key:0 odd_values:0 deep:3 low:3 itself:3 twice:3 two_values:1 entropy:1 shared_keys:2 learned_keys:2 \
  common_keys:3 largest:3 largest_sink:3 learned_heads:3 \
  memory:5 memory_parts:5 memory_sink:5 memory_joined:5 memory_row:0 mixed_heads:1 \
  fused_projection:3 einsum:3 joined_batches:3 repeated_heads:3 \
  exponentials:0 other_batches:0 joined_inputs:0 padded_types:0; do
  dtypes=(fp32 fp16) i=$((i + 1))
  few 15/6 || continue
  dtype=${dtypes[i % 2]}
  [ $one = twice:3 ] && dtype=fp32 # rounding twice costs fp16 the gate of a model
  ok "${one%%:*}, $dtype" derived ${one%%:*} $dtype ${one#*:}
done
for one in $(long && echo lengths grouped fused_projection); do ok "$one, tf32" derived $one tf32 3; done
ok "scores far from 0, fp32" derived far fp32 3
linear() { # linear CASE: twice the tokens take twice the memory
  local at
  for at in 4096 8192; do # fewer tokens may share keys among blocks, whose sums take memory
    build/nngen show $model --arch sm_90a --dtype bf16 --plan --set case=$1 N=$at \
      M=$at D=64 W=64 | sed -n 's/^ "arena_bytes": \(.*\),/\1/p'
  done >"$work/arena"
  awk '{ a[NR] = $1 } END { print; exit !(a[1] > 0 && a[2] < 2.2 * a[1]) }' "$work/arena"
}
for one in learned_heads memory memory_parts memory_sink memory_joined largest_sink common_keys; do
  few 3/2 linear && ok "$one: memory is linear" linear $one
done
scaled() { # weights that are multiplied by a number behind their product are rounded for it
  build/nngen $model --quiet --check --dtype bf16 \
    --set case=memory_scaled alone=true P=65 N=130 M=130 D=32 >"$work/log" 2>&1 ||
    { cat "$work/log"; return 1; }
}
ok "weights that are scaled are rounded as the product reads them, bf16" scaled
reshapes() { # a bias that is seen in the shape of scores is not copied into it
  build/nngen show $model --set case=bias --stage fuse >"$work/fuse" || return 1
  ! grep "^# kernel .*: reshape," "$work/fuse"
}
ok "a bias is read where it is" reshapes
joined() { # in 16 bits; in fp32 differences of scores come first, as they may be far from 0
  build/nngen show $model --set case=plain --dtype fp16 --cuda >"$work/joined" &&
    build/nngen show $model --set case=plain --cuda >"$work/apart" &&
    [ "$(grep -c "exp2_fast(nn_fma(attention, 0.36067376f" "$work/joined")" = 3 ] && # log2(e) / 4
    [ "$(grep -c "exp2_fast(attention_sub \* kLog2e)" "$work/apart")" = 3 ]
}
ok "an exponent is one multiply-add" joined
behind() { # what queries are scaled by multiplies no weights, but what they have summed up
  cat >"$work/behind.lua" <<'LUA'
local nn = require "nn"
local q, k = nn.input("q", {1, 2, 40, 32}), nn.input("k", {1, 2, 50, 32})
local v = nn.input("v", {1, 2, 50, 32})
local y = nn.functional.scaled_dot_product_attention(q, k, v)
for i, g in ipairs(nn.grad((y * y):sum(), {q, k, v})) do nn.output("g" .. i, g) end
LUA
  build/nngen "$work/behind.lua" --quiet --check --dtype fp16 >"$work/log" 2>&1 &&
    build/nngen show "$work/behind.lua" --dtype fp16 --cuda >"$work/cuda" ||
    { cat "$work/log"; return 1; }
  sed -n '/auto weighed/,/};/p' "$work/cuda" >"$work/weighed"
  sed -n '/auto epilogue/,/};/p' "$work/cuda" >"$work/epilogue"
  grep -q exp2_fast "$work/weighed" && ! grep "0.17677669" "$work/weighed" &&
    grep -q "0.17677669" "$work/epilogue"
}
ok "numbers that multiply weights stand behind the product" behind
summed() { # summed CASE DTYPE CANDIDATE: another tile, another order of threads, all accesses seen
  export NNGEN_SIM_SEED=$3 NNGEN_SIM_CHECK=all
  build/nngen $model --quiet --check --dtype $2 --candidate $3 --set case=$1 \
    >"$work/log" 2>&1 && grep -q " attend_bias " "$work/log" || { cat "$work/log"; return 1; }
}
i=0
for one in bias_odd bias_shared bias_keys scales; do
  for dtype in fp32 fp16 bf16; do
    place=$((i++ % 4 * 3 + 1)) # each form and each dtype has several
    few 12/6 sums || continue
    ok "sums of weights, $one, $dtype, candidate $place" summed $one $dtype $place
  done
done
kept() { # kept COUNT SET...: so many kernels sum weights; else the scores are kept
  local count=$1; shift
  build/nngen show $model --cuda --set case=large $@ >"$work/cuda" || return 1
  [ $(grep -c "clear_scores<Tile>(sums)" "$work/cuda") = $count ]
}
ok "scores of large heads in fp32 are kept, as the cost model has it" kept 0 d=128
ok "those of 16 bits are not" kept 1 d=128 dtype=fp16
ok "nor those of small heads" kept 1 d=32
ok "few scores of large heads in fp32 are kept" kept 0 d=256 n=17
spills() { # spills TEMPLATE ARCH SET...: does a kernel?
  build/nngen $model --quiet --arch $2 --set ${@:3} --json >"$work/json" || return 2
  grep -q "\"template\": \"$1\"" "$work/json" || return 2
  grep -q '"spill_bytes": [1-9]' "$work/json" && return 0
  grep -q '"spill_bytes": 0' "$work/json" && return 1
}
does_not_spill() { spills "$@"; [ $? = 1 ] || { cat "$work/json"; return 1; }; }
if build/nngen doctor 2>/dev/null | grep -q "^NVRTC.*version"; then
  for arch in sm_90a $(long && echo sm_80 sm_100a); do
    for of in $(long && echo fp16:32 fp16:40 bf16:64 fp16:128 fp16:192 fp32:32 || echo fp16:64); do
      few 1/3 heads &&
        ok "sums of weights, heads of ${of#*:}, ${of%:*}, spill nothing, $arch" \
        does_not_spill attend_bias $arch case=large dtype=${of%:*} d=${of#*:}
    done
    for of in 64: $(long && echo 64:window=256 32: 128:); do
      few 3/2 dropped &&
        ok "weights that are dropped, heads of ${of%:*} ${of#*:}, spill nothing, $arch" \
        does_not_spill attend_backward $arch case=dropped dtype=fp16 n=2048 d=${of%:*} ${of#*:}
    done
  done
fi
hidden() { derived hidden bf16 3 && ! grep -e "rounding alone" "$work/log"; }
long && ok "a mask that is stored rounded, bf16" hidden
trained() { # trained CASE TEMPLATE COUNT
  build/nngen $model --quiet --check \
    --entry train --set case=$1 >"$work/log" 2>&1 || { cat "$work/log"; return 1; }
  [ "$(grep -c " $2 " "$work/log")" = $3 ] || { cat "$work/log"; return 1; }
}
long && ok "scores divided by a parameter that is trained" trained trained attend_backward 3
long && ok "a sum of two biases that are trained" trained trained_bias attend_bias 1
copies() { # but for the bias itself, which other kernels read, moments are updated in their place
  build/nngen show $model --entry train --set case=trained_bias --plan \
    >"$work/plan" && [ $(grep -c '"kind": "copy"' "$work/plan") = $1 ]
}
ok "moments of a bias are updated in their place" copies 1
in_order() {
  build/nngen show $model --set case=joined_inputs |
    grep -q '^%0 = input() : f32(2,3,4,8)<0,1,2,3>'
}
ok "inputs that are joined and moved lie as they are given" in_order
tap_done
