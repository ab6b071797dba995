#!/usr/bin/env bash
# The convolutional networks of models/: as many parameters as published, and small ones whose
# kernels agree with the oracle, and whose logits, of the same weights, with torchvision's where it
# is installed. The long run has every third of the chains of layers and networks of mobile
# blocks here; test_zoo_branches.sh has the residual and branching ones.
. "$(dirname "$0")/../tap.sh"
. tests/models/zoo.sh
published() { ok "${*:2} has $1 parameters" weights "$@"; }

published  25557032 resnet50
published  25028904 resnext50_32x4d
published  68883240 wide_resnet50_2
published   3504872 mobilenet_v2
published   5483032 mobilenet_v3
published   2542856 mobilenet_v3 kind=small
published   5288548 efficientnet_b0
published   7978856 densenet121
published 138357544 vgg16
published 138365992 vgg16 batch_norm=true
published   1235496 squeezenet
published   6624904 googlenet
published  23834568 inception_v3
published  28589128 convnext_tiny
published  32957013 fcn_resnet50 classes=21

long && {
  small 64 squeezenet
  small 64 mobilenet_v2 width=0.5
  small 64 mobilenet_v3
  small 64 efficientnet_b0
  small 64 convnext_tiny
  small 32 vgg16 hidden=64 batch_norm=true
  ok "unet fp16" oracle fp16 32 unet width=8
}
tap_done
