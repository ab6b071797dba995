#!/usr/bin/env bash
# Copies that fusion makes for each reader are one value again where one kernel computes them.
. "$(dirname "$0")/../tap.sh"
norms=tests/models/norm_grads.lua
sums() { # sums FORM ROWS: one kernel has the sums over rows that the derivatives are
  local got
  build/nngen show $norms --entry train --set form=$1 rows=$2 --stage fuse >"$work/$1" || return
  got=$(grep -cE '^# kernel [0-9]+ norm_grads__(norm|fc)_grad[a-z0-9_]*: .*reduce_sum' "$work/$1")
  [ "$got" = 1 ] || { echo "$got kernels, want 1"; return 1; }
}
for form in layer rms; do
  for rows in 2048 8192; do
    ok "sums of the gradient of ${form}_norm over $rows rows are one kernel" sums $form $rows
  done
done
right() {
  build/nngen $norms --quiet --check --entry train --set rows=40 columns=$2 form=$1 --steps 2
}
for form in layer rms log_softmax; do
  for columns in 96 20000; do
    few 3/2 && ok "$form over $columns columns, right" right $form $columns
  done
done
once() { build/nngen show "$@" --cuda | tests/models/repeated.py; }
for case in draws state outputs entries concat reshaped product moved; do
  ok "not what is read elsewhere: $case" build/nngen tests/models/merged.lua --quiet --check \
    --set case=$case
done
cat >"$work/squares.lua" <<'LUA'
local nn = require "nn"
local h = nn.input("x", {64, 64})
for _ = 1, 46 do h = h * h end
nn.output("y", h:sum{1})
LUA
ok "46 maps that each read one twice are compiled in no time" \
  timeout 5 build/nngen show "$work/squares.lua" --stage fuse
cat >"$work/largest.lua" <<'LUA'
local nn = require "nn"
local x, z, row = nn.input("x", {64, 8}), nn.input("z", {64, 8}), nn.param("row", {1, 8})
local h = ((x * 3.3 + z) - x * 3.3) * row
local y = h + h:amax(2, true) * 0.1
nn.output("s", y:sum{1})
nn.output("gw", nn.grad((y * y * z):mean(), row))
LUA
ok "what is compared with its largest element is not computed again" build/nngen \
  "$work/largest.lua" --quiet --check
cat >"$work/compared.lua" <<'LUA'
local nn = require "nn"
local x, z, w = nn.input("x", {33, 8}), nn.input("z", {33, 8}), nn.input("w", {8, 8})
local a = (x * 1.3 + 0.2) * x:matmul(w)
local cat = nn.concat({z:slice(2, 1, 4) * 1.7, a:slice(2, 5, 8)}, 2)
local h = cat:relu()
local y = cat - (h + h:amax(1, true) * 0.1)
nn.output("m", cat:matmul(w))
nn.output("gx", nn.grad((y:matmul(w) * z):sum() + (h * h):sum(), x))
LUA
compared() { # one value is reduced and compared: of what is rounded as it is stored there are two
  local compared reduced
  build/nngen show "$work/compared.lua" --dtype bf16 --stage fuse >"$work/fuse" || return
  reduced=$(sed -n 's/.*= reduce_max(\(%[0-9]*\)).*/\1/p' "$work/fuse")
  compared=$(sed -n 's/.*= eq(\(%[0-9]*\),.*/\1/p' "$work/fuse")
  [ "$reduced" ] && [ "$reduced" = "$compared" ] ||
    { grep -E "= (reduce_max|eq)" "$work/fuse"; return 1; }
  build/nngen "$work/compared.lua" --quiet --check --dtype bf16
}
ok "what is compared with its largest element is read where that is reduced" compared
cat >"$work/across.lua" <<'LUA'
local nn = require "nn"
local x, u = nn.input("x", {16, 1024}), 0
for i = 1, 7 do u = u + (x * i):std(1) end
nn.output("h", x / u)
LUA
ok "no more sums across memory than shared memory holds" build/nngen "$work/across.lua" --quiet \
  --check
cat >"$work/unmoved.lua" <<'LUA'
local nn = require "nn"
local x, i = nn.input("x", {8, 1, 32}), nn.input("i", {1}, {dtype = "i32", below = 1})
local y = x:gather(i, 2):reshape(8, 1, 4, 8):permute(1, 3, 2, 4):reshape(8, 1, 32):gather(i, 2)
nn.output("g", nn.grad((y * y):sum(), x))
LUA
ok "moves that leave all where it is" build/nngen "$work/unmoved.lua" --quiet --check
ok "operands of attention stay what it knows" once tests/models/attention_laws.lua \
  --set case=dropout
while read -r model settings; do
  few 3/2 once || continue
  ok "no kernel computes a value twice: $model $settings" once $model $settings
done <<'CASES'
tests/models/norm_grads.lua --entry train
models/resnet18.lua --entry train --dtype bf16
models/block.lua --entry train
models/block.lua --entry train --dtype fp16
models/bert.lua
models/llama.lua
models/vit.lua --dtype fp16
models/gpt2.lua
models/autoencoder.lua --entry train
tests/models/heads.lua --set turn=rotate
CASES
tap_done
