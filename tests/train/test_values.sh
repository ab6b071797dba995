#!/usr/bin/env bash
# What a run makes beside weights: mar_at_5 and pictures, moving averages, the summary, sweeps,
# early stops, ranges for profilers.
. "$(dirname "$0")/train.sh"
reference() { python3 tests/train/reference.py "$@"; }
close() {
  python3 -c "import sys; a, b = $1, $2; sys.exit(not abs(a - b) <= $3)" ||
    { echo "$1, want $2"; return 1; }
}

embed() {
  build/nngen train tests/train/embed.lua --quiet --data "$1" --steps 3 --out-dir "$2" "${@:3}"
}
mar() {
  python3 tests/train/data.py "$work/near" 16 $1 4 && embed "$work/near" "$work/mar" &&
    close "$(reference log "$work/mar/log.jsonl" eval_mar_at_5)" \
      "$(reference mar "$work/near")" 1e-6
}
long && ok "mar_at_5 of 45 examples" mar 45
python3 tests/train/data.py "$work/near" 16 45 4
far() { # embeddings far from 0, beside their distances
  embed "$work/near" "$work/mar" --set far=300.0 &&
    close "$(reference log "$work/mar/log.jsonl" eval_mar_at_5)" \
      "$(reference mar "$work/near")" 1e-6
}
long && ok "mar_at_5 of embeddings far from 0" far
long && ok "mar_at_5 of 8 examples, one batch" mar 8
unknown() { # an evaluation that is not finite is said, is never the best, and ends nothing
  train --set case=log --epochs 2 --out-dir "$work/unknown" 2>"$work/said" &&
    [ "$(grep -c "warning: epoch [12]: eval loss is NaN; this evaluation cannot" "$work/said")" = 2 ] &&
    [ -e "$work/unknown/tiny_last.safetensors" ] && [ ! -e "$work/unknown/tiny_best.safetensors" ] &&
    embed "$work/near" "$work/mar" --set far=1e300 2>"$work/said" &&
    grep -q "warning: epoch 1: eval mar_at_5 is NaN; this" "$work/said" || { cat "$work/said"; return 1; }
}
long && ok "an evaluation that is not finite" unknown
saved() {
  ! python3 tests/train/tensors.py list "$work/mar/embed_last.safetensors" | grep neighbours
}
ok "mar_at_5 of 2 examples" mar 2
ok "mar_at_5 of 1 example" fails 5 "mar_at_5 compares embeddings of test pictures" mar 1
ok "mar_at_5 of 4 examples" mar 4
ok "checkpoints hold no embeddings" saved
picture() {
  # of four examples: 8 pixels and 16 of its reconstruction high
  [ "$(od -An -tx1 -N 8 -j 16 "$work/mar/reconstructions_0001.png")" = " 00 00 00 46 00 00 00 1a" ] &&
    ! ls "$work/mar" | grep 0003
}
ok "a PNG of each validation" picture

short() { # the mean loss of 11 examples, whatever batches they come in
  local b
  python3 tests/train/data.py "$work/eleven" 16 11 || return
  local bright # of 11 pictures, in that .npy after 128 bytes
  bright=$(tail -c 704 "$work/eleven/test_images.npy" | python3 -c 'import sys
x = sys.stdin.buffer.read()
print(sum(sum(x[i:i + 64]) / 64 / 255 > 0.33 for i in range(0, 704, 64)) / 11)')
  for b in 8 $(long && echo 4) 11; do
    embed "$work/eleven" "$work/by$b" --batch $b --lr 0 --steps 1 || return
    close "$(reference log "$work/by$b/log.jsonl" eval_loss)" \
      "$(reference log "$work/by8/log.jsonl" eval_loss)" 1e-6 &&
      close "$(reference log "$work/by$b/log.jsonl" eval_even)" 43.5 1e-5 &&
      close "$(reference log "$work/by$b/log.jsonl" eval_level)" \
        "$(reference log "$work/by8/log.jsonl" eval_level)" 1e-6 &&
      close "$(reference log "$work/by$b/log.jsonl" eval_bright)" $bright 1e-6 || return
  done
}
long && ok "a last short batch, of a loss that is one number" short
alone() { # three examples: in a batch of three, and of eight with five copies of the last
  local key b
  python3 tests/train/data.py "$work/alone" 16 3 || return
  for b in 3 8; do
    embed "$work/alone" "$work/of$b" --batch $b --lr 0 --steps 1 --set product=true 2>"$work/said$b" ||
      return
  done
  for key in peak spread run rank; do
    close "$(reference log "$work/of8/log.jsonl" eval_$key)" \
      "$(reference log "$work/of3/log.jsonl" eval_$key)" 1e-6 || return
  done
  grep -q "eval product: the last batch has 3 of 8 examples, and copies" "$work/said8" &&
    ! grep copies "$work/said3"
}
long && ok "maxima, sums of means; where padding counts it is said" alone
summed() { # 13 examples by 8
  local key
  python3 tests/train/data.py "$work/thirteen" 16 13 10 8 1 || return
  build/nngen train tests/train/summed.lua --quiet --data "$work/thirteen" --epochs 1 \
    --out-dir "$work/summed" >"$work/said" 2>&1 || { cat "$work/said"; return 1; }
  for key in rows count; do
    close "$(reference log "$work/summed/log.jsonl" eval_$key)" \
      "$(reference log "$work/summed/log.jsonl" eval_${key}_compared)" 1e-6 || return
  done
  ! grep copies "$work/said"
}
ok "rows that are added up by their ids, without padding" summed
batchwide() { # a loss of each example with a term of the whole batch, 37 examples by 16
  local b term
  python3 tests/train/data.py "$work/37" 64 37 4 8 3 || return
  cat >"$work/wide.lua" <<'END'
local nn = require "nn"
local cfg = nn.config{batch = 16, term = "mean"}
nn.train(cfg.batch, function()
  local x, labels = nn.images{cfg.batch, 3, 8, 8, classes = 4, mean = 0.5, std = 0.25}
  local logits = x:permute(2, 3, 4, 1):relu():permute(4, 1, 2, 3):flatten():linear("fc", {out = 4})
  local each = logits:cross_entropy(labels, {reduction = "none"})
  if cfg.term == "mean" then each = each + x:mean() end
  if cfg.term == "last" then each = each + x:permute(2, 3, 4, 1):sum(4):mean() / cfg.batch end
  if cfg.term == "product" then each = each + (x:mean{2, 3, 4} * 0.1 + 1):prod() end
  return {loss = each, bright = x:mean()}
end, {lr = 0.1})
END
  for term in mean $(long && echo none last product); do
    for b in 1 16; do
      build/nngen train "$work/wide.lua" --data "$work/37" --quiet --steps 1 --lr 0 --batch $b \
        --set term=$term --out-dir "$work/wide$b" 2>"$work/wide$b.err" >"$work/wide.out" || return
    done
    if [ $term = product ]; then grep "eval loss: the last batch has 5 of 16" "$work/wide16.err"
    else
      ! grep copies "$work/wide16.err" &&
        close "$(reference log "$work/wide16/log.jsonl" eval_loss)" \
          "$(reference log "$work/wide1/log.jsonl" eval_loss)" 1e-6
    fi || return
  done
}
long && ok "a loss of each example with a term of the whole batch" batchwide
# Rows of a value, whose examples lie in it as its op leaves them.
cat >"$work/ops.lua" <<'LUA'
local nn = require "nn"
local cfg = nn.config{batch = 8, set = ""}
local B, conv = cfg.batch, nn.functional.conv2d
local sets = {}
function sets.mixed(o) -- made of other examples, too, or of all
  local one, line = o:reshape{1, 1, B, 4}, o:t():reshape{1, 4, B}
  local back = B - 1 - nn.index({B})
  return {attend = nn.attention(one, one, one):reshape{B, 4}, choice = o:select(1, B):reshape{1, 4} + o,
          einsum = nn.einsum("ab,cb->ac", o, o), flip = o:flip(1), gram = o:matmul(o:t()),
          index = nn.index_select(o, 1, back),
          pairs = o:reshape{B // 2, 2, 4}:sum(2, true):expand{B // 2, 2, 4}:reshape{B, 4},
          pool = line:avg_pool1d(3, {stride = 1, pad = 1}):reshape{4, B}:t(), roll = o:roll(1, 1),
          softmax = o:softmax(1), sort = o:sort(1), take = o:gather(1, back:reshape{B, 1} + nn.zeros({B, 4}):to("i32")),
          topk = o:topk(B, 1)}
end
function sets.apart(o) -- made of the example alone
  local image, own = o:reshape{B, 2, 2, 1}, o:reshape{B, 1, 2, 2}
  return {attend = nn.attention(own, own, own):reshape{B, 4},
          bmm = own:matmul(own:transpose(3, 4)), conv = image:conv2d("conv", {out = 3, kernel = 1}),
          flip = o:flip(2), fold = o:reshape{B * 2, 2}:softmax(2):reshape{B, 4},
          groups = conv(o:reshape{1, 4 * B, 1, 1}, o:reshape{4 * B, 1, 1, 1}, {groups = 4 * B}):reshape{B, 4},
          pool = image:max_pool2d(2, {pad = 1}), sort = o:sort(2),
          swap = o:t():reshape{4 * B}:sin():reshape{4, B}:t(), take = o:gather(2, nn.index({B, 1}, 2)),
          twice = nn.concat({o, o * 2}, 1):sin():reshape{2, B, 4}:sum(1)}
end
nn.train(B, function()
  local x, labels = nn.images{B, 1, 8, 8, classes = 4}
  local o = x:flatten():linear("fc", {out = 4})
  local made = {loss = o:cross_entropy(labels, {reduction = "none"}), run = o:cumsum(1):sum(2),
                embedding = cfg.set == "mixed" and o:flip(1) or o}
  for name, v in pairs(sets[cfg.set](o)) do made[name] = (v * v):flatten(2):sum(2) end
  return made
end, {lr = 0.1})
LUA
places() { # what is said before the folder is made, which fails
  local names="attend, choice, einsum, embedding, flip, gram, index, pairs, pool, roll, softmax, sort, take, topk"
  ops() { build/nngen train "$work/ops.lua" --data "$work/data" --quiet --steps 1 --lr 0 "$@"; }
  fails 5 "eval $names: the last batch has 4 of 8" ops --set set=mixed --out-dir "$work/ops.lua/at" &&
    fails 5 "--out-dir" ops --set set=apart --out-dir "$work/ops.lua/at" &&
    ! grep copies "$work/fails" || return
  long || return 0
  for b in 8 5; do ops --set set=apart --batch $b --out-dir "$work/ops$b" || return; done
  for key in attend bmm conv flip fold groups pool sort swap take twice; do
    close "$(reference log "$work/ops8/log.jsonl" eval_$key)" \
      "$(reference log "$work/ops5/log.jsonl" eval_$key)" 1e-6 || return
  done
}
ok "where examples lie in what ops make of them" places
made_up() { # of inputs by chance there is at least one example that counts
  build/nngen tests/train/tiny.lua --quiet --entry eval --output "$work/chance" >"$work/said" &&
    python3 -c 'import math, struct, sys
loss = struct.unpack("<f", open(sys.argv[1], "rb").read()[-4:])[0]
sys.exit(not math.isfinite(loss))' "$work/chance/eval.loss.npy"
}
ok "an evaluation of inputs that nobody gave" made_up

ema() {
  local i files=
  for i in 1 2 3 $(long && echo 4 5 6); do
    train --set schedule0=constant --ema 0.35 --steps $i --out-dir "$work/ema$i" || return
    files+=" $work/ema$i/tiny_last.safetensors"
  done
  reference ema 0.35 $files
}
ok "moving averages of weights" ema
# An evaluation of averages with decay 0 is that of the weights; with a long one it is not.
averaged() {
  train --steps 10 --out-dir "$work/plain" && train --steps 10 --ema 1e-9 --out-dir "$work/short" &&
    train --steps 10 --ema 0.99 --out-dir "$work/long" || return
  local plain; plain=$(reference log "$work/plain/log.jsonl" eval_loss)
  close "$(reference log "$work/short/log.jsonl" eval_loss)" "$plain" 1e-6 &&
    ! close "$(reference log "$work/long/log.jsonl" eval_loss)" "$plain" 1e-3
}
ok "evaluations take them" averaged
# Also where the parameters, and what is made of them, are of the model outside of nn.train.
cat >"$work/outside.lua" <<'LUA'
local nn = require "nn"
local B, outside = 8, nn.config{outside = false}.outside
local function weights() return nn.param("fc.weight", {10, 64}, {"normal", 0, 0.05}):t() * 1.5 end
local made = outside and weights()
local function net(x) return x:flatten():matmul(made or weights()) end
nn.output("y", net(nn.input("image", {B, 1, 8, 8})))
nn.train(B, function()
  local x, labels = nn.images{B, 1, 8, 8}
  return {loss = net(x):cross_entropy(labels, {reduction = "none"})}
end, {lr = 0.1})
LUA
outside() {
  local i log
  for i in "false 0.9" "true 0.9" "true 0"; do
    log=$work/outside_${i// /_}
    build/nngen train "$work/outside.lua" --data "$work/data" --quiet --steps 10 \
      --set outside=${i% *} --ema ${i#* } --out-dir "$log" >"$work/log" || return
    reference log "$log/log.jsonl" eval_loss
  done >"$work/losses" || { cat "$work/losses"; return 1; }
  cat "$work/losses"
  [ $(uniq "$work/losses" | wc -l) = 2 ] && [ $(head -2 "$work/losses" | uniq | wc -l) = 1 ]
}
long && ok "of parameters made outside of nn.train, too" outside
decays() { # --weight-decay comes before the model's, which another optimizer keeps
  local i=0 with
  for with in "--set decay=0.5" "--weight-decay 0.5" "--set decay=0.2 --weight-decay 0.5" "" \
    "--optimizer adamw --weight-decay 0.01" "--optimizer adamw --set decay=0.01" \
    "--optimizer adamw --set decay=0.02"; do
    train --steps 5 $with --out-dir "$work/decay$((++i))" || return
  done
  same() { cmp -s "$work"/decay{$1,$2}/tiny_final_weights.safetensors; }
  same 1 2 && same 1 3 && ! same 1 4 && same 5 6 && ! same 5 7
}
ok "weight decay of the command line" decays
ok "weight decay below 0" fails 2 "weight_decay = -1: expected a number >= 0" \
  train --weight-decay -1
ok "a bad decay" fails 2 "expected 0 <= ema < 1" train --ema 1.5

# A parameter without dimensions, as CLIP's logit_scale is, trains as one of shape (1) does.
cat >"$work/scalar.lua" <<'LUA'
local nn = require "nn"
local cfg = nn.config{rank = 0}
nn.train(8, function()
  local x, labels = nn.images{8, 1, 8, 8, classes = 4}
  local t = nn.param("t", {[cfg.rank] = 1}, 0.5)
  return {loss = (x:flatten():linear("fc", {out = 4}) * t):cross_entropy(labels)}
end, {lr = 0.1, optimizer = "adam", clip_value = 0.5, groups = {{match = "t", lr = 0.01}}})
LUA
scalar() {
  local rank kind set="--ema 0.9 --accumulate 2 --clip-norm 1 --schedule cosine --amp fp16"
  for kind in $(long && echo sgd adamw lion nadam rprop asgd) adam muon; do
    build/nngen show "$work/scalar.lua" --entry train --stage simp \
      --set optimizer=$kind loss_scaling=true clip_norm=1 accumulate=2 ema=0.5 || return
  done
  for rank in 0 $(long && echo 1); do
    build/nngen train "$work/scalar.lua" --data "$work/data" --quiet --steps 4 $set \
      --set rank=$rank --out-dir "$work/scalar$rank" || return
    python3 tests/train/tensors.py values "$work/scalar$rank/scalar_last.safetensors" \
      t fc.weight ema.t adam.exp_avg.t >"$work/scalar$rank.values" || return
  done
  ! long || cmp "$work/scalar0.values" "$work/scalar1.values" || return
  python3 tests/train/tensors.py list "$work/scalar0/scalar_last.safetensors" | grep '\(^\|\.\)t$' |
    diff - <(printf '%s\n' accumulated.t adam.exp_avg.t adam.exp_avg_sq.t ema.t t)
}
ok "a parameter without dimensions" scalar

accumulate() { # of two batches of 8: the same as one of 16, but for rounding, in the averages too
  local set="--steps 24 --lr 0.005 --schedule cosine --warmup 3"
  python3 tests/train/data.py "$work/even" 96 8
  embed "$work/even" "$work/b16" --batch 16 $set --ema 0.6 --steps 12 &&
    embed "$work/even" "$work/b8" --batch 8 --accumulate 2 --ema 0.6 $set &&
    paste \
      <(python3 tests/train/tensors.py values "$work/b16/embed_final_weights.safetensors" \
        fc.weight) \
      <(python3 tests/train/tensors.py values "$work/b8/embed_final_weights.safetensors" \
        fc.weight) |
    awk '{d = $1 - $2; sum += $1 * $1; far += d * d}
      END {print sqrt(far / sum); exit !(NR == 64 && far < 1e-8 * sum)}'
}
long && ok "gradients of two steps, accumulated" accumulate
ok "accumulated never" fails 2 "accumulate = 0: expected 1 or more" embed "$work/near" "$work/none" \
  --accumulate 0
long && ok "the same with a scaled loss" embed "$work/even" "$work/scaled" --accumulate 3 --amp fp16

first() { # Adam's first step is the rate, though steps before it overflowed and were left out: of
          # averages, too
  local at="$work/first" set="--optimizer adam --lr 0.01 --ema 0.9 --set loss_scaling=true"
  steep() { train $set schedule0=constant case=steep --steps $1 --out-dir "$at$1" >"$at$1.said"; }
  steep 1 && steep 20 || return
  local step
  step=$(grep -vm1 -E '"grad_norm":null|eval' "$at"20/log.jsonl | grep -oE '[0-9]+' | head -1)
  [ "$step" -gt 3 ] && steep $step &&
    paste <(python3 tests/train/tensors.py values "$at"1/tiny_final_weights.safetensors fc.weight) \
      <(python3 tests/train/tensors.py values "$at$step/tiny_final_weights.safetensors" fc.weight) |
    awk '{d = $1 - $2; sum += d * d} # but for weights that no example reaches
      END {d = sqrt(sum / NR); print d; exit !(d > 0.0095 && d < 0.0101)}'
}
long && ok "steps that are left out count for nothing in Adam's corrections" first
norms() { # the means of two epochs are those of the steps that have a norm
  reference means "$work/first20/log.jsonl" grad_norm <"$work/first20.said"
}
long && ok "nor in the mean of gradients' norms" norms
spike() { # the forward pass overflows in one step: nothing that stays knows of it
  local at="$work/spike" steps=$1; shift
  train --amp fp16 --set case=spike --steps $steps --out-dir "$at" "$@" >"$at.said" &&
    grep -q '"step":4,"accuracy":[0-9.]*,"loss":null.*,"scale":65536' "$at/log.jsonl" &&
    { [ $steps = 4 ] || grep -q '"scale":32768' "$at/log.jsonl"; } && # after the next update
    reference means "$at/log.jsonl" loss <"$at.said" &&
    reference means "$at/log.jsonl" grad_norm <"$at.said"
}
statistics() { # of three steps and of the fourth, which is left out
  train --amp fp16 --steps 3 --schedule constant --out-dir "$work/three" &&
    spike 4 --schedule constant &&
    python3 tests/train/tensors.py same "$work/three/tiny_last.safetensors" \
      "$work/spike/tiny_last.safetensors" bn1.running_mean bn1.running_var conv1.weight
}
long && ok "a loss that is not finite in a step that is left out" spike 20
long && ok "and what such a step makes of running statistics" statistics
whole() { # of every third step
  spike 20 --accumulate 3 --clip-norm 1 &&
    [ "$(sed -nE 's/^.{8}([0-9]+).*grad_norm.*/\1/p' "$work/spike/log.jsonl" | paste -sd' ')" = \
      "3 6 9 12 15 18" ]
}
long && ok "norms of whole gradients alone, where they are accumulated" whole

patience() {
  train --epochs 30 --lr 0 --patience 3 --out-dir "$work/patience" >"$work/said" &&
    grep -q "stopped: no improvement in 3 evaluations" "$work/said" &&
    [ "$(grep -c '^epoch' "$work/said")" = 4 ]
}
ok "an early stop" patience
summary() {
  train --steps 10 --out-dir "$work/json" --json >"$work/json.txt" &&
    build/nngen tests/train/tiny.lua --entry train --no-check --quiet --json >"$work/once.json" &&
    reference summary "$work/json.txt" "$work/once.json"
}
ok "the summary as JSON" summary
text() {
  train --steps 10 --out-dir "$work/json" >"$work/text" &&
    grep -q "^speed .* examples/s" "$work/text" &&
    grep -q "by events: forward .*, loss .*, backward .*, optimizer_step" "$work/text" &&
    grep -q "^accuracy " "$work/text" && grep -q "is left to gain" "$work/text"
}
ok "the summary as text" text
sweep() {
  mkdir "$work/here"; cp tests/train/tiny.lua "$work/here/one.lua"
  cp tests/train/tiny.lua "$work/here/two.lua"
  local two; two=$(long && echo batch=4,8 || echo seed=1,2)
  build/nngen train "$work/here/one.lua" --data "$work/data" --steps 3 \
    --sweep lr=0.1,0.3 model=one,two >"$work/said" || return
  [ "$(wc -l <"$work/said")" = 5 ] && [ ! -e one_train ] &&
    grep -qE '^0.3 *two .* [0-9.]+ +(0\.[0-9]+|1|0)$' "$work/said" &&
    train --steps 3 --sweep $two lr=0.1,0.2,0.3 --json | python3 -c '
import json, sys
rows = json.load(sys.stdin)["sweep"]
assert len(rows) == 6 and rows[5]["lr"] == "0.3" and rows[5]["ms_phases"]["backward"] > 0
assert all(0 <= row["accuracy"] <= 1 for row in rows)'
}
ok "sweeps" sweep
beyond() { # a run that fails is a row, and the others run
  local lr
  for lr in 0.1,1e30 1e30,0.1; do
    train --steps 3 --sweep lr=$lr --json >"$work/rows" 2>"$work/err"
    [ $? = 1 ] && grep -q "^nngen: --sweep: 1 of 2 runs failed" "$work/err" || return
    python3 -c '
import json, sys
rows = {row["lr"]: row for row in json.load(sys.stdin)["sweep"]}
assert list(rows) == sys.argv[1].split(",") and rows["0.1"]["loss"] > 0, rows
assert "the loss is" in rows["1e30"]["error"] and "loss" not in rows["1e30"], rows' \
      $lr <"$work/rows" || return
  done
  train --steps 3 --sweep lr=1e30,0.1 --sweep batch=8,1000 >"$work/rows" 2>"$work/err"
  [ $? = 1 ] && grep -q "3 of 4 runs failed" "$work/err" && [ "$(wc -l <"$work/rows")" = 5 ] &&
    grep -qE "^1e30 +8 +failed: the loss is" "$work/rows" &&
    grep -qE "^0.1 +1000 +failed: .*84 pictures" "$work/rows"
}
ok "a sweep of which some runs fail" beyond
seeds() { # of first weights, and of the order of the data
  local how losses
  train --steps 3 --sweep seed=1,2 --seed 7 --json >"$work/rows" || return
  for how in "--seed 2" "--set seed=2"; do
    train --steps 3 $how --out-dir "$work/seeded${how%% *}" || return
  done
  python3 tests/train/tensors.py same "$work"/seeded--{seed,set}/tiny_last.safetensors \
    fc.weight conv1.weight || return
  losses=$(reference log "$work/seeded--seed/log.jsonl" loss) && python3 -c '
import json, sys
rows = json.load(sys.stdin)["sweep"]
assert rows[0]["loss"] != rows[1]["loss"], rows
assert abs(rows[1]["loss"] - float(sys.argv[1])) < 1e-6, (rows, sys.argv)' \
    "$losses" <"$work/rows"
}
ok "seeds" seeds
ok "a sweep of nothing" fails 2 "--sweep: expected up to 4 of NAME=A,B,..., got 'batch'" train --sweep batch

readme() { # its model, as it stands there
  awk '/^-- small.lua/ {on = 1} /^```/ {on = 0} on' gen/train/README.md >"$work/small.lua"
  python3 tests/train/data.py "$work/small" 32 16 10 32 3 &&
    build/nngen train "$work/small.lua" --quiet --data "$work/small" --epochs 2 \
      --out-dir "$work/small.run" &&
    build/nngen "$work/small.lua" --quiet \
      --weights "$work/small.run/small_final_weights.safetensors"
}
long && ok "the README's model" readme
events() {
  train --steps 12 --tensorboard --out-dir "$work/board" &&
    ls "$work"/board/events.out.tfevents.* >/dev/null
}
ok "TensorBoard's events" events

marked() { # marked STEP OPTIONS...: the step that is marked, of those that the device has run
  train --profile-one-step --out-dir "$work/marked" "${@:2}" >"$work/said" &&
    grep -qx "profiled  step $1, after $(($1 - 1)) of warmup" "$work/said" ||
    { cat "$work/said"; return 1; }
}
ok "a step is marked after ten" marked 11
marked_json() {
  train --profile-one-step --out-dir "$work/marked" --json |
    python3 -c 'import json, sys; assert json.load(sys.stdin)["profiled_step"] == 11'
}
ok "the same as JSON" marked_json
few 4 && ok "after three" marked 4 --warmup-iters 3
few 4 && ok "the seventh is marked" marked 7 --profile-iter 7
few 4 && ok "the first" marked 1 --profile-iter 1
few 4 && ok "the seventh, though three warm up" marked 7 --profile-iter 7 --warmup-iters 3

# ---- ranges --------------------------------------------------------------------------------------
nvtx=
for folder in "${CUDA_PATH:-/none}/include" /usr/local/cuda/include; do
  [ -e "$folder/nvtx3/nvToolsExt.h" ] && nvtx=$folder
done
if [ ! "$nvtx" ] ||
  ! cc -shared -fPIC -I"$nvtx" -o "$work/tool.so" tests/train/nvtx_tool.c 2>/dev/null; then
  skip "ranges" "NVTX headers or a compiler are missing"
else
  ranges() {
    NVTX_INJECTION64_PATH=$work/tool.so NVTX_RANGES=$work/ranges "$@" >"$work/said" 2>&1 ||
      { cat "$work/said"; return 1; }
  }
  one() { # exactly one step is marked, and nothing is written
    ranges train --profile-one-step --warmup-iters 3 --out-dir "$work/profile" &&
      [ ! -e "$work/profile" ] || return
    sed -n '/^train_step/,$p' "$work/ranges" | grep -vE '^    ' | uniq >"$work/got"
    [ "$(grep -c '^train_step 00c853' "$work/got")" = 1 ] &&
      [ "$(sed -n '2,4p' "$work/got" | tr -d '\n')" = \
        "  data_unpack 00bcd4  forward ffeb3b  loss ff9800" ] &&
      grep -q '^  backward' "$work/got" && grep -q '^  optimizer_step' "$work/got" ||
      { cat "$work/ranges"; return 1; }
  }
  ok "one step is marked, with its phases" one
  layers() { # of the autoencoder: the workload's hierarchy
    python3 tests/train/data.py "$work/photos" 4 4 4 32 3
    ranges build/nngen train models/autoencoder.lua --quiet --data "$work/photos" --batch 4 \
      --set width=4 latent=8 --steps 1 --nvtx layer --out-dir "$work/ranged" || return
    local want
    for want in 'memory ff00ff' '  allocation ff00ff' '  weights loading ff00ff' \
      'training_step 00c853' '  data_unpack 00bcd4' '  forward ffeb3b' '    encoder ' \
      '    decoder ' \
      '  loss ff9800' '  backward ' '  optimizer_step ' 'validation 2196f3' '  forward ffeb3b' \
        '  mar_at_5 9c27b0' '  reconstructions e91e63'; do
      grep -q "^$want" "$work/ranges" || { echo "no '$want' in:"; cat "$work/ranges"; return 1; }
    done
  }
  long && ok "the autoencoder's ranges" layers
  off() {
    rm -f "$work/ranges"
    ranges train --steps 3 --nvtx off --out-dir "$work/off" && [ ! -s "$work/ranges" ]
  }
  ok "no ranges with --nvtx off" off
fi
same() {
  train --steps 12 --nvtx layer --out-dir "$work/layer" &&
    train --steps 12 --nvtx off --out-dir "$work/model" && same_run "$work/layer" "$work/model"
}
ok "the same bits kernel by kernel" same

compiled() { # said before it is done, and how long it took; from the cache, nothing is
  local run="build/nngen train tests/train/tiny.lua --data $work/data --steps 1 --out-dir $work/compiled
    --cache-dir $work/compiled_cache" count
  $run >"$work/first" 2>"$work/said" && $run --json >"$work/second" 2>"$work/said_again" || return
  count=$(sed -n 's/^compiling \([0-9]*\) kernels$/\1/p' "$work/said")
  [ "$(head -1 "$work/said")" = "compiling $count kernels" ] &&
    grep -qE "^compile   $count kernels compiled, 0 from the cache, [0-9.]+ s$" "$work/first" &&
    ! grep compiling "$work/said_again" && grep -q '"compiled": 0,' "$work/second" &&
    grep -q "\"cached\": $count," "$work/second" && grep -q '"compile_seconds": 0' "$work/second"
}
ok "kernels that are compiled are said to be, before that" compiled

# bar COLUMNS PATTERN: on a terminal steps are one line, drawn again, that never wraps
bar() {
  rm -rf "$work/bar"
  python3 tests/train/terminal.py $1 build/nngen train tests/train/tiny.lua --data "$work/data" \
    --epochs 2 --out-dir "$work/bar" >"$work/drawn" || return
  python3 - "$work/drawn" $1 "$2" <<'PYTHON'
import re, sys
text = open(sys.argv[1], newline="").read()
drawn = re.findall("\r\x1b\\[K(step [^\r]*)", text)
if not drawn or not re.fullmatch(sys.argv[3], drawn[-1]):
    sys.exit("drawn: %r" % drawn[-1:])
if any("\n" in line or len(line) >= int(sys.argv[2]) for line in drawn):
    sys.exit("it wraps: %r" % drawn)
PYTHON
}
ok "a bar on a terminal" bar 120 \
  "step \[#{24}\] 20/20  left 0:00  accuracy [0-9.]+  loss [0-9.]+  lr [0-9.e-]+  [0-9.e+]+ examples/s"
ok "cut to a narrow terminal" bar 50 "step \[#{10}\] 20/20  left 0:00  accuracy .*"
lines() {
  build/nngen train tests/train/tiny.lua --data "$work/data" --epochs 2 --log-every 5 \
    --out-dir "$work/bar" 2>"$work/drawn" >"$work/said" || return
  [ "$(grep -cE '^step (5|10|15|20) of 20  left 0:0[0-9]  accuracy .* examples/s$' "$work/drawn")" = 4 ] ||
    { cat "$work/drawn"; return 1; }
}
ok "plain lines elsewhere" lines
tap_done
