#!/usr/bin/env bash
# What is fused (fusion.lua): the kernels of each graph, against the oracle.
. "$(dirname "$0")/../tap.sh"
fused() { # fused OPTIONS...: at most as many kernels as the model says, and right
  build/nngen tests/models/fusion.lua --quiet --check "$@" >"$work/log" 2>&1 ||
    { tail -3 "$work/log"; return 1; }
  awk '/^kernels expected/ {want = $3} /^kernels .* ops/ {got = $5}
    END {if (!want || got > want) print got, "kernels, at most", want
      exit !want || got > want}' "$work/log"
}
for case in siblings dropped diamond statistics squares groups images channels far integers concat \
  parts adam cycle gated gated_behind_norm heads branches turned ordered recursion \
  beside rotary rotary_exchanged \
  rotary_partial head_norms activations residual norms updates stem gated_heads \
  behind_dropped beside_dropped loss \
  projections places steps joined meeting tokens rolled one_filter led numbers stored_bias \
  stored_total stored_channels dense shared_keys group_layer distances repeated maps \
  maps_of_product permuted_maps map_of_concat cut_convolution \
  transposed transposed_and_read rotary_transposed flattened joined_output \
  reshaped_rows mean_rows \
  $(long && echo windows); do
  few 5/3 || continue
  ok "$case" fused --set case=$case
done
once() { # the operations of its products are those of the unfused ones
  build/nngen run tests/models/fusion.lua --quiet --no-check --set case=stem |
    awk -F '[ ()]+' '/^work/ { print; once = $3 == $6 && $2 < $5 * 1.05 } END { exit !once }'
}
ok "a convolution whose result has two factors is computed once" once
tables() { # cos and sin, each once, by one kernel of five
  local got; got=$(build/nngen show tests/models/fusion.lua --set case=rotary_exchanged 2>&1)
  [ "$(grep -c '^# kernel' <<<"$got")" = 5 ] && grep -q '^# kernel.*cos+sin, init' <<<"$got" ||
    { grep '^# kernel' <<<"$got"; return 1; }
}
for n in 4 8; do # tiles of 56 rows, of 128 by wgmma, and others
  long && ok "transposed, bf16, tile $n" fused --set case=transposed --dtype bf16 --candidate $n
done
ok "tables of halves that are alike" tables
for case in pooled one_filter siblings statistics images channels concat parts cycle gated gated_behind_norm \
  heads branches turned \
  ordered activations residual norms groups transposed rotary_transposed flattened joined_output; do
  few 8/4 bf16 || continue
  ok "$case, bf16" fused --set case=$case --dtype bf16
  long && ok "$case, unfused" build/nngen tests/models/fusion.lua --quiet --check --set case=$case \
    --lowering unfused
done
for case in $(long && sed -n 's/^function cases.\([a-z_]*\).*/\1/p' tests/models/cases.lua); do
  [[ $case =~ large_sums|batch_statistics ]] || # which move hundreds of megabytes
    ! few 1/3 cases || ok "$case as a careful engineer writes it" build/nngen \
      tests/models/cases.lua --quiet --check --set case=$case
done
cat >"$work/ladder.lua" <<'LUA'
local nn = require "nn"
local cfg = nn.config{rungs = 3, sums = false}
local x = nn.gather(nn.input("x", {4096, 8}), (nn.index({4096}, 1) * 7) % 4096, 1)
if not cfg.sums then x = nn.input("y", {4096, 8}) end
for i = 1, cfg.rungs do -- each reads the one before twice
  x = nn.maximum(x * 0.5, x:relu() + 0.125)
  if cfg.sums then nn.output("sum" .. i, x:sum(1)) end
end
nn.output("z", x - x:sum(1))
LUA
ladder() { # of many rungs a reduction does not compute all, of few it does
  build/nngen show "$work/ladder.lua" --set rungs=60 --set sums=$1 >"$work/log" &&
    build/nngen "$work/ladder.lua" --quiet --check --set sums=$1 >"$work/log" &&
    grep -q "^kernels .* -> $2 kernels" "$work/log" || { tail -n 3 "$work/log"; return 1; }
}
ok "maps that each read the one before twice, then a sum" ladder false 2
ok "the same of a gather, each summed" ladder true 3
# Why kernels that read one value stay apart.
apart() { # apart REASON CODE: of x, a product's result
  printf '%s\n' 'local nn = require "nn"' \
    'local x = nn.input("image", {64, 96}):linear("fc", {out = 64}):sort()' "$2" >"$work/apart.lua"
  build/nngen show "$work/apart.lua" >"$work/log" &&
    grep -q "not fused with .*sort: its readers are not merged: $1\$" "$work/log" ||
    { grep 'not fused' "$work/log"; return 1; }
}
apart_at_input() {
  printf '%s\n' 'local nn = require "nn"' 'local x = nn.input("x", {64, 64})' \
    'local s = nn.state("s", {64, 64}); nn.update(s, s + x); nn.output("b", x:sum(1))' \
    >"$work/input.lua"
  build/nngen show "$work/input.lua" >"$work/log" &&
    grep "other kernels that read x: its readers are not merged: one of them only reduces it$" \
      "$work/log"
}
apart_of_two() {
  printf '%s\n' 'local nn = require "nn"' \
    'local a = nn.input("v", {64, 96}):linear("a", {out = 32})' \
    'nn.output("y", a + nn.input("x", {64, 96}):linear("b", {out = 32}))' >"$work/two.lua"
  build/nngen show "$work/two.lua" >"$work/log" &&
    grep "b_add, not fused with .*__a: it was fused with another producer, which saves more$" \
      "$work/log" || { grep 'not fused' "$work/log"; return 1; }
}
apart_of_rows() {
  printf '%s\n' 'local nn = require "nn"' \
    'nn.output("y", nn.input("x", {64, 96}):softmax(2):pad({0, 0, 0, 4}))' >"$work/rows.lua"
  build/nngen show "$work/rows.lua" >"$work/log" &&
    grep "pad, not fused with .*softmax: its shape differs from that of the rows$" "$work/log" ||
    { grep 'not fused' "$work/log"; return 1; }
}
ok "kernels of which one only reduces what both read" apart "one of them only reduces it" \
  'nn.output("a", x:softmax(1)); nn.output("b", x:softmax(2))'
ok "kernels that read an input" apart_at_input
ok "kernels of which one waits for another" apart "one depends on another" \
  'nn.output("y", x:softmax(2):t():matmul(x):softmax(1) * x)'
# alone REASON CODE: a kernel shares no launch.
alone() {
  printf '%s\n' 'local nn = require "nn"' "$2" >"$work/alone.lua"
  build/nngen show "$work/alone.lua" >"$work/log" &&
    grep -q "not sharing a launch: $1\$" "$work/log" || { grep '^#' "$work/log"; return 1; }
}
ok "a sum of two products, of which one computes it" apart_of_two
ok "rows that are read in another shape" apart_of_rows
ok "a small kernel alone: nothing runs at the same time" alone \
  "no other small kernel can run at the same time" \
  'nn.output("y", nn.input("x", {64, 96}):softmax(2):pad({0, 0, 0, 4}))'
ok "a small kernel alone: it reads a state that another one updates" alone \
  "it and another small kernel share a state that one of them updates" \
  'local s, r = nn.state("s", {}), nn.state("r", {4}); nn.update(s, s + 1)
  nn.output("m", nn.input("q", {5}) + s); nn.update(r, r + nn.input("e", {4}))'
ok "a small kernel alone: it waits, and is waited for" alone \
  "it depends on other kernels, and others depend on it" \
  'local x = nn.input("x", {64, 64})
  local y = x:cumsum(1):pad({0, 0, 0, 4}); nn.output("u", y); nn.output("y", y:cumsum(1))'
# shown TEXT: what `nngen show` says of shown.lua has it.
shown() {
  build/nngen show "$work/shown.lua" >"$work/log" && grep -q "$1" "$work/log" ||
    { grep '^#\|argmax' "$work/log"; return 1; }
}
cat >"$work/shown.lua" <<'L'
local nn = require "nn"
local h = nn.input("x", {128, 64, 56}):relu() * 2
nn.output("a", h:matmul(nn.input("w", {56, 40})))
nn.output("b", h:reshape{128, 64 * 56}:gather(nn.input("ids", {5}, {dtype = "i32"}), 2))
L
ok "another shape of what is in memory is read there" shown 'relu+mul, .* writes %3, grid'
cat >"$work/shown.lua" <<'L'
local nn = require "nn"
local x = nn.input("x", {2, 16, 18, 18})
local y = x:conv2d("conv", {out = 32, kernel = 3, pad = 1}):relu()
y = y:max_pool2d(3, {stride = 2, pad = 1}):conv2d("next", {out = 32, kernel = 3, pad = 1})
nn.output("g", nn.grad(y:square():sum(), {x})[1])
L
ok "windows that overlap are searched with channels last, as the image lies" \
  shown 'reduce_argmax(.*<0,2,3,1>'
tap_done
