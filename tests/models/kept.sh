# kept.sh: products cut as a tuning file says; for scripts that have sourced tap.sh.

# kept TILE GRID PROBLEM COMMAND...: what the model computes is right, and one product was cut so.
kept() {
  local tile=$1 grid=$2 problem=$3 seed name=$NNGEN_DEVICE; shift 3
  [ "$name" = sim ] && name="libcusim sm_90a"
  [ "$name" = cuda ] &&
    name=$(build/nngen models/mlp.lua | sed -n 's/^device *\(NVIDIA [^,]*\),.*/\1/p')
  cat >"$work/tiles.json" <<END
{"schema_version": 1, "devices": {"$name": {"$problem": {"tile": "$tile"}}}}
END
  for seed in 0 $(long && echo 3); do
    NNGEN_SIM_SEED=$seed NNGEN_SIM_CHECK=all build/nngen "$@" --quiet --check \
      --tuning "$work/tiles.json" >"$work/log" 2>&1 || { tail -3 "$work/log"; return 1; }
    grep -q " wgmma *$grid x " "$work/log" || { grep -a contract "$work/log"; return 1; }
  done
}
product() { # product TILE GRID PROBLEM DTYPE SHAPE: of contraction.lua
  kept "$1" "$2" "$3" tests/models/contraction.lua --dtype $4 --set "shapes=$5"
}
model() { # model TILE GRID PROBLEM DTYPE CASE [SETTING...]: of kept.lua
  kept "$1" "$2" "$3" tests/models/kept.lua --dtype $4 --set case=$5 "${@:6}"
}
