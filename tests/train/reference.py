#!/usr/bin/env python3
"""What a training run should make, in plain Python.

usage: reference.py mar DATA            mean average recall at 5 of the test pictures' pixels
       reference.py ema DECAY FILE...   ema of conv1.weight after steps 1, 2, ...; the last file
                                        holds it
       reference.py log FILE KEY        the last value of KEY in a log
       reference.py means LOG KEY       what is printed has each epoch's mean of KEY, over the
                                        steps that have one that is finite
       reference.py summary FILE ONCE   a --json summary is whole; beside that of `nngen run`
"""
import json
import struct
import sys

from tensors import read


def npy(path):
    data = open(path, "rb").read()
    length = struct.unpack("<H", data[8:10])[0]
    return eval(data[10:10 + length])["shape"], data[10 + length:]


def mar(folder):
    shape, pixels = npy(folder + "/test_images.npy")
    labels = struct.unpack("<%di" % shape[0], npy(folder + "/test_labels.npy")[1])
    size = len(pixels) // shape[0]
    rows = [[v / 255 for v in pixels[i * size:(i + 1) * size]] for i in range(shape[0])]
    total = 0.0
    for i, row in enumerate(rows):
        far = sorted((sum((a - b) ** 2 for a, b in zip(row, other)), j)
                     for j, other in enumerate(rows) if j != i)
        total += sum(labels[j] == labels[i] for _, j in far[:5]) / min(5, len(far))
    print(total / len(rows))


def floats(path, name):
    data = read(path)[name][1]
    return struct.unpack("<%df" % (len(data) // 4), data)


def ema(decay, *files):
    mean = None
    for t, path in enumerate(files):
        d, values = min(decay, t / (t + 9)), floats(path, "conv1.weight")
        mean = [d * m + (1 - d) * v for m, v in zip(mean or values, values)]
    final = floats(files[-1].replace("_last", "_final_weights"), "conv1.weight")
    for name, got in (("ema", floats(files[-1], "ema.conv1.weight")), ("final weights", final)):
        worst = max(abs(a - b) for a, b in zip(mean, got))
        assert worst < 1e-6, (name, worst)
    assert floats(files[-1], "conv1.weight") != final


def means(log, key):
    steps = [s for s in map(json.loads, open(log)) if "epoch" in s]
    assert any(s.get(key, 0) is None for s in steps)
    for epoch, printed in enumerate(l for l in sys.stdin if l.startswith("epoch")):
        found = [s[key] for s in steps
                 if s["epoch"] == epoch + 1 and s.get(key) is not None]
        words = printed.split("eval")[0].split()
        assert (key in words) == bool(found), printed
        if found:
            got = float(words[words.index(key) + 1])
            assert abs(got * len(found) / sum(found) - 1) < 1e-3, (printed, found)


def summary(path, once):
    run, work = json.load(open(path)), json.load(open(once))["work"]
    s = run["summary"]
    assert s["accuracy"] == run["eval"]["accuracy"], s
    left = s["fusion"]
    outside = left["dram_bytes"] - left["dram_bytes_between"] # pictures; weights read and written
    assert left["kernels"] == run["kernels"] and left["dram_bytes"] == work["bytes"], left
    assert 0 < left["dram_bytes_between"] and outside > 8 * 64 + 2 * 4 * 304, left
    assert 1.3 * (left["kernels"] - 1) < left["at_most_gain_us"] < left["modelled_us"], left
    assert set(s["ms_phases"]) == {"forward", "loss", "backward", "optimizer_step"}, s
    assert all(v > 0 for v in s["ms_phases"].values()), s
    assert abs(sum(s["ms_phases"].values()) - s["ms_kernels"]) < 1e-6 * s["ms_kernels"] + 1e-9
    assert (0 < s["examples_per_second"] == run["batch"] * 1e3 / s["ms_step"]
            or abs(s["examples_per_second"] * s["ms_step"] / run["batch"] / 1e3 - 1) < 1e-6)
    assert s["peak_bytes"] > run["arena_bytes"]
    shares = [o["share"] for o in s["operations"]]
    assert (shares == sorted(shares, reverse=True) and sum(shares) <= 1 + 1e-6
            and len(shares) == 8), shares


def main(mode, *rest):
    if mode == "log":
        print([json.loads(line)[rest[1]] for line in open(rest[0]) if '"%s"' % rest[1] in line][-1])
    elif mode == "ema":
        ema(float(rest[0]), *rest[1:])
    else:
        {"mar": mar, "means": means, "summary": summary}[mode](*rest)


main(*sys.argv[1:])
