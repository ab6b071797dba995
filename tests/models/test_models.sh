#!/usr/bin/env bash
# Models and lowerings, small (in the long run more, in every dtype): each kernel against the oracle
# on the inputs it read, the outputs against the model as written. `nngen` exits 1 when one is off.
. "$(dirname "$0")/../tap.sh"
run() { build/nngen "$@" --quiet --check; }
for dtype in fp32 tf32 fp16 bf16; do
  for lowering in fused unfused; do
    o="--dtype $dtype --lowering $lowering"
    case $dtype$lowering in
      *32fused | fp16unfused) some=true ;;
      *) some=long ;;
    esac
    few 4/3 && $some && ok "mlp $dtype $lowering" run models/mlp.lua $o --set batch=3 hidden=40
    $some && few 1/3 lenet && ok "lenet $dtype $lowering" run models/lenet.lua $o --set batch=2
    case $dtype$lowering in
      bf16* | tf32unfused) some=false ;; # fp32 and fp16 take the same steps
      *) some=long ;;
    esac
    $some && few 1/5 resnet && ok "resnet18 at 32x32, $dtype $lowering" run models/resnet18.lua $o \
      --set size=32 batch=2
    case $dtype$lowering in
      fp32fused) some=true ;;
      fp32unfused | fp16fused) some=long ;;
      *) some=false ;;
    esac
    $some && ok "what parameters alone give, $dtype $lowering" run tests/models/fixed.lua $o
  done
  few 2/2 maps || continue # three runs of fp32 and fp16
  ok "every map, $dtype" run tests/models/all_maps.lua --dtype $dtype
  ok "every map, odd length, $dtype" run tests/models/all_maps.lua --dtype $dtype --set size=7
  ok "derivatives of every map, $dtype" run tests/models/gradients.lua --dtype $dtype
done
long && ok "resnet18 with the CIFAR stem, fp16, as a graph" run models/resnet18.lua --dtype fp16 --graph \
  --repeat 2 --set stem=cifar
for seed in 1 $(long && echo 2 3); do
  ok "lenet fp16 under thread order $seed" env NNGEN_SIM_SEED=$seed build/nngen models/lenet.lua \
    --quiet --dtype fp16
done
same_bits() { # the same seed gives the same bits
  build/nngen models/lenet.lua --quiet --output "$work/a" &&
    build/nngen models/lenet.lua --quiet --output "$work/b" &&
    cmp "$work/a/probabilities.npy" "$work/b/probabilities.npy"
}
ok "the same run twice, the same bits" same_bits
tap_done
