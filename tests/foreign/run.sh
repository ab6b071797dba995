#!/usr/bin/env bash
# run.sh: kernels that Triton compiled for sm_80 and sm_90a, run as PTX against references in C. Its
# wheel goes into build/foreign; where it is out of reach, the tests are told as skipped.
set -u
cd "$(dirname "$0")/../.." || exit 4
env=build/foreign/env out=build/foreign/triton
mkdir -p build/foreign
if [ ! -x $env/bin/python ] || ! $env/bin/python -c 'import triton' 2>/dev/null; then
  python3 -m venv $env >/dev/null 2>&1 && timeout 600 $env/bin/pip install -q triton==3.9.0 numpy >build/foreign/pip.log 2>&1
fi
$env/bin/python -c 'import triton' 2>/dev/null || { echo "1..0 # SKIP Triton's wheel is out of reach"; exit 0; }
mkdir -p $out
$env/bin/python tests/foreign/triton_kernels.py $out || { echo "1..1"; echo "not ok 1 - Triton does not compile"; exit 1; }
gcc -I. -Iruntime -D_GNU_SOURCE -O1 -Wall -Wextra -o $out/check tests/foreign/check_triton.c -lcmocka -ldl -lm || exit 4
$out/check $out
