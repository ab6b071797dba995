#!/usr/bin/env bash
# bench.sh [--update]: the figures of README.md, as Markdown tables; --update puts them there.
# Nothing here gates anything. Needs no GPU: figures of generated kernels are planned or compiled,
# times are of the compiler and of the simulator on this machine.
set -u
cd "$(dirname "$0")/../.."
export NNGEN_DEVICE=sim NO_COLOR=1
command -v python3 >/dev/null || { echo "make bench needs python3, for its arithmetic" >&2; exit 4; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
field() { python3 -c "import json,sys; d=json.load(sys.stdin)
for k in sys.argv[1].split('.'): d=d[int(k)] if k.isdigit() else d[k]
print(d)" "$1"; }
seconds() { # wall seconds of a command
  local begin; begin=$(date +%s.%N); "$@" >/dev/null 2>&1; python3 -c "import sys; print(f'{float(sys.argv[2])-float(sys.argv[1]):.2f}')" "$begin" "$(date +%s.%N)"
}
api_symbols() { sed -nE 's/^(CUDA_API|NVRTC_API|NVRTC_TEXT)\((\w+), *(\w+).*/\2 \3/p' runtime/cuda_api.def; }
api_present() { api_symbols | cut -d' ' -f2 | sort >"$work/want"; nm -D --defined-only build/libcusim.so | awk '{print $3}' | sort | comm -12 - "$work/want" | wc -l; }
api_tested() { local n=0 name; while read -r name _; do grep -qrE "\b$name\(" tests/sim tests/prim && n=$((n + 1)); done < <(api_symbols); echo $n; }
row() { printf '| %s | %s | %s |\n' "$1" "$2" "$3"; }
nvrtc=yes; build/nngen doctor | grep -q '^NVRTC *not found' && nvrtc=

tables() {
  echo "Measured with $(nproc) cores of $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), by \`make bench\`."
  echo
  echo "| what | figure | wanted |"
  echo "|---|---|---|"
  build/nngen models/resnet18.lua --json --quiet >"$work/cold.json"
  row "ResNet-18 kernels, fused (unfused)" "$(field work.kernels <"$work/cold.json") ($(field unfused.kernels <"$work/cold.json"))" "at most 23"
  if [ $nvrtc ]; then
    build/nngen models/resnet18.lua --json --quiet --arch sm_90a --dtype fp16 --set batch=32 >"$work/b32.json"
    row "planned DRAM bytes, batch 32 fp16: unfused / fused" "$(python3 -c "import json; d=json.load(open('$work/b32.json')); print(f\"{d['unfused']['bytes']/1e6:.0f} MB / {d['work']['bytes']/1e6:.0f} MB = {d['unfused']['bytes']/d['work']['bytes']:.2f}x\")")" "at least 2.5x"
  fi
  local m worst=0
  for m in mlp lenet resnet18 resnet34; do
    for lowering in fused unfused; do
      build/nngen show models/$m.lua --plan --lowering $lowering --dtype fp16 >"$work/plan.json"
      worst=$(python3 -c "import json; d=json.load(open('$work/plan.json')); print(max($worst, d['arena_bytes']/max(1,d['arena_bound'])))")
    done
  done
  row "arena / lower bound, worst of all models and lowerings" "$(printf %.3f "$worst")" "at most 1.05"
  local one two
  one=$(seconds build/nngen show tests/bench/deep.lua --set blocks=1000 --stage emit)
  two=$(seconds build/nngen show tests/bench/deep.lua --set blocks=2000 --stage emit)
  row "1000 residual blocks, Lua to CUDA text" "$one s" "at most 1.5 s"
  row "2000 blocks / 1000 blocks" "$(python3 -c "print(f'{$two/$one:.2f}')")" "at most 2.2"
  local gate
  for d in fp32:1e-5 tf32:1e-3 fp16:2e-3 bf16:1e-2; do
    gate=${d#*:} d=${d%:*}
    build/nngen models/resnet18.lua --json --quiet --check --dtype $d >"$work/r.json"
    row "ResNet-18 logits against the oracle, $d" "$(field outputs.0.error <"$work/r.json")" "$gate"
  done
  for d in fp32 fp16; do
    build/nngen models/resnet18.lua --json --quiet --count --no-check --dtype $d >"$work/c.json"
    row "bytes counted / planned, worst kernel of ResNet-18 $d" "$(python3 -c "import json; print('%.3f' % max(k['counted']['distinct_bytes']/(k['bytes_read']+k['bytes_written']) for k in json.load(open('$work/c.json'))['kernels']))")" "at most 1.1"
    row "bank conflicts, all kernels of ResNet-18 $d" "$(python3 -c "import json; print(sum(k['counted']['bank_conflicts'] for k in json.load(open('$work/c.json'))['kernels']))")" "0"
  done
  rm -rf "$work/cache"
  row "\`nngen models/resnet18.lua\`, checked, empty cache" "$(seconds build/nngen models/resnet18.lua --quiet) s" "at most 20 s"
  row "the same, full cache" "$(seconds build/nngen models/resnet18.lua --quiet) s" "at most 8 s"
  if [ $nvrtc ]; then
    rm -rf "$work/cache"
    row "ResNet-18 fp16 for sm_90a, Lua to cubins, empty cache" "$(seconds build/nngen models/resnet18.lua --quiet --arch sm_90a --dtype fp16) s" "at most 4 s"
    local spills=0 kernels=0
    for a in sm_80 sm_90a sm_100a; do for m in mlp lenet resnet18 resnet34 "resnet18 batch=32"; do for d in fp32 tf32 fp16 bf16; do
      set -- $m
      build/nngen models/$1.lua --json --quiet --arch $a --dtype $d ${2:+--set $2} >"$work/s.json"
      spills=$((spills + $(python3 -c "import json; print(sum(k['spill_bytes']>0 for k in json.load(open('$work/s.json'))['kernels']))")))
      kernels=$((kernels + $(field work.kernels <"$work/s.json")))
    done; done; done
    row "kernels that spill, of $kernels (4 models, ResNet-18 at batch 32 too; 4 dtypes; sm_80, sm_90a, sm_100a)" "$spills" "0"
  fi
  [ -x build/tests/sim/test_planted ] && {
    build/tests/sim/test_planted >"$work/planted" 2>/dev/null
    caught() { sed -n "s/^# $1: \\(.*\\), NNGEN_SIM_CHECK=$2 NNGEN_SIM_SEED=$3\$/\\1/p" "$work/planted"; }
    row "libcusim: planted bugs caught, all checks (default checks: of those it is to catch)" "$(caught 'bugs caught' all 0) ($(caught 'bugs caught' basic 3))" "all"
    row "libcusim: false alarms on their corrected twins, all checks, two seeds" "$(caught 'twins accused' all 0), $(caught 'twins accused' all 7)" "0"
  }
  row "libcusim: symbols of the driver API and NVRTC present / called by its tests" "$(api_present) / $(api_tested) of $(api_symbols | wc -l)" "all"
  [ -x build/tests/bench/bench_sim ] && {
    printf '\nlibcusim, on one core:\n\n```\n'
    NNGEN_SIM_THREADS=1 build/tests/bench/bench_sim
    echo '```'
  }
  return 0
}
tables | tee "$work/tables"
if [ "${1:-}" = --update ]; then
  awk -v file="$work/tables" '/<!-- bench begins -->/ {print; while ((getline line < file) > 0) print line; skip = 1} /<!-- bench ends -->/ {skip = 0} !skip' README.md >"$work/README" && cp "$work/README" README.md
fi
