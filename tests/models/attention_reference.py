#!/usr/bin/env python3
"""What attention.lua computes, by definition: one query and one key at a time, in plain Python.

usage: attention_reference.py inputs FOLDER [NAME=SIZE ...]   writes the inputs of attention.lua
       attention_reference.py check FOLDER OUT GATE           compares each output in OUT
       attention_reference.py equal ONE OTHER GATE            compares two files
       attention_reference.py dropout ONE OTHER GATE P        ONE is OTHER / (1 - P), or 0 in a
                                                              share P of all places
"""
import ast
import itertools
import json
import math
import os
import random
import struct
import sys

SIZES = {"batch": 2, "heads": 6, "groups": 3, "queries": 17, "keys": 17, "depth": 8, "values": 12}
TYPES = {"<f4": "f", "<i4": "i", "|b1": "?"}


class Array:
    """Numbers of a shape, read at one index for each dimension."""

    def __init__(self, shape, values):
        self.shape, self.values = tuple(shape), list(values)

    def place(self, at):
        place = 0
        for i, size in zip(at, self.shape):
            place = place * size + i
        return place

    def __getitem__(self, at):
        return self.values[self.place(at)]

    def add(self, at, value):
        self.values[self.place(at)] += value


def write(path, array, descr):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, array.shape)
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\1\0" + struct.pack("<H", 118) + header.ljust(117).encode() + b"\n")
        f.write(struct.pack("<%d%s" % (len(array.values), TYPES[descr]), *array.values))


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:10 + size].decode())
    count = math.prod(header["shape"])
    return Array(header["shape"],
                 struct.unpack("<%d%s" % (count, TYPES[header["descr"]]), data[10 + size:]))


def write_inputs(folder, sizes):
    random.seed(1)
    b, h, g, n, m = (sizes[k] for k in ("batch", "heads", "groups", "queries", "keys"))

    def floats(name, *shape):
        write(f"{folder}/{name}.npy",
              Array(shape, [random.gauss(0, 1) for _ in range(math.prod(shape))]), "<f4")

    def integers(name, values, *shape):
        write(f"{folder}/{name}.npy", Array(shape, values), "<i4")

    floats("q", b, h, n, sizes["depth"])
    floats("k", b, g, m, sizes["depth"])
    floats("v", b, g, m, sizes["values"])
    floats("head_bias", h, n, m)
    floats("key_bias", m)
    floats("distances", 2 * (m + n), h)
    floats("head_slopes", h)
    integers("valid", [max(m - 3 * i, 0) if i else 0 for i in range(b)], b)  # the first has no key
    integers("opening", [i * 2 % (m + 1) for i in range(b)], b)
    integers("key_ids", [j * 3 // m for _ in range(b) for j in range(m)], b, m)
    # 3 has no key.
    integers("query_ids", [(i * 4 // n + k) % 4 for k in range(b) for i in range(n)], b, n)
    write(f"{folder}/seen.npy",
          Array((b, 1, n, m), [random.random() < 0.6 for _ in range(b * n * m)]), "|b1")
    write(f"{folder}/row_seen.npy", Array((n, 1), [i % 3 != 1 for i in range(n)]), "|b1")
    with open(f"{folder}/sizes.json", "w") as f:
        json.dump(sizes, f)


class Inputs:
    def __init__(self, folder):
        with open(f"{folder}/sizes.json") as f:
            self.sizes = json.load(f)
        for file in os.listdir(folder):
            if file.endswith(".npy"):
                setattr(self, file[:-4], read(f"{folder}/{file}"))
        s = self.sizes
        self.B, self.H, self.G, self.N, self.M = (s["batch"], s["heads"], s["groups"],
                                                  s["queries"], s["keys"])
        self.D, self.V, self.R = s["depth"], s["values"], self.H // self.G


# For each case: the score of query i and key j (p is i's position among the keys), and whether it
# is visible.
def cases(x):
    behind = x.M - x.N

    def slope(h):
        n = 1 << x.H.bit_length() - 1  # the largest power of two, then every second of 2 n heads
        return 2 ** (-8 * (h + 1) / n) if h < n else 2 ** (-4 * (2 * (h - n) + 1) / n)

    def cap(s, c):
        return c * math.tanh(s / c)

    def same(s, *_):
        return s

    def always(*_):
        return True

    def causal(b, h, i, j):
        return j <= i + behind

    def within(w):
        return lambda b, h, i, j: abs(j - i - behind) < w

    def together(s, b, h, i, j):
        s = cap(s * 0.4 * math.sqrt(x.D) + i * 0.02, 5) + x.head_bias[h, i, j]
        return s + slope(h) * (j - i - behind)

    def seen_together(*at):
        b, h, i, j = at
        near = causal(*at) and within(9)(*at) or j < 2
        return near and j < x.valid[b,] and x.seen[b, 0, i, j] and j + h != 4

    return {
        "plain": (same, always),
        "lse": (same, always),
        "scale": (lambda s, *at: s * math.sqrt(x.D) * 0.7, always),
        "causal": (same, causal),
        "window": (same, within(4)),
        "causal_window": (same, lambda *at: causal(*at) and within(3)(*at)),
        "prefix": (same, lambda *at: causal(*at) or at[3] < 3),
        "prefixes": (same, lambda *at: causal(*at) and within(2)(*at) or at[3] < x.opening[at[0],]),
        "lengths": (same, lambda b, h, i, j: j < x.valid[b,]),
        "documents": (same, lambda b, h, i, j: x.key_ids[b, i] == x.key_ids[b, j]),
        "two_documents": (same, lambda b, h, i, j: x.query_ids[b, i] == x.key_ids[b, j]),
        "mask": (same, lambda b, h, i, j: x.seen[b, 0, i, j]),
        "row_mask": (same, lambda b, h, i, j: x.row_seen[i, 0]),
        "keep": (same, lambda b, h, i, j: (j + 2 * i + h + b) % 3 != 0),
        "bias": (lambda s, b, h, i, j: s + x.head_bias[h, i, j], always),
        "column_bias": (lambda s, b, h, i, j: cap(s, 3) + x.key_bias[j,], always),
        "alibi": (lambda s, b, h, i, j: s + slope(h) * (j - i - behind), always),
        "slopes": (lambda s, b, h, i, j: s + x.head_slopes[h,] * (j - i - behind), causal),
        "softcap": (lambda s, *at: cap(s, 2), always),
        "score": (lambda s, b, h, i, j: s * 0.5 + (j - i) * (h + 1) * 0.01, always),
        "relative": (lambda s, b, h, i, j: s + x.distances[j - i + x.N, h], always),
        "together": (together, seen_together),
        "gradient": (same, lambda b, h, i, j: causal(b, h, i, j) and j < x.valid[b,]),
    }


def probabilities(x, case):
    """For each (b, h, i): the probability of each visible key, and the logarithm of the sum of
    exp(score)."""
    score, seen = cases(x)[case]
    for b, h, i in itertools.product(range(x.B), range(x.H), range(x.N)):
        row = {}
        for j in range(x.M):
            if seen(b, h, i, j):
                s = sum(x.q[b, h, i, c] * x.k[b, h // x.R, j, c]
                        for c in range(x.D)) / math.sqrt(x.D)
                row[j] = score(s, b, h, i, j)
        most = max(row.values(), default=0)
        e = {j: math.exp(s - most) for j, s in row.items()}
        total = sum(e.values())
        yield (b, h, i), {j: p / total
                          for j, p in e.items()}, most + math.log(total) if e else -math.inf


def attend(x, case):
    """The outputs of a case: (B, H, N, V), zeros for a query that sees no key, and log-sum-exp
    (B, H, N)."""
    y, lse = [], []
    for (b, h, _), row, log in probabilities(x, case):
        y += [sum(p * x.v[b, h // x.R, j, c] for j, p in row.items()) for c in range(x.V)]
        lse.append(log)
    return {case: Array((x.B, x.H, x.N, x.V), y), case + "_lse": Array((x.B, x.H, x.N), lse)}


def gradients(x, case):
    """Of the sum of y * y, by q, k and v, where the score is q k / sqrt(D)."""
    q, k, v = (Array(a.shape, [0.0] * len(a.values)) for a in (x.q, x.k, x.v))
    for (b, h, i), row, _ in probabilities(x, case):
        g = h // x.R
        dy = [2 * sum(p * x.v[b, g, j, c] for j, p in row.items()) for c in range(x.V)]
        dp = {j: sum(d * x.v[b, g, j, c] for c, d in enumerate(dy)) for j in row}
        mean = sum(p * dp[j] for j, p in row.items())
        for j, p in row.items():
            ds = p * (dp[j] - mean) / math.sqrt(x.D)
            for c in range(x.D):
                q.add((b, h, i, c), ds * x.k[b, g, j, c])
                k.add((b, g, j, c), ds * x.q[b, h, i, c])
            for c in range(x.V):
                v.add((b, g, j, c), p * dy[c])
    return {case + "_q": q, case + "_k": k, case + "_v": v}


def error(want, got):
    """Relative, in L2; infinities must be where they are wanted."""
    pairs = list(zip(want.values, got.values))
    if want.shape != got.shape or any(w != g for w, g in pairs if math.isinf(w)):
        return math.inf
    finite = [(w, g) for w, g in pairs if not math.isinf(w)]
    norm = math.sqrt(sum(w * w for w, _ in finite)) or 1
    distance = math.sqrt(sum((w - g) ** 2 for w, g in finite))
    return distance / norm if math.isfinite(distance) else math.inf


def check(folder, out, gate):
    x, bad, names = Inputs(folder), 0, {file[:-4] for file in os.listdir(out)}
    wanted = {}
    for name in names & set(cases(x)):
        wanted.update(attend(x, name))
    if "gradient" in names:
        wanted.update(gradients(x, "gradient"))
    for name in sorted(names):
        e = error(wanted[name], read(f"{out}/{name}.npy"))
        bad += not e <= gate
        print(f"{name}: relative error {e:.3g}{'' if e <= gate else ', gate %g' % gate}")
    return bool(bad) or not names


def equal(one, other, gate):
    e = error(read(other), read(one))
    print(f"relative error {e:.3g}, gate {gate:g}")
    return not e <= gate


def dropped(one, other, gate, p):
    pairs = list(zip(read(one).values, read(other).values))
    share = sum(a == 0 for a, _ in pairs) / len(pairs)
    e = max(abs(a * (1 - p) - b) / b for a, b in pairs if a)
    print(f"share {share:.3f} of zeros, wanted {p}; error of the others {e:.3g}, gate {gate:g}")
    return not (abs(share - p) < 0.03 and e <= gate)


if __name__ == "__main__":
    verb, rest = sys.argv[1], sys.argv[2:]
    if verb == "inputs":
        given = dict(a.split("=") for a in rest[1:])
        write_inputs(rest[0], {**SIZES, **{k: int(v) for k, v in given.items()}})
    else:
        does = {"check": check, "equal": equal, "dropout": dropped}[verb]
        sys.exit(does(*rest[:2], *map(float, rest[2:])))
