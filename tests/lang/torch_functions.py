"""Functions of torch.linalg, torch.special and of statistics beside PyTorch's, and derivatives of
scans and orders, in the way of torch_cases.py: torch_functions.py PROGRAM FOLDER [SECTION...]"""
import sys

import torch
import torch.nn.functional as F

from torch_cases import ctc, derived, derives, floats, gradient, ints, main, section

INF = float("inf")
linalg, special = torch.linalg, torch.special


section("norms", {"x": floats(3, 4, 5), "y": floats(3, 4, 5), "v": floats(6),
                  "z": torch.zeros(4)}, [
    ("x:vector_norm()", lambda x, *_: linalg.vector_norm(x)),
    ("v:vector_norm(3.5)", lambda x, y, v, z: linalg.vector_norm(v, 3.5)),
    ("x:vector_norm{ord = 0, axes = {1, 3}}", lambda x, *_: linalg.vector_norm(x, 0, (0, 2))),
    ("x:vector_norm(1, 2, true)", lambda x, *_: linalg.vector_norm(x, 1, 1, True)),
    ("x:vector_norm(0.5, -1)", lambda x, *_: linalg.vector_norm(x, 0.5, -1)),
    ("x:vector_norm(-2, 1)", lambda x, *_: linalg.vector_norm(x, -2, 0)),
    ("x:vector_norm(math.huge, 1)", lambda x, *_: linalg.vector_norm(x, INF, 0)),
    ("x:vector_norm(-math.huge)", lambda x, *_: linalg.vector_norm(x, -INF)),
    (derives("x:vector_norm(3, 2)", "x"),
     lambda x, *_: derived(lambda x: linalg.vector_norm(x, 3, 1), x)),
    (derives("x:vector_norm(0.5, 3)", "x"),
     lambda x, *_: derived(lambda x: linalg.vector_norm(x, 0.5, 2), x)),
    (derives("nn.stack{z, v:slice(1, 1, 4)}:vector_norm(0.5, 2)", "z", "v"),
     lambda x, y, v, z: derived(
         lambda z, v: linalg.vector_norm(torch.stack((z, v[:4])), 0.5, 1), z, v)),
    ("x:matrix_norm()", lambda x, *_: linalg.matrix_norm(x)),
    *[("x:matrix_norm(%s, %s, %s)" % (lua, axes, str(keep).lower()),
       lambda x, *_, p=p, dim=dim, keep=keep: linalg.matrix_norm(x, p, dim, keep))
      for lua, p in (("1", 1), ("-1", -1), ("math.huge", INF), ("-math.huge", -INF),
                     ("'fro'", "fro"))
      for axes, dim, keep in (("{2, 3}", (-2, -1), False), ("{3, 1}", (2, 0), True))],
    (derives("x:matrix_norm(1)", "x"),
     lambda x, *_: derived(lambda x: linalg.matrix_norm(x, 1), x)),
    ("x:vecdot(y)", lambda x, y, *_: linalg.vecdot(x, y)),
    ("x:vecdot(y, 1)", lambda x, y, *_: linalg.vecdot(x, y, dim=0)),
    ("v:slice(1, 1, 5):vecdot(x)", lambda x, y, v, z: linalg.vecdot(v[:5], x)),
    (derives("x:vecdot(y, 2)", "x", "y"),
     lambda x, y, *_: derived(lambda x, y: linalg.vecdot(x, y, dim=1), x, y)),
])

SIZES = torch.tensor([0.1, 1.0, 3.0])[:, None, None]
section("exponentials", {"m": floats(4, 4), "b": floats(3, 5, 5) * SIZES}, [
    ("m:matrix_exp()", lambda m, b: m.matrix_exp()),
    ("nn.matrix_exp(b)", lambda m, b: b.double().matrix_exp().float()),
    ("(m * 0):matrix_exp()", lambda m, b: torch.eye(4)),
    (derives("m:matrix_exp()", "m"), lambda m, b: derived(torch.matrix_exp, m)),
])

section("slopes", {"x": floats(5, 4, 3), "v": floats(7), "p": floats(5).cumsum(0),
                   "q": floats(4, low=0.5, high=2).cumsum(0)}, [
    ("v:gradient()", lambda x, v, *_: torch.gradient(v)[0]),
    ("v:slice(1, 1, 2):gradient{spacing = 0.5}",
     lambda x, v, *_: torch.gradient(v[:2], spacing=0.5)[0]),
    ("v:gradient{edge_order = 2, spacing = 2}",
     lambda x, v, *_: torch.gradient(v, spacing=2, edge_order=2)[0]),
    *[("select(%d, x:gradient())" % (i + 1), lambda x, *_, i=i: torch.gradient(x)[i])
      for i in range(3)],
    ("select(2, x:gradient{axes = {3, 1}, spacing = {2, 0.25}})",
     lambda x, *_: torch.gradient(x, dim=(2, 0), spacing=(2, 0.25))[1]),
    *[("select(%d, x:gradient{axes = {1, 2}, spacing = {p, q}, edge_order = %d})" % (i + 1, order),
       lambda x, v, p, q, i=i, order=order:
           torch.gradient(x, dim=(0, 1), spacing=(p, q), edge_order=order)[i])
      for i in range(2) for order in (1, 2)],
    ("x:gradient{axes = 2, spacing = q}",
     lambda x, v, p, q: torch.gradient(x, dim=1, spacing=(q,))[0]),
    (derives("v:gradient{edge_order = 2}", "v"),
     lambda x, v, *_: derived(lambda v: torch.gradient(v, edge_order=2)[0], v)),
])

EDGES = torch.tensor([-2.0, -0.5, 0.0, 0.75, 3.0])
section("counts", {"x": floats(40), "m": floats(5, 8), "w": floats(40, low=0.1, high=2),
                   "e": EDGES, "f": torch.full((3,), 2.5)}, [
    ("(x:histogram(6))", lambda x, *_: torch.histogram(x, 6)[0]),
    ("select(2, x:histogram(6))", lambda x, *_: torch.histogram(x, 6)[1]),
    ("(m:histogram(4, {range = {-1, 1.5}}))",
     lambda x, m, *_: torch.histogram(m, 4, range=(-1, 1.5))[0]),
    ("(x:histogram(5, {weight = w}))", lambda x, m, w, *_: torch.histogram(x, 5, weight=w)[0]),
    ("(x:histogram(5, {density = true, weight = w}))",
     lambda x, m, w, *_: torch.histogram(x, 5, weight=w, density=True)[0]),
    ("(x:histogram(e))", lambda x, m, w, e, f: torch.histogram(x, e)[0]),
    ("(x:histogram(e, {density = true}))",
     lambda x, m, w, e, f: torch.histogram(x, e, density=True)[0]),
    ("(f:histogram(4))", lambda x, m, w, e, f: torch.histogram(f, 4)[0]),
    ("select(2, f:histogram(4, {range = {2, 2}}))",
     lambda x, m, w, e, f: torch.histogram(f, 4, range=(2.0, 2.0))[1]),
    ("(e:histogram(e))", lambda x, m, w, e, f: torch.histogram(e, e)[0]),
])

section("weighed", {"x": floats(3, 8), "v": floats(8), "f": ints(4, 8),
                    "a": floats(8, low=0.1, high=2)}, [
    ("x:cov{fweights = f}", lambda x, v, f, a: x.cov(fweights=f)),
    ("x:cov{aweights = a}", lambda x, v, f, a: x.cov(aweights=a)),
    ("x:cov{fweights = f, aweights = a}", lambda x, v, f, a: x.cov(fweights=f, aweights=a)),
    ("x:cov{fweights = f, aweights = a, correction = 0}",
     lambda x, v, f, a: x.cov(correction=0, fweights=f, aweights=a)),
    ("x:cov{fweights = f, correction = 2}", lambda x, v, f, a: x.cov(correction=2, fweights=f)),
    ("v:cov{fweights = f}", lambda x, v, f, a: v.cov(fweights=f)),
    (derives("x:cov{fweights = f, aweights = a}", "x", "a"),
     lambda x, v, f, a: derived(lambda x, a: x.cov(fweights=f, aweights=a), x, a)),
])

section("puts", {"x": floats(4, 5, 3), "k": ints(60, 4, 5), "i": ints(4, 2, 3), "j": ints(5, 3),
                 "n": ints(4, 3, low=-4), "r": floats(2, 3, 3), "s": floats(3, 3),
                 "o": ints(9, 3)}, [
    ("x:index_put({nn.tensor{0, 3, 1}, nn.tensor{4, 0, 2}}, s)",
     lambda x, k, i, j, n, r, s, o:
         x.index_put((torch.tensor([0, 3, 1]), torch.tensor([4, 0, 2])), s)),
    ("x:index_put({i, j}, r, true)",
     lambda x, k, i, j, n, r, s, o: x.index_put((i.long(), j.long()), r, True)),
    ("x:index_put({n}, 2.5)",
     lambda x, k, i, j, n, r, s, o: x.index_put((n.long(),), torch.tensor(2.5))),
    ("x:index_put({n, j, nn.tensor(1)}, s:slice(1, 1, 1):squeeze(1), {accumulate = true})",
     lambda x, k, i, j, n, r, s, o:
         x.index_put((n.long(), j.long(), torch.tensor(1)), s[0], True)),
    ("k:index_put({n, j}, o, true)",
     lambda x, k, i, j, n, r, s, o: k.index_put((n.long(), j.long()), o, True)),
    (derives("x:index_put({i, j}, r, true)", "x", "r"),
     lambda x, k, i, j, n, r, s, o: derived(
         lambda x, r: x.index_put((i.long(), j.long()), r, True), x, r)),
    (derives("x:index_put({nn.tensor{0, 3, 1}}, r:select(1, 1):slice(2, 1, 1):unsqueeze(2))",
             "x", "r"),
     lambda x, k, i, j, n, r, s, o: derived(
         lambda x, r: x.index_put((torch.tensor([0, 3, 1]),), r[0, :, None, :1]), x, r)),
])

SHARES = torch.tensor([[0.0, 3.0, 1.0, 0.0, 4.0, 2.0, 0.0], [1.0, 0.0, 0.0, 1.0, 1.0, 7.0, 0.0]])
DRAWN = SHARES / SHARES.sum(1, keepdim=True)
OFTEN = "nn.one_hot(w:multinomial(3000, true%s), 7):mean(2)"
section("draws", {"w": SHARES}, [
    ("(%s - w / w:sum(2, true)):abs():lt(0.04):float()" % (OFTEN % ""),
     lambda w: torch.ones_like(w)),
    ("(%s * w:eq(0):float()):sum()" % (OFTEN % ", {seed = 3}"), lambda w: torch.zeros(())),
    ("nn.one_hot(w:multinomial(4), 7):sum(2)", lambda w: w.gt(0).float()),
    ("nn.one_hot(w:select(1, 1):multinomial(4, {seed = 5}), 7):sum(1)",
     lambda w: w[0].gt(0).float()),
    # Of the first of two drawn from many equal rows: how often is it each place?
    ("(nn.one_hot(w:slice(1, 1, 1):expand{3000, 7}:multinomial(2):select(2, 1), 7):mean(1) - "
     "w:select(1, 1) / 10):abs():lt(0.04):float()", lambda w: torch.ones(7)),
    ("w:multinomial(5, true, {seed = 1, step = 2}):eq(w:multinomial(5, true, {seed = 2, "
     "step = 2})):all():float()", lambda w: torch.zeros(())),
])

WIDE = floats(60, low=-9, high=9)
P = floats(60, low=0.01, high=5)
EDGE = torch.tensor([0.0, -0.0, 1.0, -1.0, 50.0, -50.0, INF, -INF, float("nan")])


def each(name, f, *inputs):
    """A function of one tensor by its values and its derivative."""
    rows = []
    for of in inputs:
        rows.append((f"{of}:{name}()", lambda of=of, **all: f(all[of])))
        rows.append((f"(nn.grad({of}:{name}():sum(), {of}))",
                     lambda of=of, **all: gradient(f, all[of])))
    return [(text, lambda x, p, e, q, g=g: g(x=x, p=p, e=e, q=q)) for text, g in rows]


def in_double(f):
    return lambda x: f(x.double()).to(x.dtype)


section("statistics", {"x": WIDE, "p": P, "e": EDGE, "q": floats(60, low=1.1, high=9)}, [
    *each("expit", special.expit, "x"),
    *each("entr", special.entr, "p"), ("e:entr()", lambda x, p, e, q: special.entr(e)),
    *each("ndtr", special.ndtr, "x"), ("e:ndtr()", lambda x, p, e, q: special.ndtr(e)),
    *each("log_ndtr", special.log_ndtr, "x"),
    ("(x * 3):log_ndtr()", lambda x, p, e, q: special.log_ndtr(x * 3)),
    *each("erfcx", in_double(special.erfcx), "x"),
    ("e:slice(1, 1, 5):erfcx()", lambda x, p, e, q: special.erfcx(e[:5])),
    *each("i0e", special.i0e, "x"), *each("i1", special.i1, "p"), *each("i1e", special.i1e, "x"),
    ("(x * 20):i0e()", lambda x, p, e, q: special.i0e(x * 20)),
    ("(x * 20):i1e()", lambda x, p, e, q: special.i1e(x * 20)),
    ("(nn.grad((e * 0):slice(1, 1, 6):i1e():sum(), e))",
     lambda x, p, e, q: torch.zeros_like(e)),
    ("x:xlog1py(p)", lambda x, p, e, q: special.xlog1py(x, p)),
    ("nn.xlog1py(e:slice(1, 1, 4), e:slice(1, 4, 7) * 0.9)",
     lambda x, p, e, q: special.xlog1py(e[:4], e[3:7] * 0.9)),
    ("nn.xlog1py(2.5, p)", lambda x, p, e, q: special.xlog1py(2.5, p)),
    (derives("x:xlog1py(p)", "x", "p"), lambda x, p, e, q: derived(special.xlog1py, x, p)),
    ("q:zeta(p)", lambda x, p, e, q: special.zeta(q, p)),
    ("q:zeta(1)", lambda x, p, e, q: special.zeta(q, 1)),
    ("nn.zeta(3, p)", lambda x, p, e, q: special.zeta(3, p)),
    (derives("q:zeta(p)", "p"),
     lambda x, p, e, q: derived(lambda p: special.zeta(q, p), p)),
    ("nn.zeta(e * 0 + 1, 2.0):slice(1, 1, 3)", lambda x, p, e, q: torch.full((3,), INF)),
])

HOLES = floats(4, 7)
HOLES[0, 2] = HOLES[3, 0] = HOLES[3, 5] = float("nan")
section("behind", {"x": floats(3, 6), "s": torch.tensor([[1.0, 3, 3, 2], [2, 2, 1, 5]]),
                   "h": HOLES, "l": floats(2, 9, 3, low=-60, high=60),
                   "f": torch.tensor([0.0, 3.0, -0.4, 1e-30, 2.0**100, -7.0])}, [
    *[row for name in ("cummax", "cummin") for row in (
        ("(h:%s(2))" % name, lambda x, s, h, *_, f=getattr(torch, name): f(h, 1)[0]),
        ("select(2, h:%s(2))" % name,
         lambda x, s, h, *_, f=getattr(torch, name): f(h, 1)[1].int()),
        (derives("x:%s(2)" % name, "x"), lambda x, *_, f=getattr(torch, name): derived(
            lambda x: f(x, 1)[0], x)),
        (derives("s:%s(2)" % name, "s"), lambda x, s, *_, f=getattr(torch, name): derived(
            lambda s: f(s, 1)[0], s)),
        (derives("l:%s(1)" % name, "l"), lambda x, s, h, l, f, g=getattr(torch, name): derived(
            lambda l: g(l, 0)[0], l)))],
    (derives("x:logcumsumexp(1)", "x"), lambda x, *_: derived(lambda x: x.logcumsumexp(0), x)),
    (derives("l:logcumsumexp(2)", "l"),
     lambda x, s, h, l, f: derived(lambda l: l.double().logcumsumexp(1).float(), l)),
    ("(nn.grad((x:logcumsumexp(2) * x):sum(), x))",
     lambda x, *_: gradient(lambda x: x.logcumsumexp(1) * x, x)),
    ("(nn.grad(nn.grad(x:logcumsumexp(2):square():sum(), x):square():sum(), x))",
     lambda x, *_: gradient(lambda x: torch.autograd.grad(
         (x.exp().cumsum(1).log() ** 2).sum(), x, create_graph=True)[0] ** 2, x)),
    *[(derives("h:nanquantile(%s, %s)" % (q, axis), "h"),
       lambda x, s, h, *_, q=q, dim=dim: derived(lambda h: h.nanquantile(q, dim), h))
      for q in (0.3, 0.8) for axis, dim in (("2", 1), ("1", 0))],
    (derives("h:nanmedian(2)", "h"),
     lambda x, s, h, *_: derived(lambda h: h.nanmedian(1)[0], h)),
    (derives("f:frexp()", "f"), lambda x, s, h, l, f: derived(lambda f: f.frexp()[0], f)),
    (derives("x:quantile(0.3, 2)", "x"),
     lambda x, *_: derived(lambda x: x.quantile(0.3, 1), x)),
])


def in_a_row(x, t, m, **options):
    return ctc(x, t, m, torch.tensor([4, 2, 0]), **options)


section("alignments", {"x": floats(12, 3, 6), "t": ints(6, 6, low=1),
                       "m": torch.tensor([12, 10, 9], dtype=torch.int32)}, [
    ("x:log_softmax():ctc_loss(t, m, {4, 2, 0})", lambda x, t, m: in_a_row(x, t, m)),
    ("x:log_softmax():ctc_loss(t, {12, 10, 9}, {4, 2, 0}, {reduction = 'none'})",
     lambda x, t, m: in_a_row(x, t, m, reduction="none")),
    ("(nn.grad(x:log_softmax():ctc_loss(t, m, {4, 2, 0}, {reduction = 'sum'}), x))",
     lambda x, t, m: gradient(lambda v: in_a_row(v, t, m, reduction="sum"), x)),
    ("x:log_softmax():ctc_loss(t:view(3, 2), {12, 10, 9}, {2, 1, 2})",
     lambda x, t, m: F.ctc_loss(x.log_softmax(-1), t.view(3, 2).long(), (12, 10, 9), (2, 1, 2))),
])

def waves(x, *given, **options):
    return torch.stft(x, *given, return_complex=False, **options)


HANN = torch.hann_window(16)
SIGNAL = floats(3, 100)
section("transforms", {"x": SIGNAL, "v": floats(64), "w": floats(12, low=0.2, high=1),
                       "y": waves(SIGNAL, 16, 4, window=HANN), "q": floats(9, 12, 2),
                       "f": floats(2, 16, 7, 2)}, [
    ("x:stft(16)", lambda x, *_: waves(x, 16)),
    ("v:stft(15, 5)", lambda x, v, *_: waves(v, 15, 5)),
    ("v:stft{n_fft = 16, hop_length = 3, win_length = 12, window = w}",
     lambda x, v, w, *_: waves(v, 16, 3, 12, w)),
    ("x:stft{n_fft = 16, center = false, onesided = false}",
     lambda x, *_: waves(x, 16, center=False, onesided=False)),
    ("x:stft(32, nil, nil, nn.hann_window(32), true, 'constant', true)",
     lambda x, *_: waves(x, 32, window=torch.hann_window(32), pad_mode="constant",
                         normalized=True)),
    ("x:stft{n_fft = 20, pad_mode = 'replicate'}",
     lambda x, *_: waves(x, 20, pad_mode="replicate")),
    ("(nn.grad(v:stft(16, 5, 12, w):square():sum(), v))",
     lambda x, v, w, *_: gradient(lambda v: waves(v, 16, 5, 12, w).square(), v)),
    ("(nn.grad(y:istft(16, 4, nil, w:pad{2, 2, value = 0.5}):square():sum(), y))",
     lambda x, v, w, y, *_: gradient(
         lambda y: torch.istft(y, 16, 4, window=F.pad(w, (2, 2), value=0.5)).square(), y)),
    ("y:istft(16, 4, nil, nn.hann_window(16))",
     lambda x, v, w, y, *_: torch.istft(y, 16, 4, window=HANN)),
    *[("y:istft{n_fft = 16, window = nn.hann_window(16), length = %d}" % length,
       lambda x, v, w, y, *_, length=length: torch.istft(y, 16, window=HANN, length=length))
      for length in (97, 110)],
    ("q:istft(16, 3, 12, w, true, true)",
     lambda x, v, w, y, q, f: torch.istft(q, 16, 3, 12, w, normalized=True)),
    ("q:istft{n_fft = 17, center = false}",
     lambda x, v, w, y, q, f: torch.istft(q, 17, center=False)),
    ("f:istft{n_fft = 16, hop_length = 8}", lambda x, v, w, y, q, f: torch.istft(f, 16, 8)),
    ("x:stft(16):istft(16)", lambda x, *_: x),
    # A computed operand whose ids are none beside the signal.
    ("nn.functional.conv1d(v:view(1, 1, 64):pad({7, 7}, 'reflect'), w:view(1, 1, 12), nil, 5)",
     lambda x, v, w, *_: F.conv1d(F.pad(v[None, None], (7, 7), "reflect"), w[None, None], None, 5)),
])

BEYOND = torch.tensor([2147483647, -2147483648, 2147483646, 16777217, 123456789, -77777],
                      dtype=torch.int32)
section("overflows", {"e": BEYOND, "u": ints(256, 6)}, [
    ("e + 1", lambda e, u: e + 1), ("e - 3", lambda e, u: e - 3), ("e * e", lambda e, u: e * e),
    ("-e", lambda e, u: -e), ("e:abs()", lambda e, u: e.abs()), ("e ^ 3", lambda e, u: e ** 3),
    ("(e + 2147483647) + 1", lambda e, u: e + 2147483647 + 1),
    ("nn.full({6}, 2147483647) + nn.full({6}, 1) + e", lambda e, u: e - 2147483648),
    ("e * u - e * 3", lambda e, u: e * u - e * 3),
    # Compared where it is computed: an optimizer may not take it that e + 1 is above e.
    ("(e + 1):gt(e):int()", lambda e, u: (e + 1).gt(e).int()),
    ("(e - u - 3):lt(e):int()", lambda e, u: (e - u - 3).lt(e).int()),
    ("(-e):gt(0):int() + e:abs():ge(0):int()", lambda e, u: (-e).gt(0).int() + e.abs().ge(0)),
    # The size of the least integer is none.
    *[(f"e:div({by}, {{rounding_mode = 'trunc'}})",
       lambda e, u, by=by: torch.div(e, by, rounding_mode="trunc")) for by in (3, -3, 7)],
    *[(f"e:fmod({by})", lambda e, u, by=by: e.fmod(by)) for by in (3, -3, 7)],
    ("u:to('u8'):div(7, {rounding_mode = 'trunc'})",
     lambda e, u: torch.div(u.byte(), 7, rounding_mode="trunc")),
    ("e * 2 // 2", lambda e, u: torch.div(e * 2, 2, rounding_mode="floor")),
    ("(e:cumsum() + e):gt(e:cumsum()):int()",
     lambda e, u: (e.cumsum(0).int() + e).gt(e.cumsum(0).int()).int()),
    ("e:sum()", lambda e, u: e.sum().int()), ("e:prod()", lambda e, u: e.prod().int()),
    ("e:cumsum()", lambda e, u: e.cumsum(0).int()),
    ("e:cumprod()", lambda e, u: e.cumprod(0).int()),
    ("e:unsqueeze(2):matmul(e:unsqueeze(1))", lambda e, u: e[:, None] * e),
    ("u:to('u8') + u:to('u8')", lambda e, u: u.byte() + u.byte()),
    ("u:to('u8') * u:to('u8') - 9", lambda e, u: u.byte() * u.byte() - 9),
    ("(u:to('u8') * 3):to('i32')", lambda e, u: (u.byte() * 3).int()),
])


# Of several dtypes; integers by expressions in which each value is used twice, many times over.
KINDS = {"i": ints(9, 3, low=-9), "j": ints(9, 3), "m": ints(2, 3), "f": floats(3)}
section("kinds", KINDS, [
    ("nn.cat({i, f, m:bool()}, 1)", lambda i, j, m, f: torch.cat((i, f, m.bool()))),
    ("nn.stack{m:bool(), i}", lambda i, j, m, f: torch.stack((m.bool(), i))),
    ("nn.cat({j:to('u8'), i}, 1)", lambda i, j, m, f: torch.cat((j.byte(), i))),
    ("nn.hstack{m:bool(), m:bool()}:int()", lambda i, j, m, f: torch.cat((m, m))),
    (derives("nn.cat({i, f, f}, 1)", "f"), lambda i, j, m, f: derived(
        lambda f: torch.cat((i, f, f)), f)),
    ("i:copysign(f)", lambda i, j, m, f: i.copysign(f)),
    ("m:bool():copysign(i)", lambda i, j, m, f: m.bool().copysign(i)),
    ("m:bool():masked_fill(j:gt(4), 1)", lambda i, j, m, f: m.bool().masked_fill(j > 4, 1)),
    ("(j * 20):to('u8') ^ 3", lambda i, j, m, f: (j * 20).byte() ** 3),
    ("(j:to('u8') & i:to('u8')) * 90", lambda i, j, m, f: (j.byte() & i.byte()) * 90),
    ("j:to('u8') << 6", lambda i, j, m, f: j.byte() << 6),
    ("i:gcd(j)", lambda i, j, m, f: i.gcd(j)), ("i:lcm(j)", lambda i, j, m, f: i.lcm(j)),
])

# An output_padding beyond the stride, which dilation allows; largest elements that occur twice.
WIDE = {"x": floats(1, 4, 3, 4), "w": floats(4, 3, 3, 2), "l": floats(2, 4, 5),
        "u": floats(4, 2, 3), "d": floats(1, 2, 3, 2, 3), "v": floats(2, 2, 2, 3, 2)}
TIES = {"q": ints(3, 2, 3, 7, 6).float(), "c": ints(2, 1, 2, 4, 5, 3).float()}
section("borders", dict(WIDE, **TIES), [
    (form, lambda *x, f=f, keys=keys, slope=slope: (derived if slope else lambda f, *x: f(*x))(
        f, *(x[list(dict(WIDE, **TIES)).index(k)] for k in keys)))
    for text, keys, f in [
        ("nn.functional.conv_transpose2d(x, w, {dilation = 3, output_padding = 2, padding = %d})"
         % pad, "xw", lambda x, w, pad=pad: F.conv_transpose2d(x, w, None, 1, pad, 2, 1, 3))
        for pad in (0, 1, 2)
    ] + [
        ("nn.functional.conv_transpose2d(x, w, {stride = {2, 1}, dilation = {4, 2}, "
         "output_padding = {3, 1}, padding = {1, 0}})", "xw",
         lambda x, w: F.conv_transpose2d(x, w, None, (2, 1), (1, 0), (3, 1), 1, (4, 2))),
        ("nn.functional.conv_transpose1d(l, u, {stride = 2, dilation = 5, output_padding = 4, "
         "padding = 1})", "lu", lambda x, w: F.conv_transpose1d(x, w, None, 2, 1, 4, 1, 5)),
        ("nn.functional.conv_transpose3d(d, v, {dilation = 3, output_padding = 2, "
         "padding = {1, 0, 2}})", "dv",
         lambda x, w: F.conv_transpose3d(x, w, None, 1, (1, 0, 2), 2, 1, 3)),
        ("q:adaptive_max_pool2d{3, 4}", "q", lambda q: F.adaptive_max_pool2d(q, (3, 4))),
        ("q:adaptive_max_pool2d(1)", "q", lambda q: F.adaptive_max_pool2d(q, 1)),
        ("c:adaptive_max_pool3d{2, 3, 2}", "c", lambda c: F.adaptive_max_pool3d(c, (2, 3, 2))),
    ]
    for form, slope in ((text, False), (derives(text, *keys), True))
])

# What PyTorch's own operator samples found.
section("samples", {"x": floats(2, 3), "y": floats(2, 1, 3), "v": floats(5), "s": floats(5).sign(),
                    "n": torch.tensor([[1.0, float("nan"), -2], [3, 0, float("nan")]]),
                    "i": ints(6, 4, low=-6), "k": ints(3, 3, 2), "z": floats(1)[0],
                    "b": ints(2, 4, 4)}, [
    ("nn.cosine_similarity(x, y, -1)", lambda x, y, *_: F.cosine_similarity(x, y, -1)),
    ("nn.cosine_similarity(x, y, 1)", lambda x, y, *_: F.cosine_similarity(x, y, 0)),
    ("nn.cosine_similarity(x:narrow(2, 1, 1), x, 2)",
     lambda x, *_: F.cosine_similarity(x[:, :1], x, 1)),
    (derives("nn.cosine_similarity(x, y, -2)", "x", "y"), lambda x, y, *_: derived(
        lambda x, y: F.cosine_similarity(x, y, -2), x, y)),
    ("nn.vecdot(x, y, 1)", lambda x, y, *_: torch.linalg.vecdot(x, y, dim=0)),
    ("nn.functional.prelu(v, nn.full({1}, 0.1))",
     lambda x, y, v, *_: F.prelu(v, torch.full((1,), 0.1))),
    ("v:hinge_embedding_loss(s * v:gt(0), {reduction = 'none'})",
     lambda x, y, v, s, *_: F.hinge_embedding_loss(v, s * (v > 0), reduction="none")),
    ("x:take(i)", lambda x, y, v, s, n, i, *_: x.take(i.long())),
    ("x:put(i, i:float(), true)", lambda x, y, v, s, n, i, *_: x.put(i.long(), i.float(), True)),
    (derives("x:take(i)", "x"), lambda x, y, v, s, n, i, *_: derived(
        lambda x: x.take(i.long()), x)),
    ("x:take_along_dim(k)", lambda x, y, v, s, n, i, k, *_: x.take_along_dim(k.long())),
    ("(n:nanmedian(1, true))", lambda x, y, v, s, n, *_: n.nanmedian(0, True)[0]),
    ("select(2, n:nanmedian(-1))", lambda x, y, v, s, n, *_: n.nanmedian(-1)[1].int()),
    ("(i:nanmedian(1))", lambda x, y, v, s, n, i, *_: i.nanmedian(0)[0]),
    ("select(2, z:median(1, true)) + z:quantile({0.5, 1}, -1, true) + (z:max{axis = 1})",
     lambda *a: a[7].quantile(torch.tensor([0.5, 1]), -1, True) + a[7]),
    ("x:narrow(1, 1, 1):cov()", lambda x, *_: x[:1].cov()),
    ("x:narrow(1, 1, 1):corrcoef()", lambda x, *_: x[:1].corrcoef()),
    (derives("(x * 0):norm(-1.5, 2)", "x"), lambda x, *_: derived(
        lambda x: (x * 0).norm(-1.5, 1), x)),
    (derives("x:div(y, {rounding_mode = 'floor'}) * x", "x", "y"), lambda x, y, *_: derived(
        lambda x, y: x.div(y, rounding_mode="floor") * x, x, y)),
    ("v:multi_margin_loss(i:narrow(1, 1, 1) % 5)",
     lambda x, y, v, s, n, i, *_: F.multi_margin_loss(v, (i[:1] % 5).long())),
    ("y:avg_pool2d({1}, {stride = {2}})", lambda x, y, *_: F.avg_pool2d(y[None], (1,), (2,))[0]),
    ("i:pad{padding = {1, 2}, value = 7.5}",
     lambda x, y, v, s, n, i, *_: F.pad(i, (1, 2), value=7.5)),
    ("i:scatter(1, k:select(1, 1), 2.5):add(i:index_fill(1, k:select(1, 1), -2.5))",
     lambda x, y, v, s, n, i, k, *_: i.scatter(0, k[0].long(), 2.5)
     + i.index_fill(0, k[0].long(), -2.5)),
    ("nn.where(b:bool():tril() | b:bool():triu(1), 1, 2) + b:bool():diag_embed():sum(-1)",
     lambda *a: torch.where(a[8].bool(), 1, 2) + a[8].diag_embed().sum(-1)),
    ("(k * 100):to('u8'):index_add(1, k:narrow(2, 1, 1):view(3), k:to('u8')):int()",
     lambda *a: (a[6] * 100).byte().index_add(0, a[6][:, 0].long(), a[6].byte()).int()),
    ("(k * 100):to('u8'):scatter_add(1, k, (k * 99):to('u8')):int()",
     lambda *a: (a[6] * 100).byte().scatter_add(0, a[6].long(), (a[6] * 99).byte()).int()),
    ("(v * 3 - 0.25):polygamma(2)", lambda *a: torch.polygamma(2, a[2] * 3 - 0.25)),
    (derives("(v * 3 - 0.25):polygamma(1)", "v"), lambda *a: derived(
        lambda v: torch.polygamma(1, v * 3 - 0.25), a[2])),
    ("(v:floor() * 0 - 1.625):polygamma(5)", lambda *a: torch.polygamma(5, a[2] * 0 - 1.625)),
    ("nn.where(b:bool():scatter_reduce(1, k, b:bool(), 'amax'), 1, 2)",
     lambda *a: torch.where(a[8].scatter_reduce(0, a[6].long(), a[8], "amax").bool(), 1, 2)),
])

PLACES = torch.tensor([7, 39, 7, 0, 7, 39])
MANY = torch.arange(300) * 7 % 80
PARTED = torch.arange(1501) * 37 % 4200 % 1300
# Rows added up by their ids: where these are few beside the places, where rows are one element, else.
section("added", {"t": floats(40, 3), "r": floats(6, 3), "g": floats(300), "i": PLACES.int(),
                  "m": MANY.int(), "w": ints(9, 6, 3), "u": PARTED.int(),
                  "o": floats(1501, 2)}, [
    ("nn.scatter_add(i, r, 40)", lambda t, r, *_: torch.zeros(40, 3).index_add(0, PLACES, r)),
    ("nn.scatter_add(i, w, 40)", lambda t, r, g, i, m, w, *_: torch.zeros(40, 3).int().index_add(
        0, PLACES, w.int())),
    ("t:index_add(1, i, r)", lambda t, r, *_: t.index_add(0, PLACES, r)),
    (derives("nn.gather(t, i, 1)", "t"), lambda t, *_: derived(lambda t: t[PLACES], t)),
    (derives("(nn.grad(nn.gather(t, i, 1):square():sum(), t))", "t"),
     lambda t, *_: derived(lambda t: torch.autograd.grad(
         t[PLACES].square().sum(), t, create_graph=True)[0], t)),
    ("nn.scatter_add(m, g, 80)", lambda t, r, g, *_: torch.zeros(80).index_add(0, MANY, g)),
    (derives("nn.gather(g:slice(1, 1, 80), m, 1)", "g"),
     lambda t, r, g, *_: derived(lambda g: g[:80][MANY], g)),
    ("nn.scatter_add(u, o, 4200)", # in two parts, the last of one row less
     lambda *a: torch.zeros(4200, 2).index_add(0, PARTED, a[-1])),
    ("nn.scatter_add(m, g:view(100, 3):repeat_interleave(3, 1), 80)",
     lambda t, r, g, *_: torch.zeros(80, 3).index_add(
         0, MANY, g.view(100, 3).repeat_interleave(3, 0))),
])

# Derivatives where what a function is made of has none, or where it cancels.
section("points", {"o": torch.tensor([0, -0.0, 1, -1, 0.5]),
                   "e": torch.tensor([0, -0.0, 1e-7, -1e-3]),
                   "p": torch.tensor([[2, 0, 3], [0, 0, 4], [1, 2, 3], [0, 0, 0.0]])}, [
    (derives(text % name, name), lambda o, e, p, f=f, name=name: derived(f, {"o": o, "e": e}[name]))
    for text, name, f in [
        ("%s:asin()", "o", torch.asin), ("%s:acos()", "o", torch.acos),
        ("%s:atanh()", "o", torch.atanh), ("%s:asinh()", "o", torch.asinh),
        ("(%s * %s):acosh()", "o", lambda o: torch.acosh(o * o)),
        ("(%s * %s):logit()", "o", lambda o: torch.logit(o * o)), ("%s:sinh()", "o", torch.sinh),
        ("(%s:frexp())", "o", lambda o: o.frexp()[0]), ("%s:sinh()", "e", torch.sinh),
        ("%s:cosh() * 1e6", "e", lambda e: torch.cosh(e) * 1e6),
        ("(%s - 12):elu() * 1e6", "o", lambda o: F.elu(o - 12) * 1e6),
        ("(%s - 12):selu() * 1e6", "o", lambda o: F.selu(o - 12) * 1e6),
    ] for text in [text.replace("%s * %s", name + " * %s")]
] + [
    ("nn.grad((p:%s(2) * nn.tensor{1e6, 1, 0.25}):sum(), p):slice(2, 2, 3)" % name,
     lambda o, e, p, f=f: gradient(lambda p: f(p, 1) * torch.tensor([1e6, 1, 0.25]), p)[:, 1:])
    for name, f in (("cumsum", torch.cumsum), ("cumprod", torch.cumprod))
] + [
    ("(o * 1e30 - 1e30):acosh()", lambda o, e, p: torch.acosh(o * 1e30 - 1e30)),
    (derives("o:hinge_embedding_loss(nn.tensor{-1, 1, -1, 1, 0}, {reduction = 'none'})", "o"),
     lambda o, e, p: derived(lambda o: F.hinge_embedding_loss(
         o, torch.tensor([-1.0, 1, -1, 1, 0]), reduction="none"), o)),
    (derives("(nn.grad((p:prod(2) * nn.index({4})):sum(), p))", "p"), # twice
     lambda o, e, p: derived(lambda p: torch.autograd.grad(
         (p.prod(1) * torch.arange(4)).sum(), p, create_graph=True)[0], p)),
    (derives("(nn.grad(o:slice(1, 2, 5):cumprod(1):square():sum(), o))", "o"),
     lambda o, e, p: derived(lambda o: torch.autograd.grad(
         o[1:].cumprod(0).square().sum(), o, create_graph=True)[0], o)),
])


if __name__ == "__main__":
    sys.exit(main())
