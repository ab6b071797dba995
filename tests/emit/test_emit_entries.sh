#!/usr/bin/env bash
# Emitted networks of several entries: the bits of nngen run.
. "$(dirname "$0")/../tap.sh"
. tests/emit/emit.sh
without_tools "entries of an emitted network"
run() { build/nngen "$@" $run_options --no-check --quiet; }

floats() { tail -c "$2" "$1"; } # of a weights file, its last bytes: real numbers

generation() (
  local dir=$work/gpt2
  emit models/gpt2.lua "$dir" --set layers=1 &&
    compile "cc $strict $sanitized" "$dir" gpt2 "$root/tests/emit/generate.c" || return
  for i in 5 17 40 3 96 0 11 23 31 2 77 60 8 19 54 42; do
    printf "\\x$(printf %02x $i)\\0\\0\\0"
  done >"$dir/input_ids.bin"
  npy "$dir/input_ids.bin" '<i4' '1, 16' >"$dir/input_ids.npy"
  run models/gpt2.lua --set layers=1 --entry prompt --input "$dir/input_ids.npy" \
    --save "$dir/s.safetensors" &&
    run models/gpt2.lua --set layers=1 --entry next --steps 5 --weights "$dir/s.safetensors" \
      --output "$dir" &&
    cd "$dir" && ./generate && same_elements next_logits.npy next_logits.bin
)
training() (
  local file=tests/emit/step.lua dir=$work/step
  emit $file "$dir" && compile "cc $strict $sanitized" "$dir" step "$root/tests/emit/train.c" ||
    return
  floats "$dir/step.safetensors" 1536 >"$dir/image.bin" &&
    npy "$dir/image.bin" '<f4' '2, 3, 8, 8' >"$dir/x.npy"
  run $file --entry train --steps 3 --input "$dir/x.npy" --output "$dir/trained" \
    --save "$dir/w.safetensors" &&
    run $file --weights "$dir/w.safetensors" --input "$dir/x.npy" --output "$dir" &&
    cd "$dir" && ./train && same_elements trained/loss.npy loss.bin && same_elements y.npy y.bin
)

batches() ( # three batches on one copy of the weights: each gives the bits of a network of its own
  local dir=$work/batches
  emit models/mlp.lua "$dir" --dtype fp16 --set batch=1,8,3 && cat >"$dir/batches.c" <<'C' || return
#include "mlp.h"
#include <stdio.h>
static float x[8 * 784], made[3][80];
int main(void) {
  mlp *net;
  FILE *in = fopen("all.bin", "rb"), *out = fopen("made.bin", "wb");
  if (!in || !out || fread(x, 3136, 8, in) != 8) return puts("no inputs");
  if (mlp_create(&net, NULL)) return puts("create");
  mlp_run_b1_host_inputs in1 = {x};
  mlp_run_b1_host_outputs out1 = {made[0]};
  mlp_run_b8_host_inputs in8 = {x};
  mlp_run_b8_host_outputs out8 = {made[1]};
  mlp_run_b3_host_inputs in3 = {x};
  mlp_run_b3_host_outputs out3 = {made[2]};
  if (mlp_run_b8_host(net, &in8, &out8, NULL) || mlp_run_b1_host(net, &in1, &out1, NULL) ||
      mlp_run_b3_host(net, &in3, &out3, NULL))
    return puts(mlp_message(net));
  mlp_destroy(net);
  fwrite(made[0], 40, 1, out), fwrite(made[1], 40, 8, out), fwrite(made[2], 40, 3, out);
  fclose(in);
  return fclose(out);
}
C
  compile "cc $strict $sanitized" "$dir" mlp batches.c &&
    floats "$dir/mlp.safetensors" 25088 >"$dir/all.bin" || return
  [ "$(grep -c 'launch(run, "fc1", net->kernels.fc1_init' "$dir/mlp.c")" = 1 ] || return # made once
  for n in 1 8 3; do
    head -c $((n * 3136)) "$dir/all.bin" >"$dir/in.bin" &&
      npy "$dir/in.bin" '<f4' "$n, 784" >"$dir/in.npy" &&
      run models/mlp.lua --dtype fp16 --set batch=$n --input "$dir/in.npy" --output "$dir" &&
      tail -c $((n * 40)) "$dir/logits.npy" >>"$dir/wanted.bin" || return
  done
  cd "$dir" && ./batches && cmp made.bin wanted.bin
)

long && ok "batches of 1, 8 and 3 in one program" batches
long && ok "GPT-2 writes text on its states" generation
ok "a network learns, and runs with what it has learned" training
clash() {
  emit tests/emit/names.lua "$work/names" --no-check --lang cpp &&
    echo '#include "names.hpp"' | c++ -std=c++20 -pedantic -Wall -Wextra -Werror -fsyntax-only \
      -I"$cuda/include" -I"$work/names" -x c++ - &&
    compile "cc $strict" "$work/names" names example.c &&
    compile "c++ -x c++ -Wall -Wextra -Werror" "$work/names" names example.c
}
ok "entries and states named like functions around them" clash
constant() (
  emit tests/emit/doubled.lua "$work/doubled" &&
    links="$links -lm" compile "cc $strict" "$work/doubled" doubled doubled_check.c &&
    cd "$work/doubled" && ./doubled_check
)
ok "an output that depends on parameters alone" constant
empty() (
  cat >"$work/empty.lua" <<'LUA'
local nn = require "nn"
local s = nn.state("s", {0, 4}, {init = 3})
nn.output("y", nn.input("x", {2, 4}) + s:sum())
nn.update(s, s + 1)
LUA
  emit "$work/empty.lua" "$work/empty" && links="$links -lm" &&
    compile "cc $strict $sanitized" "$work/empty" empty empty_check.c && cd "$work/empty" &&
    ./empty_check
)
ok "a state of no elements" empty
checks_all() ( # of a model with entries: NAME_check.c runs each, and finds which one is wrong
  emit "$1" "$work/$2_all" "${@:4}" &&
    links="$links -lm" compile "cc $strict $sanitized" "$work/$2_all" $2 $2_check.c &&
    cd "$work/$2_all" && ./$2_check >said && cat said &&
    [ "$(sed 's/:.*//' said | uniq | xargs)" = "$3" ] &&
    truncate -s -8 $2_check.bin && printf '\0\0\0\0\0\0\360\77' >>$2_check.bin && # the last one's
    ! ./$2_check >said && [ "$(grep -c fail said)" = 1 ] && tail -1 said | grep -q "^${3##* }: .*fail"
)
forgets() ( # a step of training whose updates are left out
  emit tests/emit/step.lua "$work/forgets" && links="$links -lm" &&
    compile "cc $strict $sanitized" "$work/forgets" step step_check.c &&
    cd "$work/forgets" && ./step_check && ./step_check | grep -q 'change of 4 states: pass' &&
    sed -i '/launch(run, "head_grad.matmul"/,/;$/d' step.c &&
    compile "cc -std=c11" . step step_check.c &&
    ./step_check >said; cat said; [ "$(grep -c fail said)" = 1 ] && grep -q 'states: fail' said
)
ok "stored results show updates that are missing" forgets
long && few 1/3 && ok "stored results of every batch" checks_all models/mlp.lua mlp \
  "run_b1 run_b3" --set batch=1,3
long && few 1/3 && ok "numbers of the model itself" checks_all tests/models/tables.lua tables \
  "masked rows"
long && few 1/3 && ok "stored results of every entry" checks_all models/gpt2.lua gpt2 \
  "run prompt next"
shares() {
  [ "$(grep -c '__global__' "$work/step/step.cu")" \
    -lt "$(grep -c '"layer"' "$work/step/step.json")" ]
}
ok "layers of one shape share a kernel" shares
compiles() {
  emit models/block.lua "$work/block" --entry train --set tokens=32 width=64 heads=4 --no-check &&
    compile "cc $strict" "$work/block" block example.c
}
units() { # one text of products and attention on tensor cores, and in fp32
  cat >"$work/units.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {1, 2, 64, 32})
local function heads(name)
  return nn.functional.scaled_dot_product_attention(x:linear(name, {out = 32}), x, x)
end
nn.output("fast", heads("fc1"))
nn.output("exact", nn.precision("fp32", heads, "fc2"))
LUA
  local gpu
  for gpu in sm_80 sm_90a; do
    build/nngen emit "$work/units.lua" -o "$work/units" --quiet --arch $gpu --dtype bf16 \
      --no-check &&
      build/nngen emit models/mlp.lua -o "$work/units_mlp" --quiet --arch $gpu --dtype bf16 \
        --entry train --no-check || return # twice into one folder
  done
  grep -q MmaUnit "$work/units/units.cu" && grep -q FmaUnit "$work/units/units.cu" &&
    grep -q WgmmaTile "$work/units_mlp/mlp.cu" && grep -q MmaTile "$work/units_mlp/mlp.cu"
}
long && ok "kernels of several units in one text" units
long && ok "a transformer block's step of training compiles" compiles
tap_done
