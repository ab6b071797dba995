# attend_groups.sh: attention and its derivatives cut as a tuning file says; for scripts that have
# sourced tap.sh.

# tuned DEVICE TILE: a tuning file with this tile for all attention and weights that --explain names.
tuned() {
  sed -n '/sums of/d; s/.*in a tuning file: \(".* to [^"]*"\).*/\1/p' | sort -u |
    sed "s/.*/&: {\"tile\": \"$2\"}/" | paste -sd, |
    sed "s/.*/{\"schema_version\": 1, \"devices\": {\"$1\": {&}}}/" >"$work/tuning.json"
}

# cut COUNT TILE MODEL DTYPE SETTINGS...: with this tile, as if it had been measured as the fastest
# for all attention and weights, so many kernels have it, and all are right.
cut() {
  local count=$1 rows=${2%%x*} tile="$2 warps 16x0 stages 2 parts ${parts:-1} wgmma" seed device
  local model=tests/models/$3.lua dtype=$4; shift 4
  device=$(build/nngen models/mlp.lua --quiet --json --no-check |
    sed -n 's/^  "device": "\(.*\)",/\1/p')
  build/nngen $model --quiet --no-check --dtype $dtype --explain e --set "$@" |
    tuned "$device" "$tile"
  for seed in 0 $(long && echo 3); do
    NNGEN_SIM_SEED=$seed NNGEN_SIM_CHECK=all build/nngen $model --quiet --check --dtype $dtype \
      --tuning "$work/tuning.json" --set "$@" >"$work/log" 2>&1 ||
      { tail -5 "$work/log"; return 1; }
    [ $(grep -c " $rows rows x .* keys x2 wgmma" "$work/log") = $count ] ||
      { grep -a " rows x " "$work/log"; return 1; }
  done
}
attends() { cut 1 $1 attend "${@:2}"; } # attends TILE DTYPE SETTINGS...
weighs() { cut $1 $2 attend_backward "${@:3}"; }  # weighs COUNT TILE DTYPE SETTINGS...: with attention's own
# keeps TILE MODEL DTYPE SETTINGS...: in sm_90a's code, with this tile, no loop overwrites registers
# that its products read again.
keeps() {
  local tile="$1 warps 16x0 stages 2 parts 1 wgmma" model=tests/models/$2.lua dtype=$3; shift 3
  rm -rf "$work/code"
  build/nngen $model --quiet --no-check --arch sm_90a --dtype $dtype --explain e --set "$@" |
    tuned H200 "$tile"
  build/nngen $model --quiet --arch sm_90a --dtype $dtype --tuning "$work/tuning.json" \
    --dump "$work/code" --set "$@" && tests/models/loop_registers.py "$work/code"
}
