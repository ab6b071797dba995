# transformers.sh: sourced by the tests of the transformers of models/, after tap.sh.
python=python3
small() { # small MODEL DTYPE OPTIONS...
  build/nngen models/$1.lua --quiet --check --dtype $2 "${@:3}"
}
parity() { # parity SCRIPT MODEL SETTINGS...: outputs as the script has them, in fp32
  local script=$1 model=$2 folder=$work/$1.$2 files= name; shift 2
  mkdir -p "$folder" && $python tests/models/$script $model "$folder" "$@" || return
  for name in "$folder"/in/*.npy; do files+=" --input $(basename $name .npy)=$name"; done
  small $model fp32 --set "$@" $files --weights "$folder/weights.safetensors" \
    --output "$folder/got" || return
  for name in "$folder"/out/*.npy; do
    python3 tests/models/attention_reference.py equal "$folder/got/${name##*/}" "$name" 1e-5 ||
      return
  done
}
count() { # count MODEL NUMBER OPTIONS...: so many parameters
  local got
  got=$(build/nngen show models/$1.lua "${@:3}" --plan | python3 -c 'import json, math, sys
print(sum(math.prod(t["shape"]) for t in json.load(sys.stdin)["tensors"] if t["role"] == "param"))')
  [ "$got" = $2 ] || { echo "$got parameters, want $2"; return 1; }
}
means() { ok "$1 is what its layers mean" parity transformers_reference.py "$@"; }
published() { # published MODEL PACKAGE SETTINGS...
  local name="$1 is what $2 computes" python
  if python_with torch $2; then ok "$name" parity torch_transformers.py "$1" "${@:3}"
  else skip "$name" "PyTorch and $2 are not installed"; fi
}
half() {
  long || return 0
  for dtype in fp16 $(long && echo bf16 tf32); do ok "$1 $dtype" small $1 $dtype "${@:2}"; done
}
named() { # named MODEL PARAMETER OPTIONS...: the model has a parameter of that name
  build/nngen show models/$1.lua "${@:3}" --plan | grep -q "\"name\": *\"$2\""
}
