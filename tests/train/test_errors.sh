#!/usr/bin/env bash
# What goes wrong in training: one clear message, the right exit code, and nothing lost.
. "$(dirname "$0")/train.sh"
run() { build/nngen train tests/train/tiny.lua --quiet "$@"; }
data="--data $work/data"
at=$work/run

ok "no data" fails 2 "trains on pictures: give --data DIR" run
ok "unknown data" fails 5 "$work/none" run --data "$work/none"
ok "an empty folder" fails 5 "$work/empty" run --data "$(mkdir "$work/empty"; echo "$work/empty")"
ok "a data set smaller than a batch" fails 5 \
  "its 84 pictures for training are fewer than a batch of 100; give a smaller --batch" \
  run $data --batch 100
cp -r "$work/data" "$work/labels"; python3 tests/train/data.py "$work/three" 84 20 3
python3 tests/train/data.py --labels "$work/labels" 4
ok "a label out of range" fails 5 "train_labels.npy" run --data "$work/labels"
ok "another precision" fails 2 "--amp int8: expected fp16 or bf16" run $data --amp int8
ok "two precisions" fails 2 "--amp bf16 and --dtype fp16: one of the two" \
  run $data --amp bf16 --dtype fp16
ok "a number beyond all" fails 2 "--lr 1e400: expected a number" run $data --lr 1e400
too_few() { # and what an earlier run left stays
  run $data --steps 2 --out-dir "$work/few" && cp -r "$work/few" "$work/few.copy" &&
    fails 2 "--accumulate 5: this run of 4 steps makes no update" \
      run $data --steps 4 --accumulate 5 --out-dir "$work/few" &&
    diff -r "$work/few.copy" "$work/few"
}
ok "too few steps for an update" too_few
ok "no threads" fails 2 "--workers" run $data --workers 0 --out-dir "$work/w"
ok "a pattern that matches nothing" fails 2 \
  "--freeze 'layer9.*' matches no parameter of tests/train/tiny.lua: conv1.weight, bn1.weight" \
  run $data --freeze 'layer9.*'
layer() { # each pattern counts; the name of a layer, without *, is all that the layer holds
  train --steps 1 --lr 0 --out-dir "$work/frozen0" &&
    train --steps 3 --freeze fc.weight --freeze bn1,fc.bias --out-dir "$work/frozen" || return
  local all="$work/frozen0/tiny_final_weights.safetensors"
  local end="$work/frozen/tiny_final_weights.safetensors"
  python3 tests/train/tensors.py same "$all" "$end" fc.weight fc.bias bn1.weight &&
    ! python3 tests/train/tensors.py same "$all" "$end" conv1.weight 2>/dev/null
}
ok "frozen parameters" layer
by_model() { # a model's own patterns, as those of --freeze, which come before them
  cat >"$work/low_rank.lua" <<'LUA'
local nn = require "nn"
nn.train(4, function()
  local x, labels = nn.images{4, 1, 2, 2, classes = 3}
  return {loss = x:flatten():linear("base", {out = 3}):linear("added", {out = 3})
                   :cross_entropy(labels)}
end, {lr = 0.1, freeze = "base"})
LUA
  build/nngen train "$work/low_rank.lua" --data synthetic --steps 2 --out-dir "$work/low" --quiet &&
    build/nngen train "$work/low_rank.lua" --data synthetic --steps 2 --out-dir "$work/low0" --lr 0 \
      --quiet || return
  local a="$work/low/low_rank_final_weights.safetensors"
  local b="$work/low0/low_rank_final_weights.safetensors"
  python3 tests/train/tensors.py same "$a" "$b" base.weight base.bias &&
    ! python3 tests/train/tensors.py same "$a" "$b" added.weight 2>/dev/null
}
ok "frozen by the model" by_model
ended() { wait $run; local code=$?; cat "$1.err"; return $code; }
removed() { # the folder, while the run goes on
  begin "$work/gone" --epochs 2000000 && logged "$work/gone" 40 || return
  until [ -e "$work/gone/tiny_best.safetensors" ]; do kill -0 $run || return; sleep 0.01; done
  mv "$work/gone" "$work/gone.aside" && kill -INT $run
  fails 5 "saved by this run: no weights" ended "$work/gone"
}
ok "a folder that is removed" removed
beside() { # what the loss does not depend on: no decay, no momentum, no average
  fails 0 "warning: the loss does not depend on beside: not updated" run $data --steps 3 \
    --set case=beside decay=0.1 --ema 0.5 --optimizer $1 --out-dir "$work/beside" || return
  local end=$work/beside/tiny_final_weights.safetensors
  [ "$(python3 tests/train/tensors.py values "$end" beside | sort -u)" = 2.0 ] &&
    ! python3 tests/train/tensors.py list "$work/beside/tiny_last.safetensors" | grep '\.beside'
}
ok "a parameter beside the loss, sgd" beside sgd
ok "a parameter beside the loss, adamw" beside adamw
spoilt_start() { # weights that hold a NaN
  local file=$work/spoilt.safetensors
  cp "$work/frozen0/tiny_final_weights.safetensors" "$file" &&
    printf '\0\0\xc0\x7f' | dd of="$file" bs=1 conv=notrunc status=none \
      seek=$(($(stat -c %s "$file") - 4)) &&
    fails 1 "step 1: 'fc.weight' was NaN before the first step" \
      run $data --init "$file" --out-dir "$work/spoilt" &&
    fails 1 "begin with other weights (--check-finite looks at them first); there is no check" \
      run $data --init "$file" --out-dir "$work/spoilt"
}
ok "initial weights that hold a NaN" spoilt_start
ok "one pattern of two that matches nothing" fails 2 "--freeze 'layer9' matches no parameter" \
  run $data --freeze fc,layer9
ok "everything frozen" fails 2 "no parameter to train" run $data --freeze '*'
ok "a model that does not say how" fails 2 "has no entry \`train\`: declare it by nn.train" \
  run $data --set case=no_train
ok "no parameters" fails 2 "no parameter to train" run $data --set case=no_parameters
ok "a loss of no parameter" fails 2 "the loss depends on no parameter" run $data --set case=apart
ok "no loss" fails 2 "returns {loss = a tensor, ...}" run $data --set case=no_loss
ok "going on from nothing" \
  fails 5 "there is no checkpoint $at/tiny_last.safetensors; omit --resume to start from scratch" \
  run $data --resume --out-dir "$at"
ok "a folder that cannot be made" fails 5 "--out-dir $work/data/train_images.npy/at: Not a" \
  run $data --out-dir "$work/data/train_images.npy/at"
nested() {
  train --steps 1 --out-dir "$work/a/b//c/" && [ -e "$work/a/b/c/tiny_last.safetensors" ]
}
ok "a folder below others that are not there yet" nested

# ---- a loss that is not finite ------------------------------------------------------------------
bad() { # the step and the layer are named; the checkpoint stays as it was
  train --epochs 1 --out-dir "$work/bad" && cp "$work/bad/tiny_last.safetensors" "$work/kept" ||
    return
  fails 1 "step 13: the first value that is NaN: 'bn1.running_var' of the layer conv1" \
    run $data --epochs 2 --lr 1e14 --resume --out-dir "$work/bad" &&
    cmp "$work/kept" "$work/bad/tiny_last.safetensors"
}
ok "a learning rate that blows up" bad
bad16() { # in steps that are left out, too; no checkpoint has what came of it
  train --epochs 1 --amp fp16 --out-dir "$work/bad16" &&
    cp "$work/bad16/tiny_last.safetensors" "$work/kept" || return
  fails 1 "the loss of 8 steps in a row, up to step 19, is not finite; step" \
    run $data --epochs 3 --lr 1e14 --amp fp16 --resume --out-dir "$work/bad16" &&
    cmp "$work/kept" "$work/bad16/tiny_last.safetensors"
}
long && ok "the same in f16, with a scaled loss" bad16
grows() { # of a linear model without a norm, whose loss stays finite
  local linear="--set case=linear --epochs 1"
  train $linear --lr 1e6 --out-dir "$work/grows" >"$work/said" 2>"$work/err" &&
    grep -q "^nngen: warning: the loss of step [0-9]* is .*: training diverges" "$work/err" &&
    [ "$(grep -c diverges "$work/err")" = 1 ] || { cat "$work/err"; return 1; }
  train $linear --out-dir "$work/grows2" >"$work/said" 2>"$work/err" && [ ! -s "$work/err" ]
}
ok "a loss that grows a thousandfold, but is finite: a warning" grows
ok "the same, from the beginning" fails 1 "there is no checkpoint yet" \
  run $data --lr 1e14 --out-dir "$work/bad2"
root() { # at the end of an epoch: no checkpoint holds such weights
  local first="step 1: the first value that is NaN: 'optimizer_step.where' of the layer sum"
  fails 1 "'p' is NaN after step 10; $first" run $data --set case=root --accumulate 10 \
    --out-dir "$work/root" && ! ls "$work/root" | grep safetensors
}
ok "weights that are not finite where a checkpoint is due" root
ok "gradients that are not finite, however small the loss is made" fails 1 \
  "the gradients of 32 updates in a row, up to step 32, are not finite; step 32: the first value" \
  run $data --set case=root --amp fp16 --epochs 4 --out-dir "$work/root16"

# ---- checkpoints -------------------------------------------------------------------------------
train --epochs 2 --out-dir "$at" >/dev/null || exit
python3 tests/train/data.py "$work/fewer" 24 20
last=$at/tiny_last.safetensors
cp -r "$at" "$work/good"
restore() { rm -rf "$at"; cp -r "$work/good" "$at"; }
ok "another batch" fails 2 "was made with --batch 8, not 4" \
  run $data --resume --out-dir "$at" --batch 4
ok "other data" fails 2 "was made with 84 training pictures, --data has 24: give it the same" \
  run --data "$work/fewer" --resume --out-dir "$at"
python3 tests/train/data.py "$work/turned" 84 20 4
python3 - "$work/turned/train_images.npy" <<'END'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[-64:] = bytes(255 - v for v in data[-64:])  # the last picture
open(sys.argv[1], "wb").write(data)
END
ok "other pictures, as many" fails 0 \
  "$last was made with other pictures or labels than --data has; continuing with these" \
  run --data "$work/turned" --resume --out-dir "$at" --epochs 3
restore
ok "another seed" fails 2 "was made with --seed 0, not 5" \
  run $data --resume --out-dir "$at" --seed 5
long && ok "another precision than the checkpoint's" fails 2 "was made in fp32, this run is in bf16" \
  run $data --resume --out-dir "$at" --amp bf16
ok "another width" fails 5 "the model (tests/train/tiny.lua:9) needs 6x1x3x3" \
  run $data --resume --out-dir "$at" --set width=6
other() {
  sed 's/0.1)/0.2)/' tests/train/tiny.lua >"$work/other.lua"
  cp "$last" "$at/other_last.safetensors"
  fails 5 "is of the model tiny, not other" build/nngen train "$work/other.lua" $data --quiet \
    --resume --out-dir "$at"
}
ok "a checkpoint of another model" other
settings() { # the states are the same ones: it goes on, and says what differs
  restore; run $data --epochs 2 --resume --out-dir "$at" >"$work/out1" 2>"$work/said" &&
    ! grep . "$work/said" &&
    run $data --epochs 2 --resume --out-dir "$at" --set flip=false --lr 0.1 2>"$work/said" || return
  grep -Fx "nngen: warning: --resume: $last was made with flip=true, not false; lr=0.05, not 0.1" \
    "$work/said" || { cat "$work/said"; return 1; }
}
ok "other settings of the model than the checkpoint's" settings
plain() { restore; cp "$at/tiny_final_weights.safetensors" "$last"; rm -f "$last.previous"
  fails 5 "no checksums" run $data --resume --out-dir "$at"; }
ok "weights that are no checkpoint" plain
# damaged COMMAND...: does it to the last checkpoint; the run goes on from the one before, and says
# so.
damaged() {
  restore; "$@" || return
  run $data --epochs 2 --resume --out-dir "$at" 2>"$work/said" >"$work/out1" ||
    { cat "$work/said"; return 1; }
  grep -q "warning: .*continuing from '.*previous'" "$work/said" || { cat "$work/said"; return 1; }
  same_run "$work/good" "$at"
}
flip() {
  printf '\x55' | dd of="$last" bs=1 seek=$(($(stat -c %s "$last") - 50)) conv=notrunc status=none
}
ok "cut short: the one before" damaged truncate -s -100 "$last"
ok "flipped: the one before" damaged flip
ok "missing: the one before" damaged rm "$last"
gone() {
  restore; truncate -s -9 "$last"; truncate -s -9 "$last.previous"; cp -r "$at" "$work/both"
  local best=$at/tiny_best.safetensors
  fails 5 "; '$best' of step " run $data --resume --out-dir "$at" &&
    grep -qF " is intact: copy it to '$last' to resume" "$work/fails" &&
    diff -r -x .lock "$work/both" "$at" && cp "$best" "$last" && # and so it is
    run $data --epochs 2 --resume --out-dir "$at" && same_run "$work/good" "$at" || return
  restore; truncate -s -9 "$last"; truncate -s -9 "$last.previous" "$best" "$best.previous"
  fails 5 "tiny_last.safetensors" run $data --resume --out-dir "$at" && ! grep intact "$work/fails"
}
ok "both damaged: an error, and nothing is touched" gone

# ---- a picture that cannot be read --------------------------------------------------------------
# pictures FOLDER [NAME...]: PNG files of 4 classes, 32 to train with and 16 for the test, 8 pixels
# high and wide; these, as test/c/2, one pixel higher
pictures() {
  python3 - "$@" <<'END'
import os, random, struct, sys, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
random.seed(1)
for split, count in ("train", 8), ("test", 4):
    for name in "abcd":
        folder = f"{sys.argv[1]}/{split}/{name}"
        os.makedirs(folder)
        for i in range(count):
            high = 9 if f"{split}/{name}/{i}" in sys.argv[2:] else 8
            rows = b"".join(b"\0" + random.randbytes(8) for _ in range(high))
            with open(f"{folder}/{i}.png", "wb") as file:
                file.write(b"\x89PNG\r\n\x1a\n"
                           + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, high, 8, 0, 0, 0, 0))
                           + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END
}
png="--data $work/png --epochs 3"
begins() { # before the first step
  pictures "$work/png" && cp -r "$work/png" "$work/whole" || return
  truncate -s -20 "$work/png/test/c/2.png"
  fails 5 "image '$work/png/test/c/2.png': broken PNG: the file is truncated" \
    run $png --out-dir "$work/pictures" && [ ! -e "$work/pictures" ]
}
ok "a picture that is cut short" begins
scaled() { # pictures of another size than the model's
  pictures "$work/scaled" test/c/2 test/d/0 &&
    run --data "$work/scaled" --steps 1 --out-dir "$work/w" >"$work/said" &&
    grep "^scaled" "$work/said" | diff - \
      <(echo "scaled    2 of 16 test pictures, of 8 x 9 pixels (width, height), to 8 x 8")
}
ok "pictures that are scaled" scaled
ignored() { # what is no PNG by its name, or lies beside the classes
  touch "$work/scaled/train/c/"{0.jpg,1.jpg} "$work/scaled/train/z.png" && run --data "$work/scaled" --steps 1 \
    --out-dir "$work/w" >"$work/said" && grep "^ignored" "$work/said" | diff - \
    <(echo "ignored   3 training files that are not PNGs of a class, the first '$work/scaled/train/c/0.jpg'")
}
ok "files beside pictures" ignored
flipped() { # a byte of its pixels, before the first step
  rm -rf "$work/png"; cp -r "$work/whole" "$work/png"
  printf '\xff' | dd of="$work/png/train/b/3.png" bs=1 seek=55 conv=notrunc status=none
  fails 5 "/b/3.png': broken PNG: the bytes of a chunk do not match its checksum" \
    run $png --out-dir "$work/pictures" && [ ! -e "$work/pictures" ]
}
ok "a picture with a byte that is wrong" flipped
# spoilt FILE STEP: its checksums are right, its pixels are not; the run ends with a checkpoint, and
# goes on from there
spoilt() {
  rm -rf "$work/png" "$work/pictures"; cp -r "$work/whole" "$work/png"
  python3 - "$work/png/$1" <<'END' || return
import struct, sys, zlib
png = bytearray(open(sys.argv[1], "rb").read())
length, = struct.unpack(">I", png[33:37])
png[55:58] = b"\xff\xff\xff"
png[41 + length:45 + length] = struct.pack(">I", zlib.crc32(png[37:41 + length]))
open(sys.argv[1], "wb").write(png)
END
  fails 5 "$1': broken PNG: " run $png --out-dir "$work/pictures" &&
    grep -q "; stopped after step $2 of 12; --resume continues" "$work/fails" || return
  cp "$work/whole/$1" "$work/png/$1"
  run $png --resume --out-dir "$work/pictures" && run $png --out-dir "$work/unspoilt" &&
    same_run "$work/unspoilt" "$work/pictures"
}
ok "a picture of the test that is damaged" spoilt test/b/1.png 4
ok "a picture for training that is damaged" spoilt train/a/3.png 3

# ---- a full disk, stood in for by a limit of a file's size ---------------------------------------
full() (
  wide="--set width=384"; full=$work/full
  train $wide --epochs 1 --out-dir "$full" || return
  last=$full/tiny_last.safetensors; cp "$last" "$work/kept"
  ulimit -f 160 # KiB: less than a checkpoint, more than a kernel
  run $data $wide --epochs 2 --resume --out-dir "$full" 2>"$work/said" >"$work/out1"
  code=$?
  [ $code = 0 ] && grep -q \
    "warning: the checkpoint is not written: .*File too large; training continues, the previous one is kept" \
    "$work/said" &&
    grep -q '^epoch 2' "$work/out1" && cmp "$work/kept" "$last" && ! ls "$full" | grep tmp &&
    grep -q "^wrote  *$full/tiny_final_weights.safetensors, log" "$work/out1" ||
    { echo "exit $code"; cat "$work/said" "$work/out1"; ls -la "$full"; return 1; }
)
long && ok "a full disk: training goes on, the checkpoint before stays" full
fuller() ( # no room for final weights either
  full=$work/full; cp -r "$full" "$work/before"; rm "$full/tiny_final_weights.safetensors"
  ulimit -f 100
  text="tiny_final_weights.safetensors': File too large; saved by this run:"
  fails 5 "$text $full/tiny_last.safetensors of step 10, $full/tiny_best.safetensors" \
    run $data --set width=384 --epochs 2 --resume --out-dir "$full" &&
    diff "$work/before/tiny_last.safetensors" "$full/tiny_last.safetensors" &&
    fails 5 "$text no weights" run $data --set width=384 --steps 3 --out-dir "$work/full2" &&
    ! find "$full" "$work/full2" -name '*.tmp*' | grep . && ! ls "$work/full2" | grep tensors
)
long && ok "a full disk to the end: it is said what there is" fuller
# The best evaluation, after epoch 1, finds something in the way; two epochs later that is gone.
late() {
  local at=$work/late; mkdir -p "$at/tiny_best.safetensors.tmp"
  train --epochs 40 --out-dir "$work/forty" >/dev/null || return
  begin "$at" --epochs 40
  logged "$at" 32 && [ ! -e "$at/tiny_best.safetensors" ] &&
    rmdir "$at/tiny_best.safetensors.tmp" || return
  wait $run && same_run "$work/forty" "$at" &&
    [ "$(grep -c "the best checkpoint is not written: .*; training continues" "$at.err")" = 1 ]
}
long && ok "a best that could not be written is written later" late

# ---- two processes ------------------------------------------------------------------------------
two() {
  begin "$work/two" --epochs 300
  logged "$work/two" 3 || return
  fails 2 "another nngen train (process $run) writes to $work/two" run $data --out-dir "$work/two"
  local code=$?
  kill -9 $run; wait $run 2>/dev/null
  [ $code = 0 ] && train --epochs 1 --out-dir "$work/two"
}
ok "two processes on one folder" two
replaces() {
  local text="this run replaces $work/two/tiny_last.safetensors of an earlier one"
  train --epochs 1 --out-dir "$work/two" 2>"$work/err" && grep -qF "$text" "$work/err"
}
ok "a run that replaces an earlier one's checkpoint says so" replaces

# ---- --init -------------------------------------------------------------------------------------
init=$work/good/tiny_final_weights.safetensors
ok "a head of another size" \
  fails 5 "tensor 'fc.weight' is 4x64, the model (tests/train/tiny.lua:15) needs 3x64; --reset fc begins" \
  run --data "$work/three" --init "$init" --set classes=3 --out-dir "$work/init"
ok "a --warmup that is longer than the run" fails 0 \
  "warning: --warmup 5: this run makes 4 updates, and ends while the learning rate rises" \
  run $data --steps 9 --accumulate 2 --warmup 5 --out-dir "$work/init"
ok "a pattern of --reset that matches nothing" fails 2 "--reset 'head' matches no parameter" \
  run $data --init "$init" --reset head
ok "--reset without weights" fails 2 "--reset needs --init FILE" run $data --reset fc
ok "--resume and --init" fails 2 "omit --init" run $data --resume --init "$init"
lacks() { # a weight that the file has under another name does not start from the seed unnoticed
  sed 's/"fc.weight"/"no.weight"/' "$init" >"$work/lacks.safetensors"
  local text="no tensor 'fc.weight' (4x64, tests/train/tiny.lua:15)"
  fails 5 "$text" run $data --init "$work/lacks.safetensors" --out-dir "$at" &&
    ! grep "this run replaces" "$work/fails" &&
    fails 5 "$text" build/nngen tests/train/tiny.lua --quiet --entry train \
      --weights "$work/lacks.safetensors"
}
ok "weights that lack one" lacks
integers() {
  sed 's/"fc.weight":{"dtype":"F32"/"fc.weight":{"dtype":"I32"/' "$init" >"$work/whole.safetensors"
  fails 5 "tensor 'fc.weight' is I32, the model (tests/train/tiny.lua:15) needs floats" \
    run $data --init "$work/whole.safetensors" --out-dir "$work/init"
}
ok "weights that are integers" integers
more() { # a tensor of the file that the run has no use for
  sed 's/"bn1.bias"/"no1.bias"/; s/"bn1.weight"/"no1.weight"/' "$init" >"$work/more.safetensors"
  local line="^weights   of $work/more.safetensors, not used: no1.bias, no1.weight\$"
  build/nngen train tests/train/tiny.lua $data --steps 1 --init "$work/more.safetensors" --reset bn1 \
    --out-dir "$work/init" | tee "$work/said" | grep "$line" || { cat "$work/said"; return 1; }
}
ok "weights that have more" more
head() { # the rest of the weights starts from the file, the head from the seed
  python3 tests/train/data.py "$work/five" 84 20 5
  build/nngen train tests/train/tiny.lua --quiet --data "$work/five" --set classes=5 \
    --init "$init" --reset fc --freeze 'conv1*' --steps 3 --out-dir "$work/head" &&
    python3 tests/train/tensors.py same "$init" \
      "$work/head/tiny_final_weights.safetensors" conv1.weight
}
long && ok "a head of another size, from the seed" head
anew() { # weights alone start optimizer and steps anew; so do those of a checkpoint
  train --steps 5 --init "$init" --out-dir "$work/a" &&
    train --steps 5 --init "$last" --out-dir "$work/b" &&
    cmp "$work/a/tiny_last.safetensors" "$work/b/tiny_last.safetensors"
}
restore
ok "weights without the optimizer's states" anew
tap_done
