# prepare.sh FOLDER: broken data files for cases.txt, made here so that the tree holds none.
w=$1
printf 'not a png' >"$w/broken.png"
printf '\211PNG\r\n\032\n\0\0\0\rIHDR' >"$w/cut.png"
printf '\223NUMPY\1\0' >"$w/cut.npy"
printf 'x' >"$w/short.safetensors"
printf '\377\377\377\377\377\377\377\177{}' >"$w/huge.safetensors"
printf '\100\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},' \
  >"$w/truncated.safetensors"
header='{"fc1.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}'
printf "\\x$(printf %x ${#header})\0\0\0\0\0\0\0%s0123456789ab" "$header" >"$w/overlap.safetensors"
header='{"fc1.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
printf "\\x$(printf %x ${#header})\0\0\0\0\0\0\0%s01234567" "$header" >"$w/wrong_shape.safetensors"
header='{"other":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
printf "\\x$(printf %x ${#header})\0\0\0\0\0\0\0%s01234567" "$header" >"$w/missing.safetensors"
header='{"fc1.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
printf "\\x$(printf %x ${#header})\\0\\0\\0\\0\\0\\0\\0%s\\0\\0\\0\\0\\0\\0\\300\\177" \
  "$header" >"$w/nan.safetensors"
mkdir -p "$w/tree" "$w/cache" && cp --parents gen/*/*.lua "$w/tree/" && cp -r templates "$w/tree/"
sed -i 's/  auto multiply_tile = ... {/& int broken = undeclared;/' "$w/tree/templates/contract.cu"
XDG_CACHE_HOME=$w/cache build/nngen models/mlp.lua --quiet >/dev/null
for f in "$w"/cache/nngen/*.nnk; do
  printf XX | dd of="$f" bs=1 seek=300 conv=notrunc 2>/dev/null
done
printf 'a\n' >"$w/one.txt"
printf '\nlocal nn is no model\n' >"$w/model.txt"
header="{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }"
printf "\\223NUMPY\\1\\0\\x$(printf %x ${#header})\\0%sdata" "$header" >"$w/deep.npy"
printf '{"schema_version": 1, "devices": {"NVIDIA H100": {\n"fp16 matmul 8x784 by 784x256 transposed": {"tile": "64x32 warps 32x16 stages 4 parts 1"}}}}' >"$w/h100.json"
sed 's/matmul/matmull/' "$w/h100.json" >"$w/misspelt.json"
