# models.sh: what the tests of emitted models share; source it behind tap.sh and emit.sh.

# What example.c reads: a line for each input, "NAME BYTES DTYPE SHAPE".
inputs_of() {
  sed -nE 's|^ *[a-z0-9_]+ \*(.*) = .*read_elements\(.*, ([0-9]+)\); +// ([a-z0-9]+) \((.*)\)$|\1 \2 \3 \4|p' "$1/example.c"
}
outputs_of() { sed -nE 's|^ *[a-z0-9_]+ \*(.*) = \([a-z0-9_]+ \*\)malloc\(.*|\1|p' "$1/example.c"; }

# elements DIR NAME BYTES DTYPE: zeros and ones in turn, ones, or the last of the weights, again and
# again.
elements() {
  local tail
  case $4 in
  i32) for ((i = 0; i < $3 / 4; i++)); do printf '%b' "\\0$((i % 2))\\0\\0\\0"; done ;;
  bool) head -c "$3" /dev/zero | tr '\0' '\1' ;;
  *)
    tail=$1/tail.bin
    tail -c 4096 "$1/$2.safetensors" >"$tail"
    while cat "$tail"; do :; done 2>/dev/null | head -c "$3"
    ;;
  esac
}

builds() { # builds MODEL OPTIONS...: by gcc and clang, as C11 and as C++
  local dir=$work/$1 name=$1; shift
  emit "models/$name.lua" "$dir" --no-check "$@" &&
    compile "cc $strict $sanitized" "$dir" "$name" example.c || return
  c++ -x c++ -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$cuda/include" "$dir/$name.c" ||
    return
  command -v clang >/dev/null || return 0
  for file in "$name.c" example.c; do
    clang $strict -fsyntax-only -I"$cuda/include" -I"$dir" "$dir/$file" || return
  done
  clang++ -x c++ -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$cuda/include" "$dir/$name.c"
}

same_bits() ( # same_bits MODEL OPTIONS...: its example gives those of nngen run, too
  builds "$@" || return
  local dir=$work/$1 name=$1 model=models/$1.lua files=() given=(); shift
  while read -r input bytes dtype shape; do
    case $dtype in
    i32) descr='<i4' ;;
    bool) descr='|b1' ;;
    f32) descr='<f4' ;;
    *) echo "$dtype?"; return 1 ;;
    esac
    elements "$dir" "$name" "$bytes" "$dtype" >"$dir/$input.bin"
    npy "$dir/$input.bin" "$descr" "$shape" >"$dir/$input.npy"
    files+=("$input.bin") given+=(--input "$input=$dir/$input.npy")
  done < <(inputs_of "$dir")
  [ ${#files[@]} -gt 0 ] &&
    build/nngen "$model" "$@" $run_options --no-check --quiet "${given[@]}" --output "$dir" ||
    return
  cd "$dir" && ./example "${files[@]}" >/dev/null || return
  outputs_of "$dir" | grep -q . || return
  for output in $(outputs_of "$dir"); do same_elements "$output.npy" "$output.bin" || return; done
)
