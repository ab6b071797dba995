#!/usr/bin/env bash
# ptx_equal.sh [MODEL ...]: the generated kernels whose PTX, as NVIDIA's NVRTC makes it, leaves the
# same bytes in device memory as their C++ on the host's compiler: a table row per model and dtype.
# Each kernel starts from the memory of the C++ run. KERNELS=1 also names those that differ, with
# their bytes.
set -u
cd "$(dirname "$0")/../.."
[ $# != 0 ] ||
  set -- models/lenet.lua models/mlp.lua tests/models/transformer.lua models/resnet18.lua
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() { # MODEL DTYPE OPTION...
  local model=$1 dtype=$2; shift 2
  build/nngen "$model" --dtype "$dtype" --quiet --no-check --device sim "$@" 2>&1 >/dev/null
}
echo "| model | dtype | kernels | equal | other |"
echo "|---|---|---|---|---|"
for model in "$@"; do
  for dtype in ${DTYPES:-fp32 tf32 fp16 bf16}; do
    NNGEN_SIM_RECORD=$work/record run "$model" "$dtype" >"$work/log" ||
      { echo "| $model | $dtype | not run | | |"; continue; }
    NNGEN_SIM_COMPARE=$work/record run "$model" "$dtype" --sim-frontend nvrtc >"$work/log"
    grep -q 'not in the recorded run' "$work/log" &&
      { echo "| $model | $dtype | other launches | | |"; continue; }
    sed -n 's/^libcusim: \([^ ]*\): equal$/\1/p' "$work/log" | sort -u >"$work/equal"
    sed -n 's/^libcusim: \([^ ]*\): [0-9]* bytes differ.*/\1/p' "$work/log" | sort -u >"$work/other"
    all=$(sort -u "$work/equal" "$work/other" | wc -l) other=$(wc -l <"$work/other")
    echo "| $(basename "$model" .lua) | $dtype | $all | $((all - other)) | $other |"
    [ "${KERNELS:-}" ] && grep 'bytes differ' "$work/log" | sort -u | sed 's/^libcusim: /    /'
  done
done
exit 0
