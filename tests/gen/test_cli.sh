#!/usr/bin/env bash
# The command line as a user meets it.
. "$(dirname "$0")/../tap.sh"
show() { build/nngen show models/lenet.lua "$@"; }
reads_back() { # the IR printed after a stage is a model itself
  local stage
  for stage in shape simp prec layout; do
    show --stage $stage >"$work/lenet.ir" && build/nngen run "$work/lenet.ir" --quiet >"$work/o" &&
      grep -q 'probabilities.*ok$' "$work/o" || { echo "after $stage"; return 1; }
  done
}
rows_read_back() { # and with ops that the model declares, which its file is run for
  local ir=$work/rows.ir
  build/nngen show tests/models/user_row.lua --stage prec >"$ir" &&
    build/nngen run "$ir" --quiet >"$work/o" && grep -q '^output *y .*ok$' "$work/o" &&
    build/nngen show "$ir" --stage prec | diff "$ir" - &&
    sed -i 's/^rows ".*"/rows "gone.lua"/' "$ir" &&
    fails 5 "its ops are of gone.lua, which cannot be read" build/nngen show "$ir"
}
json_holds() { # json_holds KEY...: the keys are there, and the text is JSON
  build/nngen models/mlp.lua --quiet --json >"$work/j" &&
    for key; do grep -q "\"$key\":" "$work/j" || return 1; done &&
    { ! command -v python3 >/dev/null || python3 -m json.tool <"$work/j" >/dev/null; }
}
moved() { # the binary and libcusim.so, copied elsewhere, run without the tree
  mkdir -p "$work/away" && cp build/nngen build/libcusim.so models/mlp.lua "$work/away/" &&
    (cd "$work/away" && unset NNGEN_DIR && ./nngen mlp.lua --quiet --no-cache)
}
static_binary() {
  ! ldd build/nngen | grep -vE 'linux-vdso|libc\.so|libm\.so|libdl\.so|libpthread\.so|ld-linux'
}
labels() {
  seq 1 10 | sed 's/^/digit /' >"$work/names" &&
    build/nngen models/lenet.lua --quiet --labels "$work/names" >"$work/o" &&
    [ "$(grep -c '% *digit ' "$work/o")" = 5 ] &&
    build/nngen models/lenet.lua --quiet --json --labels "$work/names" >"$work/j" &&
    [ "$(grep -c '"label": "digit ' "$work/j")" = 5 ]
}
ops_of_entry() { # counted are those of the entry that runs
  cat >"$work/two.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {4})
nn.output("y", x:exp())
nn.entry("other", function() nn.output("z", x:exp() + x) end)
LUA
  build/nngen "$work/two.lua" --quiet | grep -q ' 1 ops -> 1 kernels' &&
    build/nngen "$work/two.lua" --entry other --quiet | grep -q ' 2 ops -> 1 kernels'
}
input_of_entry() { # a file without a name is for the one input that the entry reads
  local run="build/nngen tests/errors/two_entries.lua --entry other --quiet"
  mkdir -p "$work/"{a,b} && $run --seed 3 --output "$work/a" >/dev/null &&
    $run --seed 4 --input "$work/a/copy.npy" --output "$work/b" >/dev/null &&
    cmp "$work"/{a,b}/copy.npy &&
    build/nngen tests/errors/two_entries.lua --entry step --quiet --input both="$work/a/copy.npy" |
    grep -q '^input .*noise'
}
not_finite() { # NaN and infinity are no JSON: null
  echo 'local nn = require "nn"; nn.output("y", nn.input("x", {10}) / 0)' >"$work/inf.lua"
  seq 1 10 >"$work/names"
  build/nngen "$work/inf.lua" --quiet --json --labels "$work/names" >"$work/j" &&
    [ "$(grep -c '"probability": null' "$work/j")" = 5 ]
}
piped() { # results on stdout, nothing but warnings on stderr, no progress bar in a pipe
  build/nngen models/mlp.lua >"$work/o" 2>"$work/e" && [ ! -s "$work/e" ] && [ -s "$work/o" ]
}
output_reads() { # an output written as npy is an input again
  build/nngen models/mlp.lua --quiet --set inputs=10 --output "$work/n" &&
    build/nngen models/mlp.lua --quiet --set inputs=10 --input "$work/n/logits.npy" &&
    mv "$work/n" "$work/a=b" && # a path, not a name
    build/nngen models/mlp.lua --quiet --set inputs=10 --input "$work/a=b/logits.npy"
}
if [ $NNGEN_DEVICE = sim ]; then
  ok "tune refuses without a GPU" fails 3 "tune needs a GPU, and here is only libcusim" \
    build/nngen tune models/mlp.lua
fi
ok "--tuning names a file that is not there" \
  fails 5 "nngen tune MODEL --tuning $work/none.json creates it" build/nngen models/mlp.lua \
  --tuning "$work/none.json"
echo '{"schema_version": 1, "devices": {"X": {"p": {"tiel": 1}}}}' >"$work/bad.json"
ok "--tuning with a mistake in it" fails 5 'bad.json:1: unknown key "tiel"; did you mean "tile"?' \
  build/nngen models/mlp.lua --tuning "$work/bad.json"
ok "--help" build/nngen --help
ok "run --help" build/nngen run --help
ok "the IR of a stage reads back" reads_back
ok "and with ops of the model's own" rows_read_back
ok "show --dot is for graphviz" \
  bash -c 'build/nngen show models/lenet.lua --dot | grep -q "^digraph lenet {"'
ok "show --plan is JSON" bash -c 'build/nngen show models/mlp.lua --plan | grep -q "\"kernels\""'
ok "--json" json_holds schema_version kernels unfused arena_bound outputs error
ok "--explain shows the candidates" \
  bash -c 'build/nngen models/mlp.lua --dtype fp16 --explain fc1 | grep -q "candidates"'
chosen_as_expected() { # of a kernel whose parts of k meet in memory: each as it was compared
  build/nngen models/resnet18.lua --entry train --dtype bf16 --arch sm_90a \
    --explain layer1.1.conv1_grad.conv2d_filter |
    awk '/^  expected: /{expected = $2} $1 == "*"{chosen = $NF} / \*  /{found = 1}
         END{exit !(found && expected == chosen)}'
}
ok "--explain gives the chosen candidate the time that is expected" chosen_as_expected
explained() { # explained WORD KERNEL...: these are explained, and no others
  local word=$1; shift
  build/nngen models/resnet18.lua --explain "$word" | grep '^resnet18__' |
    diff - <(printf 'resnet18__%s\n' "$@")
}
ok "--explain takes a layer" explained layer1.0.conv1 layer1_0_conv1_bn1_relu
ok "--explain takes a layer that was fused" explained layer1.0.bn2 layer1_0_conv2_bn2_add_relu
ok "--explain takes a symbol" explained layer1_0_conv1_bn1_relu layer1_0_conv1_bn1_relu
ok "--explain takes a whole name before a part of one" explained conv1 conv1_bn1_relu
ok "--explain shows all that match" explained layer2_0_conv layer2_0_conv1_bn1_relu \
  layer2_0_conv2_bn2
one_kernel() {
  [ "$(build/nngen show models/resnet18.lua --kernel "$1" | grep -c __global__)" = 1 ]
}
ok "--kernel takes a layer" one_kernel layer2.1.conv1
ok "--set name=value and dtype" \
  bash -c 'build/nngen models/mlp.lua --quiet --set batch=2 dtype=bf16 | grep -q "mlp, bf16"'
ok "--labels prints the five best, as JSON too" labels
ok "--json: what is not finite is null" not_finite
ok "the binary moves to another place" moved
ok "the binary is static but for libc" static_binary
ok "results to stdout, progress to a terminal only" piped
ok "--output and --input are the same format" output_reads
ok "--dump writes sources and the plan" bash -c \
  "build/nngen models/mlp.lua --quiet --dump $work/d && ls $work/d/*.cu $work/d/mlp.plan.json"
ok "doctor" build/nngen doctor
is_json() { # is_json KEY COMMAND...: prints JSON that has the key
  local key=$1; shift
  "$@" >"$work/j" && grep -q "\"$key\":" "$work/j" &&
    { ! command -v python3 >/dev/null || python3 -m json.tool <"$work/j" >/dev/null; }
}
cached() { is_json "$1" build/nngen cache "$2" --json --cache-dir "$work/cache"; }
build/nngen models/mlp.lua --quiet --cache-dir "$work/cache" >/dev/null
ok "cache ls --json" cached kernel ls
ok "cache verify --json" cached valid verify
ok "cache clear --json" cached removed clear
ok "show --costs --json" is_json modelled_us build/nngen show models/mlp.lua --costs --json
terms() { # of every kernel: the largest bound and what comes on top are less, all terms more
  build/nngen show "$@" --costs --json | tr -d ' ,"' | awk -F: '
    $1 == "modelled_us" {modelled = $2}
    $1 == "terms_us" {on = 1; most = top = all = 0; next}
    on && $1 == "}" {on = 0; rows++
      if (most + top > modelled * 1.001 || modelled > all * 1.001) {print modelled, most, top; bad = 1}}
    !on {next} {all += $2} $1 ~ /^(fill|join|launch)$/ {top += $2; next} $2 > most {most = $2}
    END {exit bad || !rows}'
}
ok "terms of what maps, pools, rows and products take" terms models/lenet.lua
ok "terms of what attention takes" terms models/block.lua --dtype fp16
ok "ops of the entry alone are counted" ops_of_entry
ok "a file for the input that an entry reads" input_of_entry
ok "terms of what a step takes" terms models/autoencoder.lua --dtype bf16 --entry train
ok "show --plan --json" is_json kernels build/nngen show models/mlp.lua --plan --json
cat >"$work/long.lua" <<'LUA'
local nn = require "nn"
nn.scope("a_scope_with_a_name_that_is_long_and_longer", function()
  nn.output("y", nn.input("x", {4, 64}):linear("a_layer_with_a_long_name_too", {out = 64}):relu())
end)
LUA
columns() { # every row ends under its header's last column, and a name that is cut has a mark
  awk -v from="$1" '$1 == "kernel" {width = index($0, from); next} width && NF && $0 !~ /^ *sum/ {
    if (substr($0, width - 1, 1) != " ") {print; bad = 1}; rows++}
    /^$/ {if (rows) exit} END {exit bad || !rows}' "$work/table"
}
run_table() {
  build/nngen "$@" --quiet --no-check >"$work/table" && columns "tile" && columns "grid x block" &&
    columns " regs"
}
costs_table() {
  build/nngen show "$@" --costs >"$work/table" && columns "tile" && columns " modelled"
}
ok "columns of the run table" run_table models/lenet.lua --dtype fp16
ok "columns of --costs" costs_table models/resnet18.lua --dtype fp16
ok "columns with long names" run_table "$work/long.lua"
ok "a name that is cut has a mark" grep -q '^a_scope_with[^ ]*\.\. ' "$work/table"
ok "columns of --costs with long names" costs_table "$work/long.lua"
ok "a name that --costs cuts has a mark" grep -q '^a_scope_with[^ ]*\.\. ' "$work/table"
ok "cache ls, verify" bash -c 'build/nngen cache ls && build/nngen cache verify'
# The least of three tries: seconds of user time until 4000 layers are fused. A second is what they
# are to take (`make bench` shows it); on processors shared with others the same takes half more.
seconds_of() { # seconds_of BLOCKS: the least of three
  local TIMEFORMAT=%U i
  for i in 1 2 3; do
    { time build/nngen show tests/bench/deep.lua --set blocks=$1 --stage fuse >"$work/deep"; } \
      2>>"$work/seconds$1" || return
  done
  sort -n "$work/seconds$1" | head -1
}
quick() { # in 1.5 s; on a slow or busy machine in twice that, and linear in the layers
  seconds_of 250 >"$work/few" && seconds_of 1000 >"$work/many" &&
    grep -q '^# deep__block1000_conv2' "$work/deep" || return
  paste "$work/few" "$work/many" | awk '{print $1 " s, " $2 " s of four times the layers"
    exit !($2 > 0 && ($2 < 1.5 || ($2 < 3 && $2 < 6 * $1)))}'
}
ok "4000 layers are fused in about a second" quick
ok "at most 23 kernels in resnet18" \
  bash -c '[ $(build/nngen show models/resnet18.lua | grep -c "^# kernel.*infer") -le 23 ]'
# Weights whose names have a prefix in front: it is named, as the setting if the model has it.
cat >"$work/prefixed.lua" <<'E'
local nn = require "nn"
local own = nn.config{SETTING = ""}
nn.output("y", nn.scope(own.SETTING, function()
  return nn.input("x", {2, 3}):linear("fc", {out = 3})
end))
E
sed 's/SETTING/prefix/' "$work/prefixed.lua" >"$work/with.lua"
sed 's/SETTING/front/' "$work/prefixed.lua" >"$work/without.lua"
python3 - "$work/prefixed.safetensors" <<'E'
import json, struct, sys
header = {"a.b.fc.weight": {"dtype": "F32", "shape": [3, 3], "data_offsets": [0, 36]},
          "a.b.fc.bias": {"dtype": "F32", "shape": [3], "data_offsets": [36, 48]},
          "head": {"dtype": "F32", "shape": [1], "data_offsets": [48, 52]}}
text = json.dumps(header).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + bytes(52))
E
prefixed() { # prefixed MODEL SAID OPTIONS...: the end of the error
  local model=$1 said=$2
  shift 2
  build/nngen "$work/$model.lua" --quiet --weights "$work/prefixed.safetensors" "$@" 2>"$work/said"
  [ $? = 5 ] && grep -q "; did you mean 'a.b.fc.[a-z]*'? 2 of its 3 tensors begin with $said\$" \
    "$work/said" || { cat "$work/said"; return 1; }
}
ok "a prefix of weights" prefixed with "'a.b.': --set prefix=a.b"
ok "a prefix of weights, before another" prefixed with "'a.': --set prefix=a.b" --set prefix=b
ok "a prefix of weights, without the setting" prefixed without "'a.b.'"
ok "weights with their prefix" build/nngen "$work/with.lua" --quiet \
  --weights "$work/prefixed.safetensors" --set prefix=a.b
tap_done
