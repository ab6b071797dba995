#!/usr/bin/env python3
"""Writes weights, an input and the outputs of the layers of layers.lua, as PyTorch computes them.

usage: torch_layers.py FOLDER
"""
import sys

import numpy
import torch
from torch.nn import BatchNorm2d, Conv2d, ConvTranspose2d

from safetensors_file import write_safetensors

LAYERS = {  # by the name of their parameters
    "plain": Conv2d(8, 6, 3, padding=1),
    "strided": Conv2d(8, 7, (5, 3), stride=(3, 2), padding=(2, 1)),
    "dilated": Conv2d(8, 5, 3, dilation=(3, 2), padding=2, bias=False),
    "grouped": Conv2d(8, 12, 3, padding=1, groups=4),
    "depthwise": Conv2d(8, 8, 5, stride=2, padding=2, groups=8),
    "multiplied": Conv2d(8, 24, 3, groups=8),
    "pointwise": Conv2d(8, 16, 1, stride=2),
    "wide": Conv2d(8, 4, (11, 9), padding=4),
    "up": ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1),
    "up_even": ConvTranspose2d(8, 16, 4, stride=2, padding=1),
    "up_tiles": ConvTranspose2d(8, 4, (2, 3), stride=(2, 3), groups=2, bias=False),
    "up_dilated": ConvTranspose2d(8, 4, 3, dilation=2, padding=2),
    "up_uneven": ConvTranspose2d(8, 4, (5, 3), stride=(3, 2), dilation=(2, 1),
                                 padding=(1, 0), groups=4, output_padding=(2, 1)),
    "up_sparse": ConvTranspose2d(8, 8, 1, stride=2),
    "up_cut": ConvTranspose2d(8, 3, 3, stride=1, padding=2),
    "up_norm": ConvTranspose2d(8, 8, 4, stride=2, padding=1),
    "up_norm_bn": BatchNorm2d(8),
    "up_grouped": ConvTranspose2d(8, 32, 3, stride=2, padding=1, dilation=2, groups=2,
                                  output_padding=1),
    "up_block": ConvTranspose2d(8, 16, 2, stride=2),
    "up_block_conv": Conv2d(16, 16, 3, padding=1),
}


def norm(x):
    return LAYERS["up_norm_bn"](LAYERS["up_norm"](x)).relu()


def block(x):
    up = LAYERS["up_block"](x)
    return (LAYERS["up_block_conv"](up.relu()) + up).relu()


OUTPUTS = {**LAYERS, "up_norm": norm, "up_block": block}


def main():
    folder = sys.argv[1]
    torch.manual_seed(7)
    x = torch.randn(2, 8, 9, 7)
    numpy.save(f"{folder}/x.npy", x.numpy())
    weights = {}
    for name, layer in LAYERS.items():
        for p in layer.parameters():
            torch.nn.init.normal_(p, 0, 0.3)
        weights.update({f"{name}.{k}": v.float() for k, v in layer.state_dict().items() if v.dim()})
        layer.double().eval()
    for name, output in OUTPUTS.items():
        if name.endswith(("_bn", "_conv")):  # part of another one
            continue
        with torch.no_grad():
            numpy.save(f"{folder}/{name}.npy", output(x.double()).float().numpy())
    write_safetensors(f"{folder}/layers.safetensors", weights)


main()
