#!/usr/bin/env bash
# A run that is stopped, by a signal or killed at any moment, and goes on with --resume ends as one
# that was never stopped: checkpoints, weights and log to the bit. So do runs with any number of
# loader threads.
. "$(dirname "$0")/train.sh"
export NNGEN_SIM_OPTIMIZE=${NNGEN_SIM_OPTIMIZE:+g} # thousands of steps run longer than they compile
epochs=$(long && echo 40 || echo 24)
options="--epochs $epochs --seed 3 --set width=8"

whole() {
  train $options --out-dir "$work/whole" &&
    [ "$(steps_of "$work/whole" | wc -l)" = $((epochs * 11)) ]
}
ok "a run of $epochs epochs of 10 steps" whole
again() {
  train $options --out-dir "$work/again" --workers 1 && same_run "$work/whole" "$work/again"
}
ok "the same bits again, with one thread" again
threads() {
  train $options --out-dir "$work/threads" --workers 7 && same_run "$work/whole" "$work/threads"
}
long && ok "the same bits with seven threads" threads
other() {
  train $options --seed 4 --out-dir "$work/other" &&
    ! cmp -s "$work/whole/tiny_last.safetensors" "$work/other/tiny_last.safetensors"
}
long && ok "other bits of another seed" other

# stopped SIGNAL LINES...: stopped after these lines of the log, one after the other
stopped() {
  local signal=$1 at=$work/$1 got resume= line; shift
  rm -rf "$at"
  for line in "$@"; do
    begin "$at" $options $resume
    logged "$at" $line || [ $resume ] ||
      { cat "$at.err"; echo "ended before line $line"; return 1; }
    kill -$signal $run 2>/dev/null
    wait $run; got=$?
    [ $got = 0 ] && [ $resume ] && break # on a busy machine it may end before the signal comes
    [ $got = 130 ] || { cat "$at.err"; echo "exit $got, want 130"; return 1; }
    grep -q "stopped after step [0-9]* of ${epochs}0; --resume continues" "$at.err" ||
      { cat "$at.err"; return 1; }
    resume=--resume
  done
  train $options --out-dir "$at" --resume && same_run "$work/whole" "$at"
}
ok "SIGTERM in the middle, then on" stopped TERM 57 $((epochs * 5)) $((epochs * 8))
long && ok "SIGINT in the middle, then on" stopped INT 9 40 $((epochs * 5))
long && ok "SIGHUP, of a terminal that is closed, then on" stopped HUP 9 40 $((epochs * 5))

ends() { # ends SIGNAL WORDS: the run that has begun ends by it, with these words
  kill -$1 $run; wait $run; local got=$?
  [ $got = 130 ] && grep -q "$2" "$work/ends.err" ||
    { cat "$work/ends.err"; echo "exit $got"; return 1; }
}
early() { # while kernels compile
  NNGEN_CACHE_DIR=$work/cold begin "$work/ends" $options
  until [ -d "$work/cold" ]; do kill -0 $run || return; sleep 0.01; done
  ends TERM 'stopped before the first step'
}
ok "SIGTERM before the first step" early
profiled() { # among the steps before the one that is marked
  begin "$work/ends" --profile-one-step --warmup-iters 1000000
  until [ -s "$work/ends.out" ]; do kill -0 $run || return; sleep 0.01; done
  ends INT 'stopped before the step that is profiled'
}
ok "SIGINT while a step to be profiled is waited for" profiled

mixed() { # what else a run keeps: the loss's scale, averages, gradients that are not used yet
  local with="--epochs 12 --seed 5 --amp fp16 --ema 0.9 --accumulate 3 --clip-norm 1 --save-every 5 \
    --optimizer adamw"
  train $with --out-dir "$work/m1" || return
  begin "$work/m2" $with
  logged "$work/m2" 40 && kill -TERM $run
  wait $run
  train $with --out-dir "$work/m2" --resume && same_run "$work/m1" "$work/m2"
}
long && ok "fp16, averages, accumulated gradients" mixed

by_hand() { # by_hand FOLDER STEPS OPTIONS...: entries that the model writes itself
  build/nngen train tests/train/by_hand.lua --data "$from" --quiet --out-dir "$work/$1" \
    --steps "$2" "${@:3}"
}
counted() { # their steps are counted, too
  by_hand hand1 17 2>"$work/warned" && by_hand hand2 7 && by_hand hand2 17 --resume >"$work/said" &&
    grep -q "resumed   after step 7" "$work/said" &&
    cmp "$work"/hand[12]/by_hand_final_weights.safetensors &&
    diff <(steps_of "$work/hand1" | grep -v eval) <(steps_of "$work/hand2" | grep -v eval)
}
ok "entries written by hand" counted
overflows() { # a step that f16 cannot hold leaves nothing behind, running statistics included
  by_hand hand3 10 --amp fp16 --set spike=true || return
  [ "$(grep -nE '"loss":null' "$work/hand3/log.jsonl" | cut -d: -f1)" = 4 ]
}
long && ok "and a step of these that overflows" overflows
ok "padding that counts in an evaluation written by hand is said" grep -q \
  "warning: eval numbers: the last batch has 4 of 8 examples, .*; give a --batch that divides 20" \
  "$work/warned"

refused() { # refused TEXT OPTIONS... -- OTHERS...: a run with others does not go on with its states
  local text=$1 made=; shift
  while [ "$1" != -- ]; do made="$made $1"; shift; done; shift
  rm -rf "$work/states"
  train --epochs 1 $made --out-dir "$work/states" || return
  fails 2 "$text" train --epochs 2 "$@" --out-dir "$work/states" --resume
}
ok "another optimizer" refused "has no 'sgd.momentum.conv1.weight'; resume with that run's --optimizer" \
  --optimizer adam -- --optimizer sgd
ok "averages that are begun" refused "has no 'ema." -- --ema 0.9

# killed TIMES: so often, at random moments, each time going on (or beginning anew, before there is a
# checkpoint). A run that ends in between is compared, and another begins.
killed() {
  local resume tries kills=0 runs=0 ms got at=$work/killed
  while [ $kills -lt $1 ]; do
    rm -rf "$at"
    for ((tries = 0;; tries++)); do # later each time: a busy machine takes long to begin
      resume=
      [ -e "$at/tiny_last.safetensors" ] || [ -e "$at/tiny_last.safetensors.previous" ] &&
        resume=--resume
      begin "$at" $options $resume
      ms=$((RANDOM % 900 + 60 * tries))
      sleep $((ms / 1000)).$(printf %03d $((ms % 1000)))
      kill -9 $run 2>/dev/null
      wait $run; got=$?
      [ $got = 0 ] && break
      [ $got = 137 ] || { cat "$at.err"; echo "exit $got, kill $tries"; return 1; }
      kills=$((kills + 1))
    done 2>/dev/null
    [ -e "$at/tiny_final_weights.safetensors" ] || { cat "$at.err"; return 1; }
    same_run "$work/whole" "$at" || return
    runs=$((runs + 1))
  done
  figure killed $kills $runs
  echo "$kills kills"
}
RANDOM=${NNGEN_SEED:-7}
kills=${NNGEN_TEST_KILLS:-1}
long && kills=${NNGEN_TEST_KILLS:-20}
ok "killed at $kills random moments, then on" killed $kills

# What a checkpoint in the middle of an epoch holds goes on, the means of the epoch too.
middle() {
  local from=$work/more
  python3 tests/train/data.py "$from" 1600 8 # 200 steps in an epoch
  train --epochs 1 --out-dir "$work/mean" |
    sed -n '/^epoch/s/ [0-9:]*$//p' >"$work/want"
  begin "$work/part" --epochs 1
  logged "$work/part" 3 && kill -TERM $run
  wait $run
  train --epochs 1 --out-dir "$work/part" --resume |
    sed -n '/^epoch/s/ [0-9:]*$//p' >"$work/got" &&
    [ -s "$work/want" ] && diff "$work/want" "$work/got"
}
long && ok "means of an epoch that was cut in two" middle
printed() { # what a line says of an epoch, and of the files that are there
  local at=$work/printed rate
  train --epochs 1 --tensorboard --out-dir "$at" >"$work/said" || return
  rate=$(sed -n 's/.*"step":10,.*"lr":\([^,]*\),.*/\1/p' "$at/log.jsonl")
  grep -q "^epoch 1 .* lr $(printf %.4g "$rate") " "$work/said" &&
    grep -q "^wrote  *$at/tiny_{last,best,final_weights}.safetensors, log.jsonl, events" \
      "$work/said"
}
ok "the last rate of an epoch, the files of a run" printed
finished() { # there is nothing left to do, and nothing changes
  cp -r "$work/whole" "$work/finished" &&
    build/nngen train tests/train/tiny.lua --data "$work/data" $options \
      --out-dir "$work/finished" --resume &&
    same_run "$work/whole" "$work/finished" &&
    build/nngen train tests/train/tiny.lua --data "$work/data" $options --out-dir "$work/finished" \
      --resume --json --quiet | grep -q "\"steps\": ${epochs}0"
}
ok "a finished run goes on: nothing to train" finished
further() { # a longer run of a finished one
  train --steps 20 --out-dir "$work/further" --set schedule0=constant &&
    train --steps 40 --out-dir "$work/further" --set schedule0=constant --resume &&
    train --steps 40 --out-dir "$work/straight" --set schedule0=constant &&
    cmp "$work/straight/tiny_last.safetensors" "$work/further/tiny_last.safetensors" &&
    diff <(steps_of "$work/straight") <(steps_of "$work/further")
}
ok "more steps after the last one" further
unknown_best() { # what an evaluation without a number was once kept as the best is none
  train --epochs 1 --out-dir "$work/nan" &&
    build/tests/train/renote "$work/nan/tiny_last.safetensors" nngen_best nan &&
    rm "$work/nan/tiny_best.safetensors" &&
    train --epochs 2 --out-dir "$work/nan" --resume && [ -e "$work/nan/tiny_best.safetensors" ]
}
ok "a checkpoint whose best is NaN" unknown_best
tap_done
