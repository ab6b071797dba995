#!/usr/bin/env bash
# Models of models/, small: emitted, each builds as C11 and as C++ without a warning, and its
# example gives the bits of nngen run, under the sanitizers; those made of the same parts as others
# only build. In the long run a quarter of them, others after each commit. test_emit_zoo.sh has the
# larger networks.
. "$(dirname "$0")/../tap.sh"
. tests/emit/emit.sh
. tests/emit/models.sh
without_tools "emitted models"

some() { long && few 1/4 && ok "$@"; }
some "block in fp16" same_bits block --set tokens=32 width=64 heads=4 --dtype fp16
some "gpt2" builds gpt2
ok "lenet" same_bits lenet
some "mlp" same_bits mlp
some "autoencoder" same_bits autoencoder
some "bert" same_bits bert
some "llama" same_bits llama
some "vit" builds vit
some "resnet18 in bf16" same_bits resnet18 --set stem=cifar size=16 width=8 --dtype bf16
some "vgg16 in fp16" builds vgg16 --set size=32 hidden=64 --dtype fp16
some "unet" builds unet --set size=32 width=8
some "squeezenet in fp16" builds squeezenet --set size=64 --dtype fp16
some "mobilenet_v3 in bf16" builds mobilenet_v3 --set size=32 kind=small --dtype bf16
tap_done
