# attend_groups.sh: attention cut as a tuning file says; for scripts that have sourced tap.sh.

# attends TILE DTYPE SETTINGS...: with this tile, as if it had been measured as the fastest, it is
# right.
attends() {
  local tile="$1 warps 16x0 stages 2 parts ${parts:-1}" dtype=$2 entry device seed; shift 2
  local model=tests/models/attend.lua
  device=$(build/nngen $model --quiet --json --no-check --set N=1 M=1 |
    sed -n 's/^  "device": "\(.*\)",/\1/p')
  entry=$(build/nngen $model --quiet --dtype $dtype --explain matmul --set "$@" |
    sed -n 's/.*in a tuning file: \("[^"]*"\).*/\1/p')
  printf '{"schema_version": 1, "devices": {"%s": {%s: {"tile": "%s"}}}}' \
    "$device" "$entry" "$tile" >"$work/tuning.json"
  for seed in 0 $(long && echo 3); do
    NNGEN_SIM_SEED=$seed NNGEN_SIM_CHECK=all build/nngen $model --quiet --check --dtype $dtype \
      --tuning "$work/tuning.json" --set "$@" >"$work/log" 2>&1 ||
      { tail -5 "$work/log"; return 1; }
    grep -q " ${tile%%x*} rows x .* keys x2 wgmma" "$work/log" ||
      { grep -a attend "$work/log"; return 1; }
  done
}
