#!/usr/bin/env bash
# Attention with random scores (attend_fuzz.lua) against the oracle, as one kernel each; and its
# derivatives, as one kernel each, those of biases among them, without scores in memory. A failing
# seed is printed; try it with:
# build/nngen tests/models/attend_fuzz.lua --check --dtype fp16 --set seed=N gradients=true
. "$(dirname "$0")/../tap.sh"
first=${NNGEN_FUZZ_FIRST:-1} count=${NNGEN_FUZZ_COUNT:-$(long && echo 4 || echo 1)}
dtypes=(fp16 fp32 bf16)
attended() { # attended SEED DTYPE: with one of the candidate tiles
  build/nngen tests/models/attend_fuzz.lua --quiet --check --dtype $2 --candidate $(($1 % 29 + 1)) \
    --set seed=$1 >"$work/log" || { cat "$work/log"; return 1; }
  grep -q " attend " "$work/log" || { echo "it is not one kernel"; return 1; }
}
# Rounding to 16 bits twice, forward and back, may cost derivatives three times the gate of a model.
near() { # near LOG: what is wrong with it are outputs that are near
  grep -q "^checked " "$1" && awk '
    /^output.*WRONG/ { split($0, w, /relative error |\(gate |\)/); bad = bad || w[3] > 3 * w[4] }
    END { exit bad }' "$1"
}
differentiated() { # differentiated SEED DTYPE LEARNED: of one query there are no rows of scores to speak of
  build/nngen tests/models/attend_fuzz.lua --quiet --check --dtype $2 --candidate $(($1 % 17 + 1)) \
    --set seed=$1 gradients=true learned=$3 >"$work/log" ||
    { [ $? = 1 ] && [ $2 != fp32 ] && near "$work/log"; } || { cat "$work/log"; return 1; }
  grep -qE "^output +dq \(.*, 1, [0-9]+\)" "$work/log" && return
  [ "$(grep -c " attend_backward " "$work/log")" = 3 ] && ! grep " contract " "$work/log" ||
    { cat "$work/log"; echo "derivatives are not three kernels"; return 1; }
  [ "$(grep -c "^output *d[0-9]" "$work/log")" = 0 ] || grep -q " attend_bias " "$work/log" ||
    { cat "$work/log"; echo "no kernel sums weights"; return 1; }
}
for ((i = first; i < first + count; i++)); do
  export NNGEN_SIM_SEED=$((i % 4))
  ok "seed $i ${dtypes[i % 3]}" attended $i ${dtypes[i % 3]}
  ok "derivatives, seed $i ${dtypes[(i + 1) % 3]}" differentiated $i ${dtypes[(i + 1) % 3]} false
  ok "of biases, too, seed $i ${dtypes[(i + 2) % 3]}" differentiated $i ${dtypes[(i + 2) % 3]} true
done
tap_done
