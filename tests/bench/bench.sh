#!/usr/bin/env bash
# bench.sh [--update]: the figures of README.md and tests/bench/README.md, as Markdown tables, each
# after a line <!-- part NAME -->; --update puts each where a file has its place (place.py).
# Nothing here gates anything. Needs no GPU: figures of generated kernels are planned or compiled,
# times are of the compiler and of the simulator on this machine.
set -u
cd "$(dirname "$0")/../.."
export NNGEN_DEVICE=sim NO_COLOR=1
command -v python3 >/dev/null ||
  { echo "make bench needs python3, for its arithmetic" >&2; exit 4; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
field() { python3 -c "import json,sys; d=json.load(sys.stdin)
for k in sys.argv[1].split('.'): d=d[int(k)] if k.isdigit() else d[k]
print(d)" "$1"; }
least() { # least COMMAND...: the least wall seconds of three times
  for _ in 1 2 3; do seconds "$@"; done | sort -g | head -1
}
seconds() { # wall seconds of a command
  local begin; begin=$(date +%s.%N); "$@" >/dev/null 2>&1
  python3 -c "import sys; print(f'{float(sys.argv[2])-float(sys.argv[1]):.2f}')" "$begin" \
    "$(date +%s.%N)"
}
api_symbols() {
  sed -nE 's/^(CUDA_API|NVRTC_API|NVRTC_TEXT)\((\w+), *(\w+).*/\2 \3/p' runtime/cuda_api.def
}
api_present() {
  api_symbols | cut -d' ' -f2 | sort >"$work/want"
  nm -D --defined-only build/libcusim.so | awk '{print $3}' | sort | comm -12 - "$work/want" | wc -l
}
api_tested() {
  local n=0 name
  while read -r name _; do
    grep -qrE "\b$name\(" tests/sim tests/prim && n=$((n + 1))
  done < <(api_symbols)
  echo $n
}
row() { printf '| %s | %s | %s |\n' "$1" "$2" "$3"; }
nvrtc=yes; build/nngen doctor | grep -q '^NVRTC *not found' && nvrtc=

# Process start to ready to launch: the weights are a file's, every kernel comes from the cache. The
# entry `init` is left out: on libcusim it runs on the CPU.
ready_times() {
  build/nngen show models/resnet18.lua --plan >"$work/plan.json"
  python3 - "$work" <<'END'
import json, struct, sys
work, header, at = sys.argv[1], {}, 0
for t in json.load(open(f"{work}/plan.json"))["tensors"]:
    if t["role"] != "param": continue
    count = 1
    for d in t["shape"]: count *= d
    header[t["name"]] = {"dtype": "F32", "shape": t["shape"], "data_offsets": [at, at + 4 * count]}
    at += 4 * count
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(f"{work}/w.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    block = struct.pack("<256f", *[0.01 * (i % 17 - 8.5) for i in range(256)]) * 1024
    for begin in range(0, at, len(block)): f.write(block[:min(len(block), at - begin)])
END
  local i best
  for i in 1 2 3 4 5 6; do
    build/nngen models/resnet18.lua --dtype fp16 --json --quiet --no-check \
      --weights "$work/w.safetensors" >"$work/ready$i.json"
  done
  best=$(python3 -c "
import json
runs = [json.load(open(f'$work/ready{i}.json'))['seconds'] for i in range(2, 7)]
s = min(runs, key=lambda s: s['ready'] - s['init'])
print(f\"{s['ready'] - s['init']:.3f} s (device {s['device']:.3f}, Lua to plan \"
      f\"{s['generate']:.3f}, kernels and memory {s['load']:.3f}, weights \"
      f\"{s['parameters'] - s['init']:.3f}; init on libcusim, not counted, {s['init']:.3f})\")")
  row "ResNet-18 fp16, process start to ready to launch, full cache, weights from a file, best of 5" \
    "$best" "at most 0.15 s"
}
# Small graphs, and the number of kernels that a careful engineer would write for each
# (tests/models/cases.lua).
fused_graphs() {
  local c text="" got want
  for c in $(sed -n 's/^function cases.\([a-z_]*\).*/\1/p' tests/models/cases.lua); do
    build/nngen show tests/models/cases.lua --arch sm_90a --set case=$c >"$work/f.txt" 2>&1
    got=$(grep '^# kernel' "$work/f.txt" | grep -vc ', init,')
    want=$(sed -n 's/^kernels wanted //p' "$work/f.txt")
    text+="${text:+, }$c $got ($want)"
  done
  row "kernels of small graphs, fused (at most): tests/models/cases.lua" "$text" "none over"
}
# The short run of the tests, of the commit at hand, from an empty clone: with building, and nothing
# kept from a run before.
all_tests() {
  git clone -q . "$work/clone" 2>/dev/null || return 0
  local begin=$EPOCHSECONDS
  env -u NNGEN_TEST -u NNGEN_TEST_LONG -u XDG_CACHE_HOME -u MAKEFLAGS -u MAKELEVEL \
    make -C "$work/clone" test >"$work/tests" 2>&1
  row "\`make test\`, empty clone: $(grep ' passed, ' "$work/tests" || echo ended early)" \
    "$((EPOCHSECONDS - begin)) s" "none failed; at most 480 s on two cores"
  rm -rf "$work/clone"
}
distinct_kernels() {
  local m
  for m in resnet18 resnet34; do
    build/nngen models/$m.lua --json --quiet --arch sm_90a --dtype fp16 >"$work/d.json"
    row "$m fp16: distinct kernels compiled, of all" "$(python3 -c "
import json
d = json.load(open('$work/d.json'))
n = d['compiled'] + d['cached']
print(n, 'of', n + d['shared'])")" "few more for ResNet-34 than for ResNet-18"
  done
}
# Registers of a block, as they are handed out: 8 a thread, 256 a warp. All blocks that the launch
# bounds ask an SM to hold must fit its 65536.
registers() {
  local a m d
  rm -f "$work"/s-*.json "$work"/c-*.json
  for a in sm_80 sm_90a sm_100a; do
  for m in mlp lenet resnet18 resnet34 "resnet18 batch=32"; do
  for d in fp32 tf32 fp16 bf16; do
    set -- $m
    build/nngen models/$1.lua --json --quiet --arch $a \
      --dtype $d ${2:+--set $2} >"$work/s-$a-$1${2:-}-$d.json"
    build/nngen show models/$1.lua --costs --json --arch $a \
      --dtype $d ${2:+--set $2} >"$work/c-$a-$1${2:-}-$d.json"
  done; done; done
  python3 - "$work" <<'END'
import glob, json, sys
kernels = spills = over = 0
most = 0
for path in glob.glob(sys.argv[1] + "/s-*.json"):
    bounds = {k["name"]: k for k in json.load(open(path.replace("/s-", "/c-")))["kernels"]}
    for k in json.load(open(path))["kernels"]:
        kernels += 1
        spills += k["spill_bytes"] > 0
        block = -(-k["registers"] // 8) * 8 * k["block"]
        asked = max(1, bounds[k["name"]]["blocks_per_sm"]) * block
        over += asked > 65536 or k["registers"] > 255
        most = max(most, asked / 65536)
what = "4 models, ResNet-18 at batch 32 too; 4 dtypes; sm_80, sm_90a, sm_100a"
print(f"| kernels that spill, of {kernels} ({what}) | {spills} | 0 |")
print(f"| kernels over the registers of their launch bounds, of the same (most: {most:.0%} of an "
      f"SM) | {over} | 0 |")
END
}
modelled() { # what the scheduler expects, and how much is padding; nothing here is measured
  local b
  for b in 1 32 256; do
    build/nngen show models/resnet18.lua --costs --json --dtype fp16 \
      --set batch=$b >"$work/m$b.json"
  done
  for b in 1 32 256; do
    build/nngen show models/resnet34.lua --costs --json --dtype fp16 \
      --set batch=$b >"$work/n$b.json"
  done
  figures padding
  python3 - "$work" <<'END'
import json, sys
sys.path.insert(0, "tests/bench")
from place import part
work = sys.argv[1]
for b in (1, 32, 256):
    d = json.load(open(f"{work}/m{b}.json"))
    print(f"| padding, ResNet-18 fp16 at 224x224, batch {b}: multiplies issued / of the model "
          f"(worst layer) | {d['padding']:.3f} ("
          f"{max(k['issued'] / k['counted'] for k in d['kernels'] if k['counted']):.2f}) | "
          "at most 1.15 |")
part("modelled")
print("Modelled for an H200, fp16, not measured (floor: each kernel's FLOP at 790 TFLOP/s or "
      "bytes at 4.3 TB/s):\n")
print("| network | batch | modelled us | floor us | ratio | images/s, modelled |")
print("|---|---|---|---|---|---|")
for name, letter in (("ResNet-18", "m"), ("ResNet-34", "n")):
    for b in (1, 32, 256):
        d = json.load(open(f"{work}/{letter}{b}.json"))
        print(f"| {name} | {b} | {d['modelled_us']:.0f} | {d['floor_us']:.0f} | "
              f"{d['modelled_us'] / d['floor_us']:.2f} | {b / d['modelled_us'] * 1e6:.0f} |")
part("layers")
print("ResNet-18 by layer, modelled us (floor) and padding of contractions; `nngen show "
      "models/resnet18.lua --costs --dtype fp16 --set batch=N` says more:\n")
print("| layer | batch 1 | batch 32 | batch 256 | padding, 1 / 32 / 256 |")
print("|---|---|---|---|---|")
batches = [{k["layer"]: k for k in json.load(open(f"{work}/m{b}.json"))["kernels"]}
           for b in (1, 32, 256)]
layers = max(batches, key=len)
assert all(layer in layers for kernels in batches
           for layer in kernels), "a layer of one batch alone"
for layer in layers: # none: computed in another one's kernel
    row = [kernels.get(layer) for kernels in batches]
    times = " | ".join(f"{k['modelled_us']:.1f} ({k['floor_us']:.1f})" if k else "" for k in row)
    padding = " / ".join(f"{k['issued'] / k['counted']:.2f}" if k and k["counted"] else "-"
                         for k in row)
    print(f"| {layer} | {times} | {padding if padding.strip('- /') else ''} |")
END
}

# How much of the GPU a large sum uses, how often rows are read, how exact a variance is.
reductions() {
  echo 'local nn = require "nn"; nn.output("y", nn.sum(nn.input("x", {nn.config{n = 205000000}.n})))' \
    >"$work/many.lua"
  build/nngen show "$work/many.lua" --costs --json >"$work/many.json"
  row "205 M elements summed: blocks; modelled share of an H200's 4.8 TB/s" \
    "$(build/nngen show "$work/many.lua" --cuda | sed -nE 's|^// grid 1x([0-9]+)x1.*|\1|p' |
      head -1); $(python3 -c "
import json
us = json.load(open('$work/many.json'))['modelled_us']
print(f\"{820e6 / 4.8e12 / us * 1e6:.0%}\")")" "at least 85%"
  counted() { # counted BYTES ARGUMENTS...: bytes that libcusim counts, of BYTES
    local bytes=$1; shift
    build/nngen "$@" --quiet --no-check --count --json | sed -n '/^{/,$p' |
      python3 -c "
import json, sys
kernels = json.load(sys.stdin)['kernels']
print(f\"{sum(k['counted']['bytes_read'] + k['counted']['bytes_written'] for k in kernels) / $bytes:.3f}\")"
  }
  local long=tests/models/long_rows.lua
  row "measured (libcusim) / input bytes, 20.5 M elements summed" \
    "$(counted 82e6 "$work/many.lua" --set n=20500000)" "at most 1.01"
  row "measured (libcusim) bytes / one read and one write: layer norm over 1024 (no weights); softmax over 32 000; over channels" \
    "$(counted 524288 $long --set only=layer_norm affine=false rows=64 columns=1024); $(
      counted 33792000 $long --set only=softmax rows=132 columns=32000); $(
      counted 32256 $long --set only=channels)" "1; rows longer than registers hold: 1.5"
  row "variance of mean 1e4 and deviation 1, worst error" \
    "$(build/nngen tests/models/reduce_special.lua --quiet |
      sed -nE 's/^output +var.*error ([^ ]+).*/\1/p' | sort -g | tail -1)" "1e-5"
}
part() { printf '\n<!-- part %s -->\n' "$1"; } # what follows is put there by place.py
figures() { # figures PART: a part that is a table of rows
  part "$1"
  echo "| what | figure | target |"
  echo "|---|---|---|"
}
resnet() { # kernels, bytes, memory, errors, registers
  figures resnet
  build/nngen models/resnet18.lua --json --quiet >"$work/cold.json"
  row "ResNet-18 kernels, fp32, batch 1, fused (unfused)" \
    "$(field work.kernels <"$work/cold.json") ($(field unfused.kernels <"$work/cold.json"))" \
    "at most 23"
  if [ $nvrtc ]; then
    build/nngen models/resnet18.lua --json --quiet --arch sm_90a --dtype fp16 \
      --set batch=32 >"$work/b32.json"
    row "planned DRAM bytes, batch 32 fp16: unfused / fused (split-K sums stay in L2, not counted)" \
      "$(python3 -c "
import json
d = json.load(open('$work/b32.json'))
once, fused = d['unfused']['bytes'], d['work']['bytes']
print(f\"{once / 1e6:.0f} MB / {fused / 1e6:.0f} MB = {once / fused:.2f}x\")")" "at least 2.5x"
  fi
  local m worst=0
  for m in mlp lenet resnet18 resnet34; do
    for lowering in fused unfused; do
      build/nngen show models/$m.lua --plan --lowering $lowering --dtype fp16 >"$work/plan.json"
      worst=$(python3 -c "import json; d = json.load(open('$work/plan.json'))
print(max($worst, d['arena_bytes'] / max(1, d['arena_bound'])))")
    done
  done
  row "arena / lower bound, worst of all models and lowerings" "$(printf %.3f "$worst")" \
    "at most 1.05"
  local gate
  for d in fp32:1e-5 tf32:1e-3 fp16:2e-3 bf16:1e-2; do
    gate=${d#*:} d=${d%:*}
    build/nngen models/resnet18.lua --json --quiet --check --dtype $d >"$work/r.json"
    row "ResNet-18 logits against the oracle, $d" \
      "$(printf %.2e "$(field outputs.0.error <"$work/r.json")")" "$gate"
  done
  [ $nvrtc ] && registers
}
counters() { # what libcusim counts
  figures counted
  for d in fp32 fp16; do
    build/nngen models/resnet18.lua --json --quiet --count --no-check --dtype $d >"$work/c.json"
    row "measured (libcusim) / planned bytes, worst kernel of ResNet-18 $d" "$(python3 -c "
import json
print('%.3f' % max(k['counted']['distinct_bytes'] / (k['bytes_read'] + k['bytes_written'])
                   for k in json.load(open('$work/c.json'))['kernels']))")" "at most 1.1"
    row "sectors / fewest possible, ResNet-18 $d: all kernels (worst)" "$(python3 -c "
import json
c = [k['counted'] for k in json.load(open('$work/c.json'))['kernels']
     if k['counted']['ideal_sectors']]
print('%.3f (%.2f)' % (sum(x['sectors'] for x in c) / sum(x['ideal_sectors'] for x in c),
                       max(x['sectors'] / x['ideal_sectors'] for x in c)))")" "1 in interior tiles"
    row "bank conflicts, all kernels of ResNet-18 $d" "$(python3 -c "
import json
kernels = json.load(open('$work/c.json'))['kernels']
print(sum(k['counted']['bank_conflicts'] for k in kernels))")" "0"
  done
}
compiling() { # how long the compiler takes
  figures compiling
  local one two
  one=$(least build/nngen show tests/bench/deep.lua --set blocks=1000 --stage emit)
  two=$(least build/nngen show tests/bench/deep.lua --set blocks=2000 --stage emit)
  row "1000 residual blocks, Lua to CUDA text" "$one s" "at most 1.5 s"
  row "the same, 4000 layers, until they are fused" \
    "$(least build/nngen show tests/bench/deep.lua --set blocks=1000 --stage fuse) s" "under 1 s"
  row "2000 blocks / 1000 blocks" "$(python3 -c "print(f'{$two/$one:.2f}')")" "at most 2.2"
  rm -rf "$work/cache"
  row "\`nngen models/resnet18.lua\`, checked, empty cache" \
    "$(seconds build/nngen models/resnet18.lua --quiet) s" "at most 20 s"
  row "the same, full cache" "$(seconds build/nngen models/resnet18.lua --quiet) s" "at most 8 s"
  ready_times
  if [ $nvrtc ]; then
    rm -rf "$work/cache"
    row "ResNet-18 fp16 for sm_90a, Lua to cubins, empty cache" \
      "$(seconds build/nngen models/resnet18.lua --quiet --arch sm_90a --dtype fp16) s" \
      "at most 4 s"
    distinct_kernels
  fi
}
simulator() { # what libcusim finds, and how long the tests take on it
  figures simulator
  [ -x build/tests/sim/test_planted ] && {
    NNGEN_TEST_LONG=1 build/tests/sim/test_planted >"$work/planted" 2>/dev/null
    caught() {
      sed -n "s/^# $1: \\(.*\\), NNGEN_SIM_CHECK=$2 NNGEN_SIM_SEED=$3\$/\\1/p" "$work/planted"
    }
    row "libcusim: planted bugs caught, all checks (default checks: of those it is to catch)" \
      "$(caught 'bugs caught' all 0) ($(caught 'bugs caught' basic '[0-9]*'))" "all"
    row "libcusim: false alarms on their corrected twins, all checks, two seeds" \
      "$(caught 'twins accused' all 0), $(caught 'twins accused' all 7)" "0"
  }
  row "libcusim: symbols of the driver API and NVRTC present / called by its tests" \
    "$(api_present) / $(api_tested) of $(api_symbols | wc -l)" "all"
  all_tests
}
tables() {
  part machine
  echo "Measured with $(nproc) cores of $(
    sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), by \`make bench\`."
  resnet
  counters
  compiling
  [ $nvrtc ] && { figures graphs; fused_graphs; reductions; }
  simulator
  modelled
  tests/bench/bench_attention.py
  tests/bench/bench_training.py plans memory
  [ $nvrtc ] && tests/bench/bench_training.py spills
  tests/bench/bench_training.py tokens cpu learning
  tests/bench/bench_gradients.py
  [ -x build/tests/bench/bench_sim ] && {
    part speed
    printf 'libcusim, on one core:\n\n```\n'
    NNGEN_SIM_THREADS=1 build/tests/bench/bench_sim
    echo '```'
  }
  return 0
}
tables | tee "$work/tables"
if [ "${1:-}" = --update ]; then
  tests/bench/place.py bench README.md tests/bench/README.md <"$work/tables"
fi
[ $nvrtc ] && { # for runtime/sim/PTX.md
  printf '\nPTX on libcusim:\n\n'
  tests/bench/bench_ptx.sh
  printf '\nKernels whose PTX, of NVRTC, leaves the same bytes as their C++:\n\n'
  tests/sim/ptx_equal.sh models/lenet.lua models/mlp.lua tests/models/transformer.lua
}
exit 0
