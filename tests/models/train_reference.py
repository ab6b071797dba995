#!/usr/bin/env python3
"""Losses, optimizers, schedules and running statistics by their formulas, in plain Python and doubles.

usage: train_reference.py losses FOLDER            writes the inputs of losses.lua, and what it
                                                   should give
       train_reference.py optim FOLDER CASE CLIP   writes inputs and weights of optim.lua; W.npy and
                                                   B.npy after 20 steps
       train_reference.py schedules FOLDER         what optim.lua's schedules should give
       train_reference.py statistics FOLDER        the input of statistics.lua, and what it gives
                                                   in and after its third step
       train_reference.py pytorch FOLDER           all of these formulas beside PyTorch's
       train_reference.py compare FOLDER OUT GATE  every expected array beside the one in OUT
       train_reference.py weights FILE FOLDER GATE layer.weight and layer.bias of a safetensors file
                                                   beside W and B
"""
import json
import math
import os
import random
import struct
import sys

from attention_reference import Array, read, write

torch = None  # but for `pytorch`: to import it takes longer than all that is computed here


def save(folder, name, shape, values, descr="<f4"):
    os.makedirs(folder, exist_ok=True)
    write(os.path.join(folder, name + ".npy"), Array(shape, values), descr)


def rounded(values):
    return list(struct.unpack("<%df" % len(values), struct.pack("<%df" % len(values), *values)))


def normal(count, deviation=1.0):
    return rounded([random.gauss(0, deviation) for _ in range(count)])


# ---- losses --------------------------------------------------------------------------------------


def log_softmax(row):
    most = max(row)
    total = most + math.log(sum(math.exp(v - most) for v in row))
    return [v - total for v in row]


def cross_entropy(x, labels, smoothing=0.0, weight=None, ignore=-100):
    """Of each row, and what a mean divides by."""
    each, total = [], 0.0
    for row, label in zip(x, labels):
        if label == ignore:
            each.append(0.0)
            continue
        logs, w = log_softmax(row), weight or [1.0] * len(row)
        spread = sum(a * b for a, b in zip(w, logs)) / len(row)
        each.append(-(1 - smoothing) * w[label] * logs[label] - smoothing * spread)
        total += w[label]
    return each, total


def loss_values(x, y, p, labels, weight):
    flat = [(a, b) for r, s in zip(x, y) for a, b in zip(r, s)]
    huber = lambda d, k: d * d / 2 if d <= k else k * (d - k / 2)
    bce = lambda a, t, w: ((1 - t) * a
                           + (1 + (w - 1) * t) * (math.log1p(math.exp(-abs(a))) + max(-a, 0)))
    logits = [(a, t) for r, s in zip(x, p) for a, t in zip(r, s)]
    n = len(flat)
    out = {
        "mse": sum((a - b) ** 2 for a, b in flat) / n,
        "mse_sum": sum((a - b) ** 2 for a, b in flat),
        "mse_none": [(a - b) ** 2 for a, b in flat], "l1": sum(abs(a - b) for a, b in flat) / n,
        "huber": sum(huber(abs(a - b), 1) for a, b in flat) / n,
        "huber_half": sum(huber(abs(a - b), 0.5) for a, b in flat) / n,
        "bce": sum(bce(a, t, 1) for a, t in logits) / n,
        "bce_pos": sum(bce(a, t, 3) for a, t in logits) / n,
        "accuracy": [float(max(range(5), key=row.__getitem__) == label)
                     for row, label in zip(x, labels)],
    }
    for name, options in {"ce": {}, "ce_smooth": {"smoothing": 0.1},
                          "ce_weight": {"weight": weight},
                          "ce_both": {"weight": weight, "smoothing": 0.2}}.items():
        each, total = cross_entropy(x, labels, **options)
        out[name] = sum(each) / total
    out["ce_none"] = cross_entropy(x, labels)[0]
    out["ce_ignore"] = sum(cross_entropy(x, [max(k, 0) for k in labels], ignore=2)[0])
    return out


def losses(folder):
    random.seed(3)
    rows = lambda values: [values[i * 5:i * 5 + 5] for i in range(6)]
    x, y = normal(30, 2), normal(30)
    p, weight = (rounded([random.random() for _ in range(30)]),
                 rounded([random.random() + 0.5 for _ in range(5)]))
    labels = [0, 4, -100, 2, 2, 1]
    for name, shape, values in (("x", (6, 5), x), ("y", (6, 5), y), ("p", (6, 5), p),
                                ("weight", (5,), weight)):
        save(folder + "/in", name, shape, values)
    save(folder + "/in", "labels", (6,), labels, "<i4")
    made = loss_values(rows(x), rows(y), rows(p), labels, weight)
    step = 1e-6
    for name in list(made):
        if isinstance(made[name], float):  # the gradient by x, by central differences
            slopes = []
            for i in range(30):
                ends = []
                for sign in (1, -1):
                    moved = list(x)
                    moved[i] += sign * step
                    ends.append(loss_values(rows(moved), rows(y), rows(p), labels, weight)[name])
                slopes.append((ends[0] - ends[1]) / (2 * step))
            made["d_" + name] = slopes
    for name, values in made.items():
        one = isinstance(values, float)
        shape = () if one else (6, 5) if len(values) == 30 else (6,)
        save(folder + "/out", name, shape, [values] if one else values)
    if torch:
        check_losses(folder, x, y, p, weight, labels, made)


def check_losses(folder, x, y, p, weight, labels, made):
    f = torch.nn.functional
    x, y, p = (torch.tensor(v, dtype=torch.float64).reshape(6, 5) for v in (x, y, p))
    weight, labels = torch.tensor(weight, dtype=torch.float64), torch.tensor(labels)
    same = {"mse": f.mse_loss(x, y), "l1": f.l1_loss(x, y), "huber": f.huber_loss(x, y),
            "huber_half": f.huber_loss(x, y, delta=0.5),
            "bce": f.binary_cross_entropy_with_logits(x, p),
            "bce_pos": f.binary_cross_entropy_with_logits(x, p, pos_weight=torch.tensor([3.0])),
            "ce": f.cross_entropy(x, labels),
            "ce_smooth": f.cross_entropy(x, labels, label_smoothing=0.1),
            "ce_weight": f.cross_entropy(x, labels, weight=weight),
            "ce_both": f.cross_entropy(x, labels, weight=weight, label_smoothing=0.2)}
    for name, value in same.items():
        assert abs(value.item() - made[name]) < 1e-9, (name, value.item(), made[name])


# ---- optimizers ----------------------------------------------------------------------------------


def transpose(m):
    return [list(r) for r in zip(*m)]


def matmul(a, b):
    return [[sum(x * y for x, y in zip(r, c)) for c in zip(*b)] for r in a]


def orthogonal(g):
    tall = len(g) > len(g[0])
    x = transpose(g) if tall else g
    norm = max(math.sqrt(sum(v * v for r in x for v in r)), 1e-7)
    x = [[v / norm for v in r] for r in x]
    for _ in range(5):
        a = matmul(x, transpose(x))
        b = [[-4.7750 * u + 2.0315 * v for u, v in zip(r, s)] for r, s in zip(a, matmul(a, a))]
        x = [[3.4445 * u + v for u, v in zip(r, s)] for r, s in zip(x, matmul(b, x))]
    return transpose(x) if tall else x


class Optimizer:
    """Steps of one parameter, a flat list."""

    def __init__(self, case, name, shape):
        self.case, self.name, self.shape, self.t = case, name, shape, 0
        self.m, self.v, self.most = ([0.0] * math.prod(shape) for _ in range(3))

    def step(self, p, g):
        self.t += 1
        return getattr(self, self.case)(p, g)

    def descent(self, p, g, momentum, nesterov, decay, lr=0.02):
        g = [a + decay * b for a, b in zip(g, p)]
        self.m = [momentum * a + b for a, b in zip(self.m, g)]
        d = [a + momentum * b for a, b in zip(g, self.m)] if nesterov else self.m if momentum else g
        return [a - lr * b for a, b in zip(p, d)]

    def sgd(self, p, g): return self.descent(p, g, 0, False, 0)
    def momentum(self, p, g): return self.descent(p, g, 0.9, False, 0.05)
    def nesterov(self, p, g): return self.descent(p, g, 0.9, True, 0.05)
    def scaled(self, p, g): return self.descent(p, g, 0.9, False, 0)

    def groups(self, p, g):
        bias = self.name == "layer.bias"
        return self.descent(p, g, 0, False, 0 if bias else 0.1, 0.005 if bias else 0.02)

    def dampened(self, p, g):  # up the gradient
        g = [-a for a in g]
        self.m = g if self.t == 1 else [0.9 * a + 0.7 * b for a, b in zip(self.m, g)]
        return [a - 0.02 * b for a, b in zip(p, self.m)]

    def amsgrad(self, p, g):
        self.follow(g, 0.5, 0.6)
        two = 1 - 0.6 ** self.t
        self.most = [max(a, b) for a, b in zip(self.most, self.v)]
        return [a - 0.02 * m / (1 - 0.5 ** self.t) / (math.sqrt(v / two) + 1e-8)
                for a, m, v in zip(p, self.m, self.most)]

    def follow(self, g, one=0.9, two=0.999):
        self.m = [one * a + (1 - one) * b for a, b in zip(self.m, g)]
        self.v = [two * a + (1 - two) * b * b for a, b in zip(self.v, g)]

    def adamax(self, p, g):
        g = [a + 0.05 * b for a, b in zip(g, p)]
        self.follow(g)
        self.most = [max(0.999 * a, abs(b) + 1e-8) for a, b in zip(self.most, g)]
        return [a - 0.02 / (1 - 0.9 ** self.t) * m / u for a, m, u in zip(p, self.m, self.most)]

    def nadam(self, p, g):
        g = [a + 0.05 * b for a, b in zip(g, p)]
        self.follow(g)
        mu = lambda t: 0.9 * (1 - 0.5 * 0.96 ** (t * 0.1))
        now, ahead = (math.prod(mu(i) for i in range(1, t + 1)) for t in (self.t, self.t + 1))
        return [a - 0.02 * (b * (1 - mu(self.t)) / (1 - now) + m * mu(self.t + 1) / (1 - ahead))
                / (math.sqrt(v / (1 - 0.999 ** self.t)) + 1e-8)
                for a, b, m, v in zip(p, g, self.m, self.v)]

    def radam(self, p, g):
        g = [a + 0.05 * b for a, b in zip(g, p)]
        self.follow(g)
        power, last = 0.999 ** self.t, 2 / (1 - 0.999) - 1
        rho = last - 2 * self.t * power / (1 - power)
        by = [1.0] * len(p)
        if rho > 5:
            r = math.sqrt((rho - 4) * (rho - 2) * last / ((last - 4) * (last - 2) * rho))
            by = [r * math.sqrt(1 - power) / (math.sqrt(v) + 1e-8) for v in self.v]
        return [a - 0.02 * m / (1 - 0.9 ** self.t) * b for a, m, b in zip(p, self.m, by)]

    def rmsprop(self, p, g):
        g = [a + 0.05 * b for a, b in zip(g, p)]
        self.follow(g, 0.99, 0.99)
        self.most = [0.9 * a + b / (math.sqrt(v - m * m) + 1e-8)
                     for a, b, m, v in zip(self.most, g, self.m, self.v)]
        return [a - 0.02 * b for a, b in zip(p, self.most)]

    def adagrad(self, p, g):
        if self.t == 1: self.v = [0.2] * len(p)
        self.v = [a + b * b for a, b in zip(self.v, g)]
        return [a - 0.02 / (1 + (self.t - 1) * 0.1) * b / (math.sqrt(v) + 1e-10)
                for a, b, v in zip(p, g, self.v)]

    def adadelta(self, p, g):
        g = [a + 0.05 * b for a, b in zip(g, p)]
        self.v = [0.9 * a + 0.1 * b * b for a, b in zip(self.v, g)]
        d = [math.sqrt(m + 1e-6) / math.sqrt(v + 1e-6) * b for m, v, b in zip(self.m, self.v, g)]
        self.m = [0.9 * a + 0.1 * b * b for a, b in zip(self.m, d)]
        return [a - 0.02 * b for a, b in zip(p, d)]

    def rprop(self, p, g):  # v: the size of each one's step
        if self.t == 1: self.v = [0.02] * len(p)
        same = [a * b for a, b in zip(g, self.m)]
        self.v = [min(max(a * (1.25 if s > 0 else 0.5 if s < 0 else 1), 1e-6), 50)
                  for a, s in zip(self.v, same)]
        self.m = [0.0 if s < 0 else a for a, s in zip(g, same)]
        return [a - ((b > 0) - (b < 0)) * v for a, b, v in zip(p, self.m, self.v)]

    def asgd(self, p, g):
        eta = 0.02 / (1 + 0.1 * 0.02 * (self.t - 1)) ** 0.75
        return [a * (1 - 0.1 * eta) - eta * (b + 0.05 * a) for a, b in zip(p, g)]

    def moments(self, p, g, decay):
        self.follow(g)
        one, two = 1 - 0.9 ** self.t, 1 - 0.999 ** self.t
        return [a * (1 - 0.02 * decay) - 0.02 * m / one / (math.sqrt(v / two) + 1e-8)
                for a, m, v in zip(p, self.m, self.v)]

    def adam(self, p, g): return self.moments(p, [a + 0.05 * b for a, b in zip(g, p)], 0)
    def adamw(self, p, g): return self.moments(p, g, 0.05)

    def lion(self, p, g):
        d = [0.9 * a + 0.1 * b for a, b in zip(self.m, g)]
        self.m = [0.99 * a + 0.01 * b for a, b in zip(self.m, g)]
        return [a * (1 - 0.02 * 0.05) - 0.02 * ((u > 0) - (u < 0)) for a, u in zip(p, d)]

    def muon(self, p, g):
        if len(self.shape) != 2:
            return self.moments(p, g, 0.1)
        rows, columns = self.shape
        self.m = [0.95 * a + 0.05 * b for a, b in zip(self.m, g)]
        ahead = [0.05 * a + 0.95 * b for a, b in zip(g, self.m)]
        o = orthogonal([ahead[i * columns:(i + 1) * columns] for i in range(rows)])
        scale = 0.02 * math.sqrt(max(1, rows / columns))
        return [a * (1 - 0.02 * 0.1) - scale * b for a, b in zip(p, [v for r in o for v in r])]


def gradients(x, y, w, b):
    n = len(y) * len(y[0])
    d = [[2 * (sum(u * v for u, v in zip(row, weights)) + bias - t) / n
          for weights, bias, t in zip(w, b, target)]
         for row, target in zip(x, y)]
    dw = [[sum(d[i][j] * x[i][k] for i in range(len(x))) for k in range(4)] for j in range(3)]
    return [v for r in dw for v in r], [sum(d[i][j] for i in range(len(x))) for j in range(3)]


def safetensors(path, tensors):
    header, at = {}, 0
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * len(values)]}
        at += 4 * len(values)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            f.write(struct.pack("<%df" % len(values), *values))


def optim(folder, case, clip):
    random.seed(5)
    x, y, w, b = normal(32), normal(24), normal(12), normal(3)
    save(folder + "/in", "x", (8, 4), x)
    save(folder + "/in", "y", (8, 3), y)
    safetensors(folder + "/weights.safetensors",
                {"layer.weight": ([3, 4], w), "layer.bias": ([3], b)})
    x, y = [x[i * 4:i * 4 + 4] for i in range(8)], [y[i * 3:i * 3 + 3] for i in range(8)]
    of_w, of_b = Optimizer(case, "layer.weight", (3, 4)), Optimizer(case, "layer.bias", (3,))
    first = (list(w), list(b))
    for _ in range(20):
        gw, gb = gradients(x, y, [w[i * 4:i * 4 + 4] for i in range(3)], b)
        if clip:
            norm = math.sqrt(sum(v * v for v in gw + gb))
            factor = min(1, clip / (norm + 1e-6))
            gw, gb = [v * factor for v in gw], [v * factor for v in gb]
        w, b = of_w.step(w, gw), of_b.step(b, gb)
    save(folder + "/out", "W", (3, 4), w)
    save(folder + "/out", "B", (3,), b)
    if torch:
        check_optimizer(case, x, y, first, w, b)


PYTORCH_OPTIMIZERS = {
    "sgd": lambda o, p: o.SGD(p, lr=0.02),
    "momentum": lambda o, p: o.SGD(p, lr=0.02, momentum=0.9, weight_decay=0.05),
    "nesterov": lambda o, p: o.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.05),
    "adam": lambda o, p: o.Adam(p, lr=0.02, weight_decay=0.05),
    "adamw": lambda o, p: o.AdamW(p, lr=0.02, weight_decay=0.05),
    "dampened": lambda o, p: o.SGD(p, lr=0.02, momentum=0.9, dampening=0.3, maximize=True),
    "amsgrad": lambda o, p: o.Adam(p, lr=0.02, betas=(0.5, 0.6), amsgrad=True),
    "adamax": lambda o, p: o.Adamax(p, lr=0.02, weight_decay=0.05),
    "nadam": lambda o, p: o.NAdam(p, lr=0.02, weight_decay=0.05, momentum_decay=0.1),
    "radam": lambda o, p: o.RAdam(p, lr=0.02, weight_decay=0.05),
    "rmsprop": lambda o, p: o.RMSprop(p, lr=0.02, momentum=0.9, centered=True, weight_decay=0.05),
    "adagrad": lambda o, p: o.Adagrad(p, lr=0.02, lr_decay=0.1, initial_accumulator_value=0.2),
    "adadelta": lambda o, p: o.Adadelta(p, lr=0.02, weight_decay=0.05),
    "rprop": lambda o, p: o.Rprop(p, lr=0.02, etas=(0.5, 1.25)),
    "asgd": lambda o, p: o.ASGD(p, lr=0.02, lambd=0.1, weight_decay=0.05)}


def check_optimizer(case, x, y, first, w, b):
    layer = torch.nn.Linear(4, 3).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(first[0]).reshape(3, 4))
        layer.bias.copy_(torch.tensor(first[1]))
    step = PYTORCH_OPTIMIZERS[case](torch.optim, layer.parameters())
    x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    for _ in range(20):
        step.zero_grad()
        torch.nn.functional.mse_loss(layer(x), y).backward()
        step.step()
    for ours, theirs in ((w, layer.weight), (b, layer.bias)):
        gate = 1e-6 if case in ("nadam", "asgd") else 1e-9  # these have numbers of a step in fp32
        assert max(abs(a - c) for a, c in zip(ours, theirs.flatten().tolist())) < gate, case


# ---- schedules -----------------------------------------------------------------------------------


def schedules(folder):
    n, half = 100, lambda x: (1 + math.cos(math.pi * min(max(x, 0), 1))) / 2
    save(folder, "constant", (n,), [1.0] * n)
    save(folder, "warm", (n,), [min((t + 1) / 10, 1) for t in range(n)])
    save(folder, "step", (n,), [0.1 ** ((t >= 50) + (t >= 75)) for t in range(n)])
    save(folder, "cosine", (n,), [half((t - 20) / 80) * min((t + 1) / 20, 1) for t in range(n)])
    cycle = []
    for t in range(n):
        low, last, peak = 1 / 25, 1 / 25e4, 0.3 * n - 1
        cycle.append(1 - (1 - low) * half(t / peak) if t <= peak
                     else last + (1 - last) * half((t - peak) / (n - 1 - peak)))
    save(folder, "one_cycle", (n,), cycle)
    rise, left = [min((t + 1) / 10, 1) for t in range(n)], [(n - max(t, 10)) / 90 for t in range(n)]
    save(folder, "linear", (n,), [a * b for a, b in zip(rise, left)])
    save(folder, "polynomial", (n,), [0.1 + 0.9 * (1 - t / n) ** 2 for t in range(n)])
    save(folder, "restarts", (n,), [a * (0.2 + 0.8 * half((max(t, 10) - 10) % 30 / 30))
                                    for t, a in enumerate(rise)])
    save(folder, "exponential", (n,), [0.01 ** (t / n) for t in range(n)])
    save(folder, "inverse_sqrt", (n,),
         [a * min((10 / (t + 1)) ** 0.5, 1) for t, a in enumerate(rise)])
    save(folder, "own", (n,), [(1 - t / n) * min((t + 1) / 4, 1) for t in range(n)])
    if torch:
        p = torch.nn.Parameter(torch.zeros(1))
        o = torch.optim.SGD([p], lr=1)
        s = torch.optim.lr_scheduler.OneCycleLR(o, max_lr=1, total_steps=n, cycle_momentum=False)
        for t in range(n):
            assert abs(s.get_last_lr()[0] - cycle[t]) < 1e-9, (t, s.get_last_lr(), cycle[t])
            o.step()
            if t < n - 1:
                s.step()


# ---- statistics of a batch norm -------------------------------------------------------------------


def statistics(folder):
    random.seed(7)
    n, channels, inner = 4, 3, 10
    x = rounded([3 * i + (1 + i) * v for v, i in zip(normal(n * channels * inner),
                 [k // inner % channels for k in range(n * channels * inner)])])
    of = lambda i: [v for k, v in enumerate(x) if k // inner % channels == i]
    means = [sum(of(i)) / (n * inner) for i in range(channels)]
    squares = [sum((v - m) ** 2 for v in of(i)) for i, m in enumerate(means)]
    kept = [(0.0, 1.0)] * channels
    for _ in range(3):
        kept = [(a + 0.3 * (m - a), b + 0.3 * (s / (n * inner - 1) - b))
                for (a, b), m, s in zip(kept, means, squares)]
    by = lambda moments: [(v - moments[k // inner % channels][0])
                          / math.sqrt(moments[k // inner % channels][1] + 1e-5)
                          for k, v in enumerate(x)]
    shape = (n, channels, 2, 5)
    save(folder + "/in", "x", shape, x)
    save(folder + "/out", "y", shape, by([(m, s / (n * inner)) for m, s in zip(means, squares)]))
    save(folder + "/out", "z", shape, by(kept))
    if torch:
        layer = torch.nn.BatchNorm2d(channels, momentum=0.3).double()
        given = torch.tensor(x, dtype=torch.float64).reshape(shape)
        for _ in range(3):
            layer(given)
        for i, (a, b) in enumerate(kept):
            assert abs(layer.running_mean[i].item() - a) < 1e-9
            assert abs(layer.running_var[i].item() - b) < 1e-9


# ---- comparing -----------------------------------------------------------------------------------


def close(name, want, got, gate):
    scale = math.sqrt(sum(v * v for v in want)) or 1.0
    error = math.sqrt(sum((a - b) ** 2 for a, b in zip(want, got))) / scale
    if len(want) != len(got) or not error <= gate:
        sys.exit("%s: relative error %.3g, gate %g: want %s, got %s"
                 % (name, error, gate, want[:4], list(got)[:4]))


def compare(folder, out, gate):
    names = sorted(os.listdir(folder))
    assert names
    for name in names:
        close(name, read(os.path.join(folder, name)).values,
              read(os.path.join(out, name)).values, gate)


def weights(path, folder, gate):
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    for name, file in (("layer.weight", "W"), ("layer.bias", "B")):
        begin, end = (8 + size + v for v in header[name]["data_offsets"])
        got = struct.unpack("<%df" % ((end - begin) // 4), data[begin:end])
        close(name, read(os.path.join(folder, file + ".npy")).values, got, gate)


def pytorch(folder):
    global torch
    import torch
    losses(folder)
    if torch.__version__ < "2":  # takes a factor of NAdam's product twice
        del PYTORCH_OPTIMIZERS["nadam"]
    for case in PYTORCH_OPTIMIZERS:
        optim(folder, case, 0)
    schedules(folder)
    statistics(folder)


def main(verb, *args):
    if verb == "losses": losses(*args)
    elif verb == "optim": optim(args[0], args[1], float(args[2]))
    elif verb == "schedules": schedules(*args)
    elif verb == "statistics": statistics(*args)
    elif verb == "pytorch": pytorch(*args)
    elif verb == "compare": compare(args[0], args[1], float(args[2]))
    elif verb == "weights": weights(args[0], args[1], float(args[2]))
    else: sys.exit(__doc__)


main(*sys.argv[1:])
