#!/usr/bin/env bash
# The long run's residual and branching networks of models/, as test_zoo.sh has the others.
. "$(dirname "$0")/../tap.sh"
. tests/models/zoo.sh
long && {
  small 64 resnet50
  small 64 resnext50_32x4d
  small 64 densenet121
  small 64 googlenet
  small 96 inception_v3
}
tap_done
