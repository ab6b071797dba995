#!/usr/bin/env python3
"""The forms of attend_forms.lua with PyTorch, in double.

usage: attend_forms.py FOLDER FORM...   writes all inputs to FOLDER/in, outputs to FOLDER/want/FORM
"""
import os
import sys

import numpy
import torch

B, H, N, M, D, W = 2, 3, 33, 47, 16, 24
SHAPES = {"q": (B, H, N, D), "k": (B, H, M, D), "v": (B, H, M, W), "v2": (B, H, M, 8),
          "q2": (B, H, N, D), "k2": (B, H, M, D), "lambda": (1,), "bias": (H, N, M),
          "of_head": (H, 1, 1), "of_window": (B, 1, N, M), "q6": (B, 6, N, D),
          "kg": (B, 2, M, D), "vg": (B, 2, M, W), "k1": (B, 1, M, D), "v1": (B, 1, M, W),
          "qe": (B, N, 2, 3, D),
          "ke": (B, M, 2, D), "ve": (B, M, 2, W), "q1": (1, H, N, D), "kb": (1, H, M, D),
          "vb": (1, H, M, W), "qc": (B, D, N), "kc": (B, D, M), "vc": (B, W, M),
          "bias_last": (N, M, H), "qd": (B, 2 * H, N, D), "kd": (B, 2 * H, M, D),
          "q8": (B, H, N, 8), "k8": (B, 1, M, 8),
          "k_grid": (B, H, 6, 8, D), "v_grid": (B, H, 6, 8, W), "rel_h": (3, 6, D),
          "rel_w": (11, 8, D), "of_rows": (H, 3, 1, 6, 1), "of_columns": (H, 1, 11, 1, 8),
          "k_own": (B, H, N, D), "v_own": (B, H, N, W), "distances": (N, D), "few": (17, D),
          "policy": (B, 1, 1, M), "of_key": (1, 6, 1),
          "q_last": (B, 3, 11, H, D), "k_last": (B, 6, 8, H, D),
          "v_last": (B, 6, 8, H, W)}


def of_grids(form, x):
    """Those whose scores are seen as a grid."""
    if form == "grids":
        s = torch.einsum("bxyhd,bijhd->bhxyij", x["q_last"], x["k_last"]) * D ** -0.5
        p = s.flatten(4).softmax(-1).view(s.shape)
        return torch.einsum("bhxyij,bijhw->bxyhw", p, x["v_last"])
    q = x["q"].view(B, H, 3, 11, D)
    s = torch.einsum("bhxyd,bhijd->bhxyij", q, x["k_grid"]) * D ** -0.5
    if form == "decomposed":
        s = s + torch.einsum("byhwc,hkc->byhwk", q, x["rel_h"])[..., None]
        s = s + torch.einsum("byhwc,wkc->byhwk", q, x["rel_w"])[..., None, :]
    elif form == "grid_bias":
        hidden = torch.arange(6)[:, None] > torch.arange(3)[:, None, None, None] + 2
        s = (s + x["of_rows"] + x["of_columns"]).masked_fill(hidden, -torch.inf)
    elif form == "both_axes_flat":
        s = s + x["of_key"]
    p = s.flatten(4).softmax(-1).view(B, H, N, 48)
    return p @ x["v_grid"].flatten(2, 3)


def wanted(form, x):
    """The outputs of a form, of tensors by name."""
    scale = D ** -0.5
    s = x["q"] @ x["k"].mT * scale
    row, key = torch.arange(N)[:, None], torch.arange(M)[None, :]

    def weigh(scores, v=x["v"]):
        return scores.softmax(-1) @ v

    def masked(seen, otherwise):
        return s.masked_fill(~seen, otherwise)

    if form in ("decomposed", "grid_bias", "both_axes", "both_axes_flat", "grids"):
        return (of_grids(form, x),)
    if form == "two_values":
        return weigh(s), weigh(s, x["v2"])
    if form == "two_masks":
        return weigh(masked(key <= row + 9, -1e9)), weigh(masked(key >= row - 9, -1e9))
    if form == "two_scales":
        return weigh(s * 2), weigh(s * 0.5)
    if form == "differential":
        return (weigh(s) - x["lambda"] * weigh(x["q2"] @ x["k2"].mT * scale),)
    if form == "stored":
        return weigh(s), s
    if form in ("nan_to_num", "where_nan", "kept_numbers", "masked_twice", "flat_nan"):
        return (masked(key <= row - 5, -torch.inf).softmax(-1).nan_to_num(0) @ x["v"],)
    if form in ("powers_masked", "powers_filled", "summed_again"):
        return (weigh(masked(key <= row + 3, -torch.inf)),)
    if form in ("powers_chosen", "powers_weighed"):
        e = (s - s.amax(-1, keepdim=True)).exp()
        if form == "powers_weighed":
            e = e * x["policy"].sigmoid()
            return (e / e.sum(-1, keepdim=True).clamp(min=1e-6) @ x["v"],)
        e = e * (key <= row - 5)
        return (e / (e.sum(-1, keepdim=True) + 1e-6) @ x["v"],)
    if form == "relative_shift":
        back = (torch.arange(N)[None, :] - row + N - 1).clamp(max=N - 1)
        near = (x["q"] @ x["distances"].mT).gather(3, back.expand(B, H, N, N))
        s = (x["q"] @ x["k_own"].mT + near) * scale
        return (weigh(s.masked_fill(torch.arange(N) > row, -torch.inf), x["v_own"]),)
    if form == "relative_gathered":
        ids = (key - row).clamp(-8, 8) + 8
        near = (x["q"] @ x["few"].mT).gather(3, ids.expand(B, H, N, M))
        return (weigh(s + near * scale),)
    if form == "exp2_shifted":
        return (weigh(s * numpy.log(2)),)
    if form == "differential_heads":
        p = (x["qd"] @ x["kd"].mT * scale).softmax(-1).unflatten(1, (H, 2))
        return ((p[:, :, 0] - x["lambda"] * p[:, :, 1]) @ x["v"],)
    if form == "windows_alone":
        return (weigh(s + x["of_window"]),)
    if form in ("turned_scores", "windows"):
        return (weigh(s + x["bias"]),)
    if form == "heads_last":
        return (weigh(s + x["bias_last"].permute(2, 0, 1)),)
    if form == "keys_outermost":
        return (weigh(masked(key <= row + 3, -1e9)),)
    if form == "turned_mask":
        return (weigh(masked(key <= row + 3, -1e9) + key * 0.1),)
    if form == "positions_beside":
        s = s + x["q8"] @ x["k8"].mT
        return (weigh(s.masked_fill(key > row + 14, -torch.inf)),)
    if form.startswith("channels"):
        return (weigh(x["qc"].mT @ x["kc"] * scale, x["vc"].mT).mT,)
    if form.startswith("sink"):
        beside = x["of_head"].expand(B, -1, N, -1)
        return (torch.cat((s, beside), -1).softmax(-1)[..., :M] @ x["v"],)
    if form == "heads_scaled":
        return (weigh((x["q"] * x["of_head"]) @ x["k"].mT),)
    if form in ("repeated", "expanded", "log_shared"):
        k, v = (x[name].repeat_interleave(3, 1) for name in ("kg", "vg"))
        return (weigh(x["q6"] @ k.mT * scale, v),)
    if form == "shared":
        return (weigh(x["q"] @ x["k1"].mT * scale, x["v1"]),)
    if form.startswith("shared_"):
        names = dict(zip("qkv", ("q1", "kb", "vb")))
        q, k, v = (x[names[c] if c in form[7:] else c] for c in "qkv")
        return (weigh(q @ k.mT * scale, v),)
    if form == "learned":
        s = x["q1"] @ x["k"].mT * scale
        return (weigh(s.masked_fill(key > row + M - N, -torch.inf)),)
    if form == "einsum_groups":
        q = x["qe"].permute(0, 2, 3, 1, 4)
        y = weigh(q @ x["ke"].permute(0, 2, 3, 1)[:, :, None] * scale,
                  x["ve"].permute(0, 2, 1, 3)[:, :, None])
        return (y.permute(0, 3, 1, 2, 4),)
    return (weigh(s),)


def main():
    folder, forms = sys.argv[1], sys.argv[2:]
    random = numpy.random.default_rng(5)
    x = {name: random.standard_normal(shape, numpy.float32) for name, shape in SHAPES.items()}
    os.makedirs(f"{folder}/in")
    for name, values in x.items():
        numpy.save(f"{folder}/in/{name}.npy", values)
    x = {name: torch.from_numpy(values).double() for name, values in x.items()}
    for form in forms:
        os.makedirs(f"{folder}/want/{form}")
        for name, want in zip(("y", "y2"), wanted(form, x)):
            numpy.save(f"{folder}/want/{form}/{name}.npy", want.numpy())


main()
