#!/usr/bin/env python3
"""Writes a torchvision ResNet's random weights as safetensors, an input, and its logits as npy.

usage: torch_reference.py ARCH FOLDER [STEM]   (ARCH resnet18 or resnet34; STEM imagenet or cifar)
Exit code 77: torch or torchvision is not installed.
"""
import sys

try:
    import numpy
    import torch
    import torchvision
except ImportError:
    sys.exit(77)

from safetensors_file import write_safetensors  # noqa: E402


def main():
    arch, folder = sys.argv[1], sys.argv[2]
    cifar = len(sys.argv) > 3 and sys.argv[3] == "cifar"
    torch.manual_seed(42)
    net = getattr(torchvision.models, arch)(num_classes=10 if cifar else 1000)
    if cifar:
        net.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        net.maxpool = torch.nn.Identity()
    for m in net.modules():  # statistics as after training, not 0 and 1
        if isinstance(m, torch.nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.2)
            m.running_var.uniform_(0.5, 1.5)
            m.weight.data.uniform_(0.5, 1.5)
            m.bias.data.normal_(0, 0.2)
    net.eval()
    x = torch.randn(2, 3, 32, 32) if cifar else torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        y = net.double()(x.double())
    state = {k: v.float() for k, v in net.state_dict().items() if v.is_floating_point()}
    write_safetensors(f"{folder}/{arch}.safetensors", state)
    numpy.save(f"{folder}/x.npy", x.numpy())
    numpy.save(f"{folder}/y.npy", y.float().numpy())


if __name__ == "__main__":
    main()
