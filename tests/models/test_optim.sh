#!/usr/bin/env bash
# Losses, optimizers, schedules and running statistics against their formulas (by_formula.sh).
. "$(dirname "$0")/../tap.sh"
. tests/models/by_formula.sh

losses() {
  local files= name
  reference losses "$work/losses" || return
  for name in x y p labels weight; do files+=" --input $name=$work/losses/in/$name.npy"; done
  plainly tests/models/losses.lua --check $files --output "$work/losses/got" "$@" || return
  reference compare "$work/losses/out" "$work/losses/got" 2e-6
}
ok "losses and their gradients" losses
long && ok "losses and their gradients, unfused" losses --lowering unfused

for case in sgd momentum nesterov dampened adam adamw amsgrad adamax nadam radam rmsprop adagrad \
  adadelta rprop asgd lion muon groups scaled; do
  few 5/2 && ok "20 steps, $case" optimizer $case 0
done
# Two optimizers in one entry, as a GAN has them: each has its own scale of the loss and its own sums.
cat >"$work/two.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {4, 3})
nn.entry("train", function()
  local a, b = x:linear("a", {out = 2}), x:linear("b", {out = 2})
  local function how(first, last)
    return {optimizer = "sgd", lr = 0.1, accumulate = 2, loss_scaling = true,
            parameters = table.move(nn.parameters(), first, last, 1, {})}
  end
  nn.output("norm_a", nn.optimize(a:square():mean(), how(1, 2)).norm)
  nn.output("norm_b", nn.optimize((b - 1):square():mean(), how(3, 4)).norm)
end)
LUA
two() {
  plainly "$work/two.lua" --check --entry train --steps 4 --save "$work/two.safetensors" || return
  grep -ao '"train[a-z0-9_.]*"' "$work/two.safetensors" | sort | tr -d '\n' | grep -qF \
    '"train.2.accumulated""train.2.good_steps""train.2.loss_scale""train.accumulated""train.good_steps""train.loss_scale"'
}
long && ok "two optimizers with scaled losses and accumulated gradients" two
# Muon's own default is true: a model's false is a choice.
cat >"$work/muon.lua" <<'LUA'
local nn = require "nn"
nn.output("y", nn.input("x", {4}))
nn.train(8, function()
  local loss = nn.images{8, 1, 8, 8}:flatten():linear("fc", {out = 16}):square():mean()
  return {loss = loss}
end, {optimizer = "muon", lr = 0.02, nesterov = nn.config{nesterov = false}.nesterov})
LUA
muon() {
  local of
  for of in true false; do
    build/nngen show "$work/muon.lua" --entry train --set nesterov=$of --stage simp |
      grep -v "^#" | md5sum
  done >"$work/muon"
  [ "$(uniq "$work/muon" | wc -l)" = 2 ]
}
ok "muon without Nesterov's momentum" muon
# A rate of 0 is that of matrices alone; of the others what stands in `adamw_lr`.
cat >"$work/still.lua" <<'LUA'
local nn = require "nn"
nn.entry("train", function()
  local loss = nn.input("x", {4, 3}):linear("a", {out = 3}):square():mean()
  nn.optimize(loss, {optimizer = "muon", lr = 0, adamw_lr = 0.1, weight_decay = 0})
end)
LUA
still() {
  plainly "$work/still.lua" --check-finite --entry train --save "$work/still.safetensors" &&
    plainly "$work/still.lua" --check-finite --weights "$work/still.safetensors" --entry train
}
ok "muon with a rate of 0 leaves biases finite" still
# The square of a gradient may be beyond floats where its share in a mean is not.
cat >"$work/steep.lua" <<'LUA'
local nn = require "nn"
nn.entry("train", function()
  nn.optimize((nn.param("w", {4}) * nn.input("x", {4}) * 3e19):sum(), {optimizer = "adam", lr = 0.1})
end)
LUA
ok "adam, gradients of 1e19 and more" plainly "$work/steep.lua" --check-finite --entry train
ok "20 steps, gradients clipped by their norm" optimizer momentum 0.3
ok "a step by the oracle, muon" plainly tests/models/optim.lua --check --entry train --set case=muon

if python_with torch; then
  ok "the formulas beside PyTorch's" $python tests/models/train_reference.py pytorch \
    "$work/pytorch"
else skip "the formulas beside PyTorch's" "PyTorch is not installed"; fi
ok "schedules" schedules
ok "running statistics of a batch norm" statistics train
ok "the same in an entry of another name" statistics other --set other=true
dropped() { # the entry train drops other elements at each step, by nn.train or not
  cat >"$work/drop.lua" <<'END'
local nn = require "nn"
nn.entry("train", function() nn.output("y", nn.input("x", {400}):dropout(0.25)) end)
END
  local n
  for n in 1 2; do
    plainly "$work/drop.lua" --check --entry train --steps $n --output "$work/drop$n" || return
    python3 - "$work/drop$n/y.npy" <<'END' || return
import struct, sys
values = open(sys.argv[1], "rb").read()[-1600:]
zeros = sum(v == 0 for v in struct.unpack("<400f", values))
if not 60 <= zeros <= 140: sys.exit(f"{zeros} of 400 are 0")
END
  done
  ! cmp -s "$work"/drop[12]/y.npy
}
ok "dropout in an entry train that the model writes itself" dropped
cat >"$work/chosen.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {2, 4})
local y = nn.scope("d", function() return x:linear("a", {out = 3}):linear("b", {out = 1}) end)
y = y + x:linear("g", {out = 1})
nn.entry("train", function()
  local list = nn.parameters(nn.config{of = "d"}.of)
  assert(#nn.parameters{"*.bias", "g"} == 4 and #nn.parameters() == 6)
  local made = nn.optimize(y:sum(), {optimizer = "sgd", lr = 0.1, parameters = list})
  nn.output("count", nn.full({1}, #made.parameters, {dtype = "i32"}) + 0)
end)
LUA
chosen() { # the layers of d alone are updated
  build/nngen "$work/chosen.lua" --quiet --check --entry train >"$work/log" &&
    [ "$(grep -c '^state *d\.' "$work/log")" = 4 ] && ! grep -q '^state *g\.' "$work/log" &&
    fails 2 "parameters: 'q' matches no parameter of d.a.weight" \
      build/nngen "$work/chosen.lua" --quiet --entry train --set of=q
}
ok "the parameters of some layers" chosen
tap_done
