# attention.sh: sourced by the tests of attention.lua, after tap.sh.
model=tests/models/attention.lua reference="python3 tests/models/attention_reference.py"
# inputs NAME SIZES...: files for attention.lua of these sizes; runs are of these from here on.
inputs() {
  folder=$work/$1 sizes=${*:2} files=
  mkdir -p "$folder" && $reference inputs "$folder" $sizes || return
  for file in "$folder"/*.npy; do name=${file##*/}; files+=" --input ${name%.npy}=$file"; done
}
run() { # run CASES DTYPE OPTIONS...: held to the oracle; its outputs to $folder.DTYPE
  build/nngen $model --quiet --check --dtype $2 "${@:3}" --set cases=$1 $sizes $files \
    --output "$folder.$2"
}
means() { # means DTYPE GATE: all outputs so far are what attention means
  $reference check "$folder" "$folder.$1" $2
}
both() { run "$1" $2 && means $2 $3; }
