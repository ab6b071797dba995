#!/usr/bin/env python3
"""The networks of models/ as a Markdown table: kernels, memory and modelled times in fp16. Nothing
runs.

usage: zoo.py [MODEL...]      (by default all of NETS; NNGEN names another program than build/nngen)

Kernels are those of one run at batch 1, fused and a kernel per layer call; memory is what values
between kernels and the weights take. Times are the cost model's, of the kernels alone: none is
measured.
"""
import json
import os
import subprocess
import sys

NNGEN = os.environ.get("NNGEN", "build/nngen")
ARCH = "sm_90a"
NETS = ["resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "vgg16", "squeezenet",
        "googlenet", "inception_v3", "densenet121", "mobilenet_v2", "mobilenet_v3",
        "mobilenet_v3 kind=small", "efficientnet_b0", "convnext_tiny",
        "vit size=b_16", "fcn_resnet50", "unet"]


def show(model, settings, *options):
    line = [NNGEN, "show", f"models/{model}.lua", "--dtype", "fp16", "--arch", ARCH, *options,
            "--set", *settings]
    return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)


def row(net):
    model, *settings = net.split()
    plan = {b: show(model, [*settings, f"batch={b}"], "--plan") for b in (1, 32)}
    costs = {b: show(model, [*settings, f"batch={b}"], "--costs", "--json") for b in (1, 32)}
    unfused = show(model, [*settings, "batch=1"], "--costs", "--json", "--lowering", "unfused")
    shape = next(t["shape"] for t in plan[1]["tensors"] if t["role"] == "input")
    mb = [f"{plan[b]['arena_bytes'] / 1e6:.1f}" for b in (1, 32)]
    kernels = [len(c["kernels"]) for c in (costs[1], unfused)]
    return [net, f"{shape[-1]}x{shape[-2]}", *map(str, kernels),
            f"{plan[1]['static_bytes'] / 1e6:.1f}", *mb,
            *(f"{costs[b]['modelled_us'] / 1e3:.2f}" for b in (1, 32))]


def main():
    head = ["model", "picture", "kernels", "unfused", "weights, MB", "values, MB", "at batch 32",
            "modelled, ms", "at batch 32"]
    print("| " + " | ".join(head) + " |", "|---" * len(head) + "|", sep="\n")
    for net in sys.argv[1:] or NETS:
        print("| " + " | ".join(row(net)) + " |", flush=True)


if __name__ == "__main__":
    main()
