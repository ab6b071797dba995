#!/usr/bin/env bash
# A program linked with the toolkit's libcuda and libnvrtc starts on libcusim under their names, and
# the loader says nothing.
set -u
cd "$(dirname "$0")/../.."
[ "${DEVICE:-sim}" = sim ] || { echo "1..0 # SKIP only on libcusim"; exit 0; }
toolkit=${CUDA_PATH:-/usr/local/cuda}/lib64
[ -e "$toolkit/libnvrtc.so" ] && [ -e "$toolkit/stubs/libcuda.so" ] ||
  { echo "1..0 # SKIP the CUDA toolkit is not installed"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/p.c" <<'P'
int cuInit(unsigned);
int nvrtcVersion(int *, int *);
int main(void) { int a, b; return cuInit(0) || nvrtcVersion(&a, &b); }
P
echo 1..2
gcc -o "$work/p" "$work/p.c" -L"$toolkit" -L"$toolkit/stubs" -lcuda -lnvrtc
for soname in $(objdump -p "$work/p" | awk '$1 == "NEEDED" && $2 ~ /cuda|nvrtc/ {print $2}'); do
  ln -s "$PWD/build/libcusim.so" "$work/$soname"
done
if LD_LIBRARY_PATH=$work "$work/p" 2>"$work/said"; then
  echo "ok 1 - starts"
else
  echo "not ok 1 - starts"
fi
[ -s "$work/said" ] && echo "not ok 2 - in silence" && sed 's/^/# /' "$work/said" ||
  echo "ok 2 - in silence"
