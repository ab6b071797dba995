#!/usr/bin/env bash
# The long run's larger networks of models/: as test_emit_models.sh has the others, or, where they
# are made of the same parts, built alone; one of them, another after each commit.
. "$(dirname "$0")/../tap.sh"
. tests/emit/emit.sh
. tests/emit/models.sh
without_tools "emitted networks"

in_files() { # is every model of models/ emitted here or there?
  local model name
  for model in models/*.lua; do
    name=$(basename "$model" .lua)
    case $name in # what other models are made of
    resnet | bottleneck | mobile | inception | transformer | classifier) continue ;;
    resnet34 | resnext50_32x4d | wide_resnet50_2) continue ;; # resnet18, resnet50 in other numbers
    resnet50) continue ;;                                     # fcn_resnet50 begins with it
    densenet121 | inception_v3) continue ;; # convolutions and concats, as googlenet, in 120 shapes
    mobilenet_v2) continue ;;               # mobilenet_v3 without its squeezes
    esac
    grep -qE "(same_bits|builds) $name\b" tests/emit/test_emit_{models,zoo}.sh ||
      { echo "$model is not"; return 1; }
  done
}
ok "every model is emitted in a test" in_files
some() { long && few 1/4 && ok "$@"; }
some "fcn_resnet50 in fp16" builds fcn_resnet50 --set size=64 width=8 --dtype fp16
some "googlenet in bf16" builds googlenet --set size=32 --dtype bf16
some "efficientnet_b0 in bf16" builds efficientnet_b0 --set size=32 --dtype bf16
some "convnext_tiny in bf16" same_bits convnext_tiny --set size=64 --dtype bf16
tap_done
