#!/usr/bin/env bash
# Mistakes in what a model says of its training: one clear line each, with the model's line.
. "$(dirname "$0")/../tap.sh"
python3 tests/train/data.py "$work/data" 64 40 4 8 3
# model OPTIONS [VALUES [PICTURES [BATCH]]]: writes m.lua: options of nn.train, what its function
# returns, its first lines, and its batch.
pictures='local x, labels = nn.images{8, 3, 8, 8, classes = 4, mean = 0.5, std = 0.25}'
each='loss = logits:cross_entropy(labels, {reduction = "none"})'
model() {
  cat >"$work/m.lua" <<END
local nn = require "nn"
nn.train(${4:-8}, function()
  ${3:-$pictures}
  local logits = x:flatten():linear("fc", {out = 4})
  return {${2:-$each}}
end, {lr = 0.1, $1})
END
}
run() {
  build/nngen train "$work/m.lua" --data "$work/data" --quiet --steps 2 --out-dir "$work/run" "$@"
}
# wrong LINE TEXT OPTIONS...: of the model, which fails at this line
wrong() { model "${@:3}"; fails 2 "$work/m.lua:$1: $2" run; }

# ---- the inputs ---------------------------------------------------------------------------------
inputs() { # inputs LINE TEXT IMAGES LABELS: as arguments of nn.input behind the name
  model "" "loss = (logits:sum() + labels:to('f32'):sum()) * 0.001" "
  local x = nn.input('images', $3):to('f32')
  local labels = nn.input('labels', $4)"
  fails 2 "$work/m.lua:$1: $2" run
}
u8="{8, 3, 8, 8}, {dtype = 'u8'}" i32="{8}, {dtype = 'i32', below = 4}"
for dtype in f32 i32 f16; do
  ok "images in $dtype" inputs 4 \
    "the input 'images' is $dtype (8, 3, 8, 8), a data set gives u8 (N, C, H, W): nn.images" \
    "{8, 3, 8, 8}, {dtype = '$dtype'}" "$i32"
done
for dtype in i64 u8 f32; do
  ok "labels in $dtype" inputs 5 "the input 'labels' is $dtype (8), a data set gives i32 (N)" \
    "$u8" "{8}, {dtype = '$dtype'}"
done
ok "pictures in a row" inputs 4 "the input 'images' is u8 (8, 192), a data set gives u8" \
  "{8, 192}, {dtype = 'u8'}" "$i32"
ok "fewer labels than pictures" inputs 5 "4 'labels' for the 8 'images' of $work/m.lua:4" "$u8" \
  "{4}, {dtype = 'i32', below = 4}"
ok "labels of any number of classes" inputs 5 "the input 'labels' does not say how many classes" \
  "$u8" "{8}, {dtype = 'i32'}"
own() { inputs 0 "" "$u8" "$i32"; run; }
ok "inputs of one's own, as a data set has them" own

# ---- the batch ----------------------------------------------------------------------------------
mean='loss = logits:cross_entropy(labels)'
ok "another batch than the pictures'" wrong 2 "train: the batch is 4, but the input 'images' is " \
  "" "$mean" "$pictures" 4
ok "no batch" wrong 2 "train: batch = 0: expected at least 1" "" "$mean" "$pictures" 0
ok "less than no batch" wrong 2 "train: batch = -3: expected at least 1" "" "$mean" "$pictures" -3

# ---- what the function returns ------------------------------------------------------------------
ok "a value without a name" wrong 2 "train: the function returns {loss = ..., accuracy = ...}: " \
  "" "$mean, [1] = x:mean()"
for name in step lr grad_norm scale epoch seconds examples_s; do
  ok "a metric called $name" wrong 2 "train: '$name' is reserved; rename the value" \
    "" "$mean, $name = x:mean()"
done
rule() { # rule TEXT RESULTS: of a gradient of the model's own
  wrong 6 "custom_gradient: the $1" "" "$mean" "$pictures
  local p = nn.param('p', {1})
  x = nn.custom_gradient(x * p, {p},
    function(g) return $2 end)"
}
ok "a rule that gives a list" rule "rule returns a table for input 1: expected a tensor for each" "{g}"
ok "a rule of another shape" rule "gradient of input 1 is tensor (8, 3, 8, 8) of mul, the input" "g * 2"
steps() { # of training, in an evaluation too
  model "" "$mean, step0 = nn.training_step():to('f32')"
  build/nngen help training_step | grep -q "number of training steps" &&
    run && grep -q '"eval_step0":0[,}]' "$work/run/log.jsonl" &&
    grep -q '"step":2,.*"step0":1[,}]' "$work/run/log.jsonl"
}
ok "nn.training_step" steps
ok "pictures of two channels" wrong 2 \
  "train: reconstruction: tensor (8, 2, 8, 8) of slice has 2 channels; expected 1 or 3" \
  "" "$mean, reconstruction = x:slice(2, 1, 2)"
twice() {
  model ""; local line='nn.train(8, function() return {} end, {lr = 1})'
  echo "$line" >>"$work/m.lua"
  fails 2 "$work/m.lua:7: train: nn.train was called before: a model is trained in one way" run
}
ok "nn.train twice" twice
shared() {
  model "" "" "$pictures
  local before = x:flatten():linear('fc', {out = 4})"
  fails 2 "'fc.weight' is declared already, at $work/m.lua:4; to share a weight, create it" run
}
ok "a layer's name for two places" shared

# ---- options of the optimizer and the schedule --------------------------------------------------
# option TEXT OPTIONS: of nn.train
option() { wrong 2 "$1" "$2"; }
rate="train: lr = "
ok "milestones that are no list" option "train: milestones = 0.5: expected fractions of the run" \
  "milestones = 0.5"
ok "milestones that are steps" option "train: milestones = {10, 15}: expected fractions of the run," \
  "milestones = {10, 15}"
ok "no_decay = 3" option "optimize: no_decay: expected a name pattern such as" "no_decay = 3"
ok "no_decay = {3}" option "optimize: no_decay: expected a name pattern such as" "no_decay = {3}"
ok "a group's rate that is no number" option "optimize: group: lr = 'a': expected a number" \
  "groups = {{match = 'fc.bias', lr = 'a'}}"
ok "a group in place of groups" option "optimize: groups has 'lr', but is a list of groups: {{" \
  "groups = {lr = 0.1}"
ok "a group that is a number" option "optimize: groups: expected {match" "groups = {3}"
ok "nesterov without momentum" option "optimize: nesterov = true requires momentum > 0" \
  "nesterov = true"
while read -r what text; do
  ok "$what" option "train: $text" "$what"
done <<'END'
momentum=2 momentum = 2: expected a number >= 0 and < 1
momentum=-0.5 momentum = -0.5: expected
weight_decay=-1 weight_decay = -1: expected a number >= 0
clip_value=-1 clip_value = -1: expected a number >= 0
clip_norm=0/0 clip_norm = 
epochs=2.5 epochs = 2.5: expected a whole number
accumulate=1.5 accumulate = 1.5: expected a whole number
beta1=1 beta1 = 1: expected a number >= 0 and
beta2=1.5 beta2 = 1.5: expected a number >= 0 and
lr=0/0 lr = 
lr=math.huge lr = inf: expected a number >= 0
gamma=-1 gamma = -1: expected
cycles=0 cycles = 0: expected an integer, 1 or more
final='a' final = 'a': expected a number
betas=0.9 betas = 0.9: expected two numbers, as in {0.9, 0.999}
etas={1.2,0.5} etas = 
amsgrad=1 amsgrad = 1: expected true or false
END
ok "an option of other optimizers" option \
  "optimize: adam has no option 'nesterov'; it has: amsgrad, beta1, beta2, eps, weight_decay" \
  "optimizer = 'adam', nesterov = true"
ok "nesterov with dampening" option "optimize: nesterov = true and dampening = 0.1 exclude each other" \
  "momentum = 0.9, nesterov = true, dampening = 0.1"
ok "an optimizer there is not" option "optimize: optimizer: expected one of adadelta, adagrad, adam, adamax" \
  "optimizer = 'adamm'"
ok "a schedule there is not" option "schedule: 'cosin' is not one of constant, cosine, exponential" \
  "schedule = 'cosin'"
# by_hand TEXT OPTIONS: of nn.optimize
by_hand() {
  cat >"$work/m.lua" <<END
local nn = require "nn"
nn.entry("train", function()
  local y = nn.input("x", {2, 4}):linear("fc", {out = 4})
  nn.optimize(y:square():mean(), {lr = 0.1, optimizer = "adam", $2})
end)
END
  fails 2 "$work/m.lua:4: $1" build/nngen show "$work/m.lua" --entry train
}
ok "a step that is a number" by_hand "optimize: step = 3: expected a one-element tensor" "step = 3"
ok "a step of two elements" by_hand "optimize: step = tensor (2) of state: expected a one-element tensor" \
  "step = nn.state('st', {2}, {dtype = 'i32'})"
ok "a schedule of a number" by_hand "schedule: at = 3: expected a tensor" \
  "factor = nn.schedule('cosine', 3, 10)"
ok "a schedule of no length" by_hand "schedule: total = 'all': expected a number" \
  "factor = nn.schedule('cosine', nn.index({1}), 'all')"
ok "freeze that matches nothing" by_hand \
  "optimize: freeze: 'zz' matches no parameter of fc.weight, fc.bias" "freeze = 'zz'"
for momentum in 1.5 -1; do
  ok "batch norm by $momentum" wrong 4 "batch_norm2d: momentum = $momentum: expected a number from 0" \
    "" "$mean" "$pictures
  x = x:batch_norm2d('bn', {momentum = $momentum})"
done

# ---- options of the command line ----------------------------------------------------------------
# typed TEXT OPTION...: a message names the option as it was typed
typed() { model ""; fails 2 "$1" run "${@:2}"; }
ok "--lr nan" typed "--lr nan: expected a number" --lr nan
ok "--warmup 1e3" typed "--warmup 1e3: expected a whole number" --warmup 1e3
ok "--set lr=nan" typed "--set lr=nan: expected a number" --set lr=nan
ok "--batch" typed "--batch: $work/m.lua has no setting 'batch'; it has: none" --batch 4
ok "--set of nothing" typed "--set zz: $work/m.lua has no such setting; it has: none; a run has: \
accumulate, clip_norm, ema, epochs, freeze, label_smoothing, lr, optimizer, schedule, seed, warmup" \
  --set zz=1
swept() { model ""; run --sweep zz=1 | grep "failed: --sweep: .* has no setting 'zz'; it has: none; a"; }
ok "--sweep of nothing" swept
ok "--sweep of a name twice" typed "--sweep lr=2: 'lr' is given twice: expected one list, lr=A,B" \
  --sweep lr=1 lr=2
ok "--data twice" typed "--data $work/data and --data d1: one of the two" --data d1
ok "two seeds" typed "--seed 3 and --set seed=4: one of the two" --seed 3 --set seed=4
ok "a seed that is none" typed "--set seed: expected a whole number from 0 to " --set seed=x
ok "--label-smoothing of 2" typed "cross_entropy: label_smoothing = 2: expected 0 to 1" \
  --label-smoothing 2
smoothed() { # as the model says it itself; what states its own keeps that
  model "" "loss = logits:cross_entropy(labels)"
  run --label-smoothing 0.3 --out-dir "$work/a" || return
  model "" "loss = logits:cross_entropy(labels, {label_smoothing = 0.3})"
  run --label-smoothing 0.1 --out-dir "$work/b" && run --out-dir "$work/c" || return
  cmp "$work/a/m_final_weights.safetensors" "$work/b/m_final_weights.safetensors" &&
    cmp "$work/a/m_final_weights.safetensors" "$work/c/m_final_weights.safetensors" || return
  model "" "loss = logits:cross_entropy(labels)"
  run --out-dir "$work/d" && ! cmp -s "$work/a/m_final_weights.safetensors" "$work/d/m_final_weights.safetensors"
}
ok "--label-smoothing is that of each cross_entropy" smoothed
square() {
  model "" "loss = logits:square():mean()"
  fails 2 "--label-smoothing: the model's loss has no cross_entropy" run --label-smoothing 0.1
}
ok "--label-smoothing of a loss without classes" square
freeze() { # freeze TEXT PATTERN
  model "" "$mean" "$pictures
  x = x:batch_norm2d('bn')"
  fails 2 "$1" run --freeze "$2"
}
ok "--freeze of nothing" freeze "--freeze ',': expected patterns separated by commas" ,
ok "--set freeze= of nothing" typed "--freeze 'zz' matches no parameter of" --set freeze=zz
ok "--freeze of two, one nothing" freeze "--freeze 'fc.weight,,bn': expected patterns" fc.weight,,bn
ok "--freeze of a running statistic" freeze \
  "--freeze 'bn.running_mean': 'bn.running_mean' is a statistic, which training keeps, but" \
  bn.running_mean
layer() { model "" "$mean" "$pictures
  x = x:batch_norm2d('bn')"; run --freeze bn --out-dir "$work/frozen"; }
ok "--freeze of a layer that has some" layer

tap_done
