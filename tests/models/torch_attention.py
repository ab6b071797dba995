#!/usr/bin/env python3
"""Compares outputs of attention.lua with PyTorch's scaled_dot_product_attention.

usage: torch_attention.py INPUTS OUT GATE   (folders, as attention_reference.py and nngen write
                                            them)
"""
import sys

import numpy
import torch
from torch.nn.functional import scaled_dot_product_attention


def main():
    folder, out, gate = sys.argv[1], sys.argv[2], float(sys.argv[3])

    def load(name):
        array = torch.from_numpy(numpy.load(f"{folder}/{name}.npy"))
        return array.double() if array.is_floating_point() else array

    q, k, v = load("q"), load("k"), load("v")
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    options = {"plain": {}, "causal": {"is_causal": True}, "scale": {"scale": 0.7},
               "bias": {"attn_mask": load("head_bias")},
               "mask": {"attn_mask": load("seen")}}
    bad = 0
    for name, given in options.items():
        want, got = scaled_dot_product_attention(q, k, v, **given), numpy.load(f"{out}/{name}.npy")
        error = (torch.from_numpy(got).double() - want).norm() / want.norm()
        print(f"{name}: relative error {error:.3g}, gate {gate:g}")
        bad += not error <= gate
    sys.exit(bool(bad))


main()
