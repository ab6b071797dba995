#!/usr/bin/env python3
"""What heads.lua computes, by PyTorch in double precision: weights, an input and the output.

usage: torch_heads.py FOLDER [NAME=VALUE ...]   the settings of heads.lua
"""
import os
import sys

import numpy
import torch
from safetensors_file import write_safetensors

SETTINGS = dict(form="rms", turn="none", keys="true", B="1", H="4", G="2", N="17", D="40", part="0",
                width="24", causal="true", order="bnhd", whole="false")
EPS = {"rms": 2**-23, "twice": 2**-23, "layer": 1e-5}


def main():
    folder = sys.argv[1]
    s = {**SETTINGS, **dict(a.split("=") for a in sys.argv[2:])}
    B, H, G, N, D, C = (int(s[k]) for k in ("B", "H", "G", "N", "D", "width"))
    part = int(s["part"]) or D
    whole, torch_of = s["whole"] == "true", lambda *shape: torch.randn(*shape, dtype=torch.float32)
    torch.manual_seed(3)
    x, weights = torch_of(B, N, C), {}

    def weight(name, *shape):
        weights[name] = torch_of(*shape) * (C**-0.5 if len(shape) == 2 else 1)
        return weights[name].double()

    def norm(y, name):
        eps = EPS.get(s["form"], 0)
        if s["form"] == "twice":
            y = y - y.mean(-1, keepdim=True)
        if s["form"] in ("rms", "twice"):
            return y * (y.square().mean(-1, keepdim=True) + eps).rsqrt() * weight(
                name + "_norm.weight", y.shape[-1])
        if s["form"] == "layer":
            return torch.nn.functional.layer_norm(
                y, y.shape[-1:], weight(name + "_norm.weight", y.shape[-1]),
                weight(name + "_norm.bias", y.shape[-1]), eps)
        if s["form"] == "l2":
            return y / (y.norm(dim=-1, keepdim=True) + 1e-6)
        return y.softmax(-1) * 3 if s["form"] == "softmax" else y

    def turn(y):
        if s["turn"] == "none":
            return y
        z, rest = y[..., :part], y[..., part:]
        angle = torch.arange(N).double()[:, None] * 10000.0 ** (-2 * torch.arange(part // 2) / part)
        if s["turn"] == "pairs":
            z = torch.view_as_complex(z.reshape(*z.shape[:-1], part // 2, 2))
            z = torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
        else:
            a, b = z.chunk(2, -1)
            cos, sin = angle.cos(), angle.sin()
            z = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        return torch.cat([z, rest], -1)

    def split(y, heads):
        if s["order"] == "bhnd":
            return y.reshape(B, heads, N, D)
        return y.reshape(B, N, heads, D).transpose(1, 2)

    def head(name, heads, made):
        y = x.double() @ weight(name + ".weight", heads * D, C).T
        if not made:
            return split(y, heads)
        return turn(split(norm(y, name), heads) if whole else norm(split(y, heads), name))

    q, k, v = head("q", H, True), head("k", G, s["keys"] == "true"), head("v", G, False)
    k, v = k.repeat_interleave(H // G, 1), v.repeat_interleave(H // G, 1)
    scores = q @ k.transpose(-1, -2) * D**-0.5
    if s["causal"] == "true":
        scores = scores.masked_fill(torch.ones(N, N).triu(1).bool(), float("-inf"))
    y = scores.softmax(-1) @ v
    for name in ("in", "out"):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    write_safetensors(f"{folder}/weights.safetensors", weights)
    numpy.save(f"{folder}/in/x.npy", x.numpy())
    numpy.save(f"{folder}/out/y.npy",
               y.transpose(1, 2).reshape(B, N, H * D).float().contiguous().numpy())


main()
