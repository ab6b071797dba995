"""Functions of the model language beside PyTorch's: torch_cases.py PROGRAM FOLDER [SECTION...]

Each case is an expression of a model file and what it is in PyTorch; all cases of a section are
outputs of one model, of the same random inputs. PROGRAM computes them: nngen, by kernels, or
evaluate (evaluate.c), by the oracle. Prints `ok SECTION: ...` or `not ok SECTION: ...` for each
section, and behind it what differs; exit 1 if something does."""
import subprocess
import sys

import numpy as np
import torch
import torch.nn as tnn
import torch.nn.functional as F

sys.path.insert(0, "tests/models")
from safetensors_file import write_safetensors  # noqa: E402

GEN = torch.Generator().manual_seed(7)


def floats(*dims, low=None, high=None):
    if low is None:
        return torch.randn(*dims, generator=GEN)
    return torch.rand(*dims, generator=GEN) * (high - low) + low


def ints(high, *dims, low=0):
    return torch.randint(low, high, dims, generator=GEN, dtype=torch.int32)


SECTIONS = {}


def section(name, inputs, cases):
    SECTIONS[name] = (inputs, cases)


a, b = floats(2, 3, 4, 5), floats(2, 3, 4, 5)
section("arithmetic", {"a": a, "b": b, "r": floats(2, 3, 4, 5, low=0.1, high=3)}, [
    ("a:add(b, {alpha = 2})", lambda a, b, r: torch.add(a, b, alpha=2)),
    ("a:sub(b, {alpha = 0.5})", lambda a, b, r: torch.sub(a, b, alpha=0.5)),
    ("a:mul(b)", lambda a, b, r: a * b),
    ("a:div(r)", lambda a, b, r: a / r),
    ("a:div(r, {rounding_mode = 'trunc'})", lambda a, b, r: torch.div(a, r, rounding_mode="trunc")),
    ("a:div(r, {rounding_mode = 'floor'})", lambda a, b, r: torch.div(a, r, rounding_mode="floor")),
    ("a:floor_divide(0.7)", lambda a, b, r: torch.div(a, 0.7, rounding_mode="floor")),
    ("a % 0.7", lambda a, b, r: torch.remainder(a, 0.7)),
    ("a:fmod(0.7)", lambda a, b, r: torch.fmod(a, 0.7)),
    ("r:pow(2.5)", lambda a, b, r: r.pow(2.5)),
    ("r ^ a", lambda a, b, r: r ** a),
    ("a:sign()", lambda a, b, r: a.sign()),
    ("a:square()", lambda a, b, r: a.square()),
    ("r:reciprocal()", lambda a, b, r: r.reciprocal()),
    ("a:lerp(b, 0.3)", lambda a, b, r: torch.lerp(a, b, 0.3)),
    ("a:addcmul(b, r, {value = 0.5})", lambda a, b, r: torch.addcmul(a, b, r, value=0.5)),
    ("a:addcdiv(b, r, {value = 0.5})", lambda a, b, r: torch.addcdiv(a, b, r, value=0.5)),
    ("a:hypot(b)", lambda a, b, r: torch.hypot(a, b)),
    ("nn.max(a, b)", lambda a, b, r: torch.maximum(a, b)),
    ("a:min(0.5)", lambda a, b, r: torch.clamp(a, max=0.5)),
    ("a:clamp(-0.5, 0.5)", lambda a, b, r: a.clamp(-0.5, 0.5)),
    ("a:clip{min = -0.25}", lambda a, b, r: a.clamp(min=-0.25)),
    ("a:fmax(b)", lambda a, b, r: torch.fmax(a, b)),
    ("(a * 3):round()", lambda a, b, r: (a * 3).round()),
    ("nn.atan2(a:round(), -1 - b:abs())", # the sign of a zero
     lambda a, b, r: torch.atan2(a.round(), -1 - b.abs())),
    ("a:round{decimals = 1}", lambda a, b, r: a.round(decimals=1)),
    ("a:trunc()", lambda a, b, r: a.trunc()),
    ("a:frac()", lambda a, b, r: a.frac()),
    ("a:copysign(b)", lambda a, b, r: torch.copysign(a, b)),
    ("a:heaviside(0.5)", lambda a, b, r: torch.heaviside(a, torch.tensor(0.5))),
    ("a:masked_fill(a:gt(0), 7)", lambda a, b, r: a.masked_fill(a > 0, 7)),
    ("nn.where(nn.lt(a, b), a, 0)", lambda a, b, r: torch.where(a < b, a, torch.zeros(()))),
    ("a:isclose(b, 0.5, 0.5):to('f32')", lambda a, b, r: torch.isclose(a, b, 0.5, 0.5).float()),
    ("(a / 0):isinf():float()", lambda a, b, r: (a / 0).isinf().float()),
    ("(a / 0):nan_to_num{posinf = 5, neginf = -5}",
     lambda a, b, r: (a / 0).nan_to_num(posinf=5, neginf=-5)),
])

p = floats(4, 33, low=0.01, high=0.99)
section("functions", {"a": floats(4, 33), "p": p, "g": floats(4, 33, low=1.0, high=9.0)}, [
    ("a:exp2()", lambda a, p, g: a.exp2()), ("a:expm1()", lambda a, p, g: a.expm1()),
    ("(a * 1e-4):expm1()", lambda a, p, g: (a * 1e-4).expm1()),
    ("p:log1p()", lambda a, p, g: p.log1p()), ("p:log2()", lambda a, p, g: p.log2()),
    ("p:log10()", lambda a, p, g: p.log10()), ("p:logit()", lambda a, p, g: p.logit()),
    ("nn.xlogy(a, p)", lambda a, p, g: torch.xlogy(a, p)),
    ("a:logaddexp(p)", lambda a, p, g: torch.logaddexp(a, p)),
    ("a:logaddexp2(p)", lambda a, p, g: torch.logaddexp2(a, p)),
    ("a:tan()", lambda a, p, g: a.tan()), ("a:atan()", lambda a, p, g: a.atan()),
    ("a:atan2(p - 0.5)", lambda a, p, g: torch.atan2(a, p - 0.5)),
    ("p:asin()", lambda a, p, g: p.asin()),
    ("(-p):acos()", lambda a, p, g: (-p).acos()), ("a:sinh()", lambda a, p, g: a.sinh()),
    ("(a * 1e-3):sinh()", lambda a, p, g: (a * 1e-3).sinh()),
    ("a:cosh()", lambda a, p, g: a.cosh()),
    ("a:asinh()", lambda a, p, g: a.asinh()), ("g:acosh()", lambda a, p, g: g.acosh()),
    ("p:atanh()", lambda a, p, g: p.atanh()), ("a:deg2rad()", lambda a, p, g: a.deg2rad()),
    ("a:rad2deg()", lambda a, p, g: a.rad2deg()), ("a:sinc()", lambda a, p, g: a.sinc()),
    ("a:erf()", lambda a, p, g: a.erf()), ("a:erfc()", lambda a, p, g: a.erfc()),
    ("(a * 30):sinh()", lambda a, p, g: (a * 30).double().sinh().float()),
])

section("activations", {"a": floats(2, 6, 4, low=-4.0, high=4.0)}, [
    ("a:relu()", F.relu), ("a:relu6()", F.relu6), ("a:leaky_relu()", F.leaky_relu),
    ("a:leaky_relu(0.2)", lambda a: F.leaky_relu(a, 0.2)),
    ("a:rrelu()", F.rrelu), ("a:elu()", F.elu), ("a:elu(0.5)", lambda a: F.elu(a, 0.5)),
    ("a:celu(2)", lambda a: F.celu(a, 2)),
    ("a:selu()", F.selu), ("a:gelu()", F.gelu),
    ("a:gelu('tanh')", lambda a: F.gelu(a, approximate="tanh")),
    ("a:sigmoid()", torch.sigmoid), ("a:silu()", F.silu), ("a:softplus()", F.softplus),
    ("a:softplus(2, 3)", lambda a: F.softplus(a, 2, 3)),
    ("a:logsigmoid()", F.logsigmoid), ("a:mish()", F.mish), ("a:softsign()", F.softsign),
    ("a:tanhshrink()", F.tanhshrink),
    ("a:softshrink()", F.softshrink), ("a:hardshrink(1.5)", lambda a: F.hardshrink(a, 1.5)),
    ("a:hardtanh(-2, 3)", lambda a: F.hardtanh(a, -2, 3)),
    ("a:hardsigmoid()", F.hardsigmoid), ("a:hardswish()", F.hardswish),
    ("a:threshold(1, 20)", lambda a: F.threshold(a, 1, 20)),
    ("a:glu(2)", lambda a: F.glu(a, 1)), ("a:softmax(2)", lambda a: F.softmax(a, 1)),
    ("a:log_softmax()", lambda a: F.log_softmax(a, -1)),
    ("a:softmin()", lambda a: F.softmin(a, -1)),
    ("nn.functional.prelu(a, nn.full({6}, 0.1))", lambda a: F.prelu(a, torch.full((6,), 0.1))),
])

section("shapes", {"x": floats(2, 3, 4, 6), "v": floats(5), "m": floats(4, 6)}, [
    ("x:view{6, -1}", lambda x, v, m: x.view(6, -1)), ("x:flatten()", lambda x, v, m: x.flatten(1)),
    ("x:flatten(1, 2)", lambda x, v, m: x.flatten(0, 1)),
    ("x:unflatten(4, {2, -1})", lambda x, v, m: x.unflatten(3, (2, 3))),
    ("x:view(6, -1)", lambda x, v, m: x.view(6, -1)),
    ("x:permute(4, 1, 3, 2)", lambda x, v, m: x.permute(3, 0, 2, 1)),
    ("x:unsqueeze(2):squeeze(2)", lambda x, v, m: x),
    ("x:unsqueeze(-1)", lambda x, v, m: x.unsqueeze(-1)),
    ("x:permute{4, 1, 3, 2}", lambda x, v, m: x.permute(3, 0, 2, 1)),
    ("m:t()", lambda x, v, m: m.t()),
    ("x:transpose(1, 3)", lambda x, v, m: x.transpose(0, 2)),
    ("x:movedim(1, -1)", lambda x, v, m: x.movedim(0, -1)),
    ("x:movedim({1, 2}, {4, 1})", lambda x, v, m: x.movedim((0, 1), (3, 0))),
    ("x:flip(3)", lambda x, v, m: x.flip(2)), ("x:flip{2, 4}", lambda x, v, m: x.flip(1, 3)),
    ("m:fliplr()", lambda x, v, m: m.fliplr()),
    ("m:flipud()", lambda x, v, m: m.flipud()), ("m:rot90()", lambda x, v, m: torch.rot90(m)),
    ("m:rot90(3)", lambda x, v, m: torch.rot90(m, 3)),
    ("x:rot90(2, 3, 4)", lambda x, v, m: torch.rot90(x, 2, (2, 3))),
    ("x:roll(2, 4)", lambda x, v, m: x.roll(2, 3)),
    ("x:roll({1, -2}, {2, 4})", lambda x, v, m: x.roll((1, -2), (1, 3))),
    ("m:roll(5)", lambda x, v, m: m.roll(5)),
    ("x:slice(4, 2, 5)", lambda x, v, m: x[..., 1:5]),
    ("x:slice(4, 1, -1, 2)", lambda x, v, m: x[..., ::2]),
    ("x:slice(4, 2, -1, 4)", lambda x, v, m: x[..., 1::4]),
    ("v:slice(1, -1, 1, -2)", lambda x, v, m: v.flip(0)[::2]),
    ("x:slice{axis = 3, first = -2}", lambda x, v, m: x[:, :, -2:]),
    ("x:narrow(4, 3, 2)", lambda x, v, m: x.narrow(3, 2, 2)),
    ("x:select(2, -1)", lambda x, v, m: x.select(1, -1)),
    ("x:at(1, nil, {2, 3})", lambda x, v, m: x[0, :, 1:3]),
    ("select(2, x:split(4, 4))", lambda x, v, m: x.split(4, 3)[1]),
    ("select(3, x:split({1, 2, 3}, 4))", lambda x, v, m: x.split((1, 2, 3), 3)[2]),
    ("select(2, x:chunk(2, 3))", lambda x, v, m: x.chunk(2, 2)[1]),
    ("select(1, v:tensor_split(2))", lambda x, v, m: v.tensor_split(2)[0]),
    ("select(3, x:unbind(2))", lambda x, v, m: x.unbind(1)[2]),
    ("nn.concat({x, x * 2, x}, 3)", lambda x, v, m: torch.cat((x, x * 2, x), 2)),
    ("nn.concat{x, x, axis = 1}", lambda x, v, m: torch.cat((x, x))),
    ("nn.stack({m, m * 2}, 2)", lambda x, v, m: torch.stack((m, m * 2), 1)),
    ("nn.stack{v, v}", lambda x, v, m: torch.stack((v, v))),
    ("nn.hstack{m, m}", lambda x, v, m: torch.hstack((m, m))),
    ("nn.vstack{v, v * 2}", lambda x, v, m: torch.vstack((v, v * 2))),
    ("nn.dstack{m, m}", lambda x, v, m: torch.dstack((m, m))),
    ("v:expand{3, -1}", lambda x, v, m: v.expand(3, -1)),
    ("v:unsqueeze(2):expand{5, 4}", lambda x, v, m: v.unsqueeze(1).expand(5, 4)),
    ("m:tile{2, 3}", lambda x, v, m: m.tile(2, 3)),
    ("m:tile{2, 1, 2}", lambda x, v, m: m.tile(2, 1, 2)),
    ("m:repeat_interleave(2, 2)", lambda x, v, m: m.repeat_interleave(2, 1)),
    ("v:repeat_interleave(3)", lambda x, v, m: v.repeat_interleave(3)),
    ("x:pad{1, 2}", lambda x, v, m: F.pad(x, (1, 2))),
    ("x:pad({1, 2, 0, 3}, 'constant', 1.5)", lambda x, v, m: F.pad(x, (1, 2, 0, 3), value=1.5)),
    ("x:pad({2, 1, 1, 3}, 'reflect')", lambda x, v, m: F.pad(x, (2, 1, 1, 3), mode="reflect")),
    ("x:pad({2, 1, 1, 5}, 'replicate')", lambda x, v, m: F.pad(x, (2, 1, 1, 5), mode="replicate")),
    ("x:pad({2, 1, 1, 3}, 'circular')", lambda x, v, m: F.pad(x, (2, 1, 1, 3), mode="circular")),
    ("x:pad{-1, 2, -1, -2}", lambda x, v, m: F.pad(x, (-1, 2, -1, -2))),
    ("x:reshape{2, 12, 2, 3}:pixel_shuffle(2)",
     lambda x, v, m: F.pixel_shuffle(x.reshape(2, 12, 2, 3), 2)),
    ("x:pixel_unshuffle(2)", lambda x, v, m: F.pixel_unshuffle(x, 2)),
    ("x:reshape{2, 6, 2, 6}:channel_shuffle(3)",
     lambda x, v, m: torch.channel_shuffle(x.reshape(2, 6, 2, 6), 3)),
])

section("selection", {"x": floats(3, 4, 6), "i": ints(4, 5), "j": ints(6, 3, 4, 2),
                      "m": floats(4, 6), "v": floats(5)}, [
    ("x:gather(i, 2)", lambda x, i, j, m, v: x[:, i.long()]),
    ("x:index_select(2, i)", lambda x, i, j, m, v: x.index_select(1, i)),
    ("x:take_along(j)", lambda x, i, j, m, v: x.gather(2, j.long())),
    ("x:take(i)", lambda x, i, j, m, v: x.take(i.long())),
    ("i:one_hot(4)", lambda x, i, j, m, v: F.one_hot(i.long(), 4).float()),
    ("m:index_add(1, i, nn.stack({v, v, v, v, v, v}, 2))",
     lambda x, i, j, m, v: m.index_add(0, i, torch.stack([v] * 6, 1))),
    ("i:bincount(4):float()", lambda x, i, j, m, v: torch.bincount(i, minlength=4).float()),
    ("i:bincount(4, v)", lambda x, i, j, m, v: torch.bincount(i, v, minlength=4).float()),
    ("m:triu()", lambda x, i, j, m, v: m.triu()), ("m:tril(1)", lambda x, i, j, m, v: m.tril(1)),
    ("x:triu(-1)", lambda x, i, j, m, v: x.triu(-1)),
    ("m:diagonal()", lambda x, i, j, m, v: m.diagonal()),
    ("m:diagonal(2)", lambda x, i, j, m, v: m.diagonal(2)),
    ("m:diagonal(-1)", lambda x, i, j, m, v: m.diagonal(-1)),
    ("x:diagonal(1, 2, 3)", lambda x, i, j, m, v: x.diagonal(1, 1, 2)),
    ("v:diag()", lambda x, i, j, m, v: v.diag()), ("v:diag(-2)", lambda x, i, j, m, v: v.diag(-2)),
    ("m:diag_embed(1)", lambda x, i, j, m, v: m.diag_embed(1)),
    ("m:trace()", lambda x, i, j, m, v: m.trace()),
    ("m:bucketize(nn.tensor{-1.0, 0.0, 1.0}):float()",
     lambda x, i, j, m, v: torch.bucketize(m, torch.tensor([-1.0, 0.0, 1.0])).float()),
])

section("constants", {"v": floats(4), "w": floats(3)}, [
    ("nn.zeros{2, 4} + v", lambda v, w: v.expand(2, 4)),
    ("nn.ones{2, 4} * v", lambda v, w: v.expand(2, 4)),
    ("nn.full({4}, 2.5) + v", lambda v, w: v + 2.5), ("v:full_like(3) + v", lambda v, w: v + 3),
    ("nn.arange(4):float() + v", lambda v, w: v + torch.arange(4)),
    ("nn.arange(1, 3, 0.5) * v", lambda v, w: torch.arange(1, 3, 0.5) * v),
    ("nn.arange(10, 2, -2):float() * v", lambda v, w: torch.arange(10, 2, -2) * v),
    ("nn.linspace(0, 1, 4) * v", lambda v, w: torch.linspace(0, 1, 4) * v),
    ("nn.logspace(0, 2, 4) * v", lambda v, w: torch.logspace(0, 2, 4) * v),
    ("nn.eye(4) * v", lambda v, w: torch.eye(4) * v),
    ("nn.eye(2, 4) * v", lambda v, w: torch.eye(2, 4) * v),
    ("nn.tri(3, 4) * v", lambda v, w: torch.tril(torch.ones(3, 4)) * v),
    ("nn.tensor{{1, 2, 3, 4}, {5, 6, 7, 8}}:float() * v",
     lambda v, w: torch.tensor([[1., 2, 3, 4], [5, 6, 7, 8]]) * v),
    ("nn.tensor{0.5, -1.0, 3.0, 0.5} * v", lambda v, w: torch.tensor([.5, -1, 3, .5]) * v),
    ("select(1, nn.meshgrid{v, w})", lambda v, w: torch.meshgrid(v, w, indexing="ij")[0]),
    ("select(2, nn.meshgrid{v, w, indexing = 'xy'})",
     lambda v, w: torch.meshgrid(v, w, indexing="xy")[1]),
])

section("reductions", {"x": floats(3, 4, 7),
                       "n": torch.where(floats(3, 5) > 1, torch.tensor(float("nan")), floats(3, 5)),
                       "i": ints(9, 3, 5, low=-9)}, [
    ("x:sum()", lambda x, n, i: x.sum()), ("x:sum(2)", lambda x, n, i: x.sum(1)),
    ("x:sum({1, 3}, true)", lambda x, n, i: x.sum((0, 2), True)),
    ("x:sum{axes = -1, keepdim = true}", lambda x, n, i: x.sum(-1, True)),
    ("x:prod(3)", lambda x, n, i: x.prod(2)), ("x:mean{2, 3}", lambda x, n, i: x.mean((1, 2))),
    ("n:nansum(2)", lambda x, n, i: n.nansum(1)), ("n:nanmean(1)", lambda x, n, i: n.nanmean(0)),
    ("n:isnan():float()", lambda x, n, i: n.isnan().float()),
    ("i:count_nonzero(2):float()", lambda x, n, i: i.count_nonzero(1).float()),
    ("x:logsumexp(3)", lambda x, n, i: x.logsumexp(2)),
    ("x:amax{1, 2}", lambda x, n, i: x.amax((0, 1))), ("x:max()", lambda x, n, i: x.max()),
    ("x:max{axis = 2}", lambda x, n, i: x.max(1)[0]),
    ("select(2, x:min{axis = 2}):float()", lambda x, n, i: x.min(1)[1].float()),
    ("select(2, x:aminmax(3))", lambda x, n, i: x.amax(2)),
    ("x:argmax(2):float()", lambda x, n, i: x.argmax(1).float()),
    ("x:topk(3)", lambda x, n, i: x.topk(3)[0]),
    ("select(2, x:topk(2, 2, {largest = false})):float()",
     lambda x, n, i: x.topk(2, 1, largest=False)[1].float()),
    ("x:sort()", lambda x, n, i: x.sort()[0]),
    ("x:sort(2, true)", lambda x, n, i: x.sort(1, True)[0]),
    ("x:argsort():float()", lambda x, n, i: x.argsort().float()),
    ("x:kthvalue(2, 3)", lambda x, n, i: x.kthvalue(2, 2)[0]),
    ("x:median(3)", lambda x, n, i: x.median(2)[0]),
    ("x:gt(0):all(3):float()", lambda x, n, i: (x > 0).all(2).float()),
    ("x:gt(1):any(3):float()", lambda x, n, i: (x > 1).any(2).float()),
    ("x:cumsum(2)", lambda x, n, i: x.cumsum(1)), ("x:cumprod()", lambda x, n, i: x.cumprod(-1)),
    ("x:logcumsumexp(1)", lambda x, n, i: x.logcumsumexp(0)),
    ("x:diff()", lambda x, n, i: x.diff()),
    ("x:diff(2, 2)", lambda x, n, i: x.diff(2, 1)), ("x:var(3)", lambda x, n, i: x.var(2)),
    ("x:var{axes = {1, 2}, correction = 0}", lambda x, n, i: x.var((0, 1), unbiased=False)),
    ("x:std()", lambda x, n, i: x.std()), ("select(2, x:std_mean(2))", lambda x, n, i: x.mean(1)),
    ("x:norm()", lambda x, n, i: x.norm()), ("x:norm(1, 3)", lambda x, n, i: x.norm(1, 2)),
    ("x:norm('fro')", lambda x, n, i: x.norm("fro")),
    ("x:norm('fro', 2)", lambda x, n, i: x.norm("fro", 1)),
    ("x:norm(3, {1, 2})", lambda x, n, i: x.norm(3, (0, 1))),
    ("x:norm{p = math.huge, axes = 2}", lambda x, n, i: x.norm(float("inf"), 1)),
    ("x:dist(x * 2)", lambda x, n, i: x.dist(x * 2)),
    ("x:normalize()", lambda x, n, i: F.normalize(x)),
    ("x:cosine_similarity(x:flip(1))", lambda x, n, i: F.cosine_similarity(x, x.flip(0))),
    ("x:at(1):pairwise_distance(x:at(2))", lambda x, n, i: F.pairwise_distance(x[0], x[1])),
    ("x:cdist(x:flip(2))", lambda x, n, i: torch.cdist(x, x.flip(1))),
])

section("products", {"m": floats(4, 6), "k": floats(6, 5), "v": floats(6), "u": floats(4),
                     "p": floats(3, 4, 6), "q": floats(3, 6, 5), "s": floats(5, 5)}, [
    ("m:matmul(k)", lambda m, k, v, u, p, q, s: m @ k),
    ("m:matmul(v)", lambda m, k, v, u, p, q, s: m @ v),
    ("u:matmul(m)", lambda m, k, v, u, p, q, s: u @ m),
    ("v:matmul(v)", lambda m, k, v, u, p, q, s: v @ v),
    ("p:matmul(k)", lambda m, k, v, u, p, q, s: p @ k),
    ("p:matmul(v)", lambda m, k, v, u, p, q, s: p @ v),
    ("v:matmul(q)", lambda m, k, v, u, p, q, s: v @ q),
    ("m:mm(k)", lambda m, k, v, u, p, q, s: m @ k),
    ("p:bmm(q)", lambda m, k, v, u, p, q, s: p @ q),
    ("m:mv(v)", lambda m, k, v, u, p, q, s: m.mv(v)),
    ("v:dot(v)", lambda m, k, v, u, p, q, s: v.dot(v)),
    ("p:inner(m)", lambda m, k, v, u, p, q, s: torch.inner(p, m)),
    ("u:outer(v)", lambda m, k, v, u, p, q, s: u.outer(v)),
    ("nn.zeros{4, 5}:addmm(m, k, {alpha = 2})", lambda m, k, v, u, p, q, s: 2 * (m @ k)),
    ("u:addmv(m, v, {beta = 0.5})", lambda m, k, v, u, p, q, s: u.addmv(m, v, beta=0.5)),
    ("m:kron(s)", lambda m, k, v, u, p, q, s: torch.kron(m, s)),
    ("p:at(nil, nil, {1, 3}):cross(p:at(nil, nil, {4, 6}))",
     lambda m, k, v, u, p, q, s: torch.cross(p[..., :3], p[..., 3:], dim=-1)),
    ("nn.multi_dot{m, k, s}", lambda m, k, v, u, p, q, s: m @ k @ s),
    ("p:tensordot(q, 0, {3}, {2})", lambda m, k, v, u, p, q, s: torch.tensordot(p, q, ([2], [1]))),
    ("p:tensordot(k, 1)", lambda m, k, v, u, p, q, s: torch.tensordot(p, k, 1)),
    ("nn.einsum('ij,jk->ik', m, k)", lambda m, k, v, u, p, q, s: m @ k),
    ("nn.einsum('bij,bjk->bki', p, q)",
     lambda m, k, v, u, p, q, s: torch.einsum("bij,bjk->bki", p, q)),
    ("nn.einsum('ii->i', s)", lambda m, k, v, u, p, q, s: s.diagonal()),
    ("nn.einsum('ii', s)", lambda m, k, v, u, p, q, s: s.trace()),
    ("nn.einsum('bij->j', p)", lambda m, k, v, u, p, q, s: p.sum((0, 1))),
    ("nn.einsum('i,j->ij', u, v)", lambda m, k, v, u, p, q, s: u.outer(v)),
    ("nn.einsum('ij,kj,j->ik', m, m, v)",
     lambda m, k, v, u, p, q, s: torch.einsum("ij,kj,j->ik", m, m, v)),
    ("nn.einsum('...ij,jk->...ik', p, k)", lambda m, k, v, u, p, q, s: p @ k),
    ("nn.einsum('b...,b...->b...', p, p)", lambda m, k, v, u, p, q, s: p * p),
    ("nn.einsum('ijk->kji', p)", lambda m, k, v, u, p, q, s: p.permute(2, 1, 0)),
    ("nn.einsum('bij,bij->b', p, p)", lambda m, k, v, u, p, q, s: (p * p).sum((1, 2))),
    ("nn.einsum('bij,ik->bjk', p, m)",
     lambda m, k, v, u, p, q, s: torch.einsum("bij,ik->bjk", p, m)),
    ("nn.functional.linear(p, m, u)", lambda m, k, v, u, p, q, s: F.linear(p, m, u)),
    ("nn.functional.bilinear(u, u, s:slice(1, 1, 4):slice(2, 1, 4):unsqueeze(1))",
     lambda m, k, v, u, p, q, s: F.bilinear(u, u, s[:4, :4].unsqueeze(0))),
])

section("pools", {"x": floats(2, 3, 9, 10), "l": floats(2, 3, 11), "d": floats(1, 2, 5, 6, 7)}, [
    ("x:max_pool2d(2)", lambda x, l, d: F.max_pool2d(x, 2)),
    ("x:max_pool2d{kernel_size = {3, 2}, stride = {1, 2}, padding = {1, 1}}",
     lambda x, l, d: F.max_pool2d(x, (3, 2), (1, 2), (1, 1))),
    ("x:max_pool2d{kernel = 3, dilation = 2, ceil_mode = true}",
     lambda x, l, d: F.max_pool2d(x, 3, dilation=2, ceil_mode=True)),
    ("(nn.grad((x:max_pool2d{kernel = 3, stride = 4, dilation = 2, ceil_mode = true}):sum(), x))",
     lambda x, l, d: gradient(lambda x: F.max_pool2d(x, 3, 4, dilation=2, ceil_mode=True), x)),
    ("select(2, x:max_pool2d(3, {pad = 1, stride = 2, return_indices = true})):float()",
     lambda x, l, d: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1].float()),
    ("l:max_pool1d(3, {pad = 1})", lambda x, l, d: F.max_pool1d(l, 3, padding=1)),
    ("d:max_pool3d(2)", lambda x, l, d: F.max_pool3d(d, 2)),
    ("d:max_pool3d({3, 2, 3}, {stride = 1, pad = {1, 0, 1}})",
     lambda x, l, d: F.max_pool3d(d, (3, 2, 3), 1, (1, 0, 1))),
    ("x:avg_pool2d(3, {stride = 2, pad = 1})", lambda x, l, d: F.avg_pool2d(x, 3, 2, 1)),
    ("x:avg_pool2d(3, {pad = 1, count_include_pad = false, ceil_mode = true})",
     lambda x, l, d: F.avg_pool2d(x, 3, padding=1, count_include_pad=False, ceil_mode=True)),
    ("x:avg_pool2d(2, {divisor_override = 3})",
     lambda x, l, d: F.avg_pool2d(x, 2, divisor_override=3)),
    ("l:avg_pool1d(4, {stride = 3, ceil_mode = true})",
     lambda x, l, d: F.avg_pool1d(l, 4, 3, ceil_mode=True)),
    ("d:avg_pool3d(2, {pad = 1})", lambda x, l, d: F.avg_pool3d(d, 2, padding=1)),
    ("d:avg_pool3d(3, {pad = 1, count_include_pad = false, stride = 2})",
     lambda x, l, d: F.avg_pool3d(d, 3, 2, 1, count_include_pad=False)),
    ("l:abs():lp_pool1d(2, 3)", lambda x, l, d: F.lp_pool1d(l.abs(), 2, 3)),
    ("x:abs():lp_pool2d(3, 2)", lambda x, l, d: F.lp_pool2d(x.abs(), 3, 2)),
    ("x:adaptive_avg_pool2d(1)", lambda x, l, d: F.adaptive_avg_pool2d(x, 1)),
    ("x:adaptive_avg_pool2d{4, 5}", lambda x, l, d: F.adaptive_avg_pool2d(x, (4, 5))),
    ("l:adaptive_avg_pool1d(4)", lambda x, l, d: F.adaptive_avg_pool1d(l, 4)),
    ("d:adaptive_avg_pool3d{2, 3, 4}", lambda x, l, d: F.adaptive_avg_pool3d(d, (2, 3, 4))),
    ("x:adaptive_max_pool2d{4, 3}", lambda x, l, d: F.adaptive_max_pool2d(x, (4, 3))),
    ("x:slice(3, 1, 4):slice(4, 1, 5):adaptive_max_pool2d(3)",
     lambda x, l, d: F.adaptive_max_pool2d(x[:, :, :4, :5], 3)),
    ("l:adaptive_max_pool1d(3)", lambda x, l, d: F.adaptive_max_pool1d(l, 3)),
    ("d:adaptive_max_pool3d(2)", lambda x, l, d: F.adaptive_max_pool3d(d, 2)),
    ("x:unfold(3)", lambda x, l, d: F.unfold(x, 3)),
    ("x:unfold{kernel_size = {2, 3}, stride = 2, padding = 1, dilation = {1, 2}}",
     lambda x, l, d: F.unfold(x, (2, 3), (1, 2), 1, 2)),
    ("x:unfold(3, {pad = 1, stride = 2}):fold({9, 10}, 3, {pad = 1, stride = 2})",
     lambda x, l, d: F.fold(F.unfold(x, 3, padding=1, stride=2), (9, 10), 3, padding=1, stride=2)),
    ("x:local_response_norm(3)", lambda x, l, d: F.local_response_norm(x, 3)),
    ("x:local_response_norm(2, 1e-2, 0.5, 2)",
     lambda x, l, d: F.local_response_norm(x, 2, 1e-2, 0.5, 2)),
])

section("resizing", {"x": floats(2, 3, 6, 8), "l": floats(2, 3, 7), "d": floats(1, 2, 3, 4, 5),
                     "g": floats(2, 5, 4, 2, low=-1.3, high=1.3), "t": floats(2, 2, 3)}, [
    ("x:interpolate{scale = 2}", lambda x, l, d, g, t: F.interpolate(x, scale_factor=2)),
    ("x:interpolate(11)", lambda x, l, d, g, t: F.interpolate(x, 11)),
    ("x:interpolate({9, 4}, nil, 'bilinear')",
     lambda x, l, d, g, t: F.interpolate(x, (9, 4), None, "bilinear")),
    ("x:interpolate{size = {9, 5}}", lambda x, l, d, g, t: F.interpolate(x, (9, 5))),
    ("x:interpolate{size = {9, 5}, mode = 'nearest-exact'}",
     lambda x, l, d, g, t: F.interpolate(x, (9, 5), mode="nearest-exact")),
    ("x:interpolate{scale_factor = 2, mode = 'bilinear'}",
     lambda x, l, d, g, t: F.interpolate(x, scale_factor=2, mode="bilinear")),
    ("x:upsample{size = {11, 5}, mode = 'bilinear', align_corners = true}",
     lambda x, l, d, g, t: F.interpolate(x, (11, 5), mode="bilinear", align_corners=True)),
    ("x:interpolate{size = {11, 5}, mode = 'bicubic'}",
     lambda x, l, d, g, t: F.interpolate(x, (11, 5), mode="bicubic")),
    ("x:interpolate{scale = 1.5, mode = 'bicubic', align_corners = true}",
     lambda x, l, d, g, t: F.interpolate(x, scale_factor=1.5, mode="bicubic", align_corners=True)),
    ("x:interpolate{size = {4, 4}, mode = 'area'}",
     lambda x, l, d, g, t: F.interpolate(x, (4, 4), mode="area")),
    ("l:interpolate{size = 10, mode = 'linear'}",
     lambda x, l, d, g, t: F.interpolate(l, 10, mode="linear")),
    ("l:interpolate{scale = 0.5}", lambda x, l, d, g, t: F.interpolate(l, scale_factor=0.5)),
    ("d:interpolate{size = {5, 6, 7}, mode = 'trilinear'}",
     lambda x, l, d, g, t: F.interpolate(d, (5, 6, 7), mode="trilinear")),
    ("x:grid_sample(g)", lambda x, l, d, g, t: F.grid_sample(x, g, align_corners=False)),
    ("x:grid_sample(g, {align_corners = true, padding_mode = 'border'})",
     lambda x, l, d, g, t: F.grid_sample(x, g, padding_mode="border", align_corners=True)),
    ("x:grid_sample(g, {padding_mode = 'reflection'})",
     lambda x, l, d, g, t: F.grid_sample(x, g, padding_mode="reflection", align_corners=False)),
    ("x:grid_sample(g, {mode = 'nearest'})",
     lambda x, l, d, g, t: F.grid_sample(x, g, mode="nearest", align_corners=False)),
    ("t:affine_grid({2, 3, 4, 5})",
     lambda x, l, d, g, t: F.affine_grid(t, (2, 3, 4, 5), align_corners=False)),
    ("t:affine_grid({2, 3, 4, 5}, {align_corners = true})",
     lambda x, l, d, g, t: F.affine_grid(t, (2, 3, 4, 5), align_corners=True)),
])

section("convolutions", {"x": floats(2, 4, 9, 8), "l": floats(2, 4, 11), "d": floats(1, 4, 5, 6, 5),
                         "w2": floats(6, 2, 3, 3), "w1": floats(6, 4, 3),
                         "w3": floats(6, 4, 3, 2, 3), "t2": floats(4, 3, 3, 3),
                         "t1": floats(4, 2, 4), "t3": floats(4, 2, 3, 2, 2), "b": floats(6)}, [
    ("nn.functional.conv2d(x, w2, b, 1, 1, 1, 2)",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b: F.conv2d(x, w2, b, 1, 1, 1, 2)),
    ("nn.functional.conv2d(x, w2, {padding = 'same', dilation = 2, groups = 2})",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b: F.conv2d(x, w2, padding="same",
                                                         dilation=2, groups=2)),
    ("nn.functional.conv1d(l, w1, b, 2, 1)",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b: F.conv1d(l, w1, b, 2, 1)),
    ("nn.functional.conv3d(d, w3, b, {stride = {2, 1, 2}, pad = {1, 0, 1}})",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b: F.conv3d(d, w3, b, (2, 1, 2), (1, 0, 1))),
    ("nn.functional.conv3d(d, w3:slice(2, 1, 2), {groups = 2, dilation = {2, 1, 1}})",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b: F.conv3d(d, w3[:, :2], groups=2,
                                                         dilation=(2, 1, 1))),
    ("nn.functional.conv_transpose2d(x, t2, {stride = 2, pad = 1, output_padding = 1})",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b: F.conv_transpose2d(x, t2, stride=2,
                                                                   padding=1, output_padding=1)),
    ("nn.functional.conv_transpose1d(l, t1, {stride = 3, pad = 1})",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b: F.conv_transpose1d(l, t1, stride=3, padding=1)),
    ("nn.functional.conv_transpose3d(d, t3, {stride = {2, 1, 2}, pad = {1, 0, 0}, "
     "output_pad = {1, 0, 0}})",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b:
         F.conv_transpose3d(d, t3, stride=(2, 1, 2), padding=(1, 0, 0), output_padding=(1, 0, 0))),
    ("nn.functional.conv_transpose3d(d, t3, {groups = 2, dilation = {2, 1, 1}})",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b:
         F.conv_transpose3d(d, t3, groups=2, dilation=(2, 1, 1))),
    ("nn.functional.batch_norm(x, nn.zeros{4}, nn.full({4}, 2.0))",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b:
         F.batch_norm(x, torch.zeros(4), torch.full((4,), 2.))),
    ("nn.functional.layer_norm(x, {9, 8})",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b: F.layer_norm(x, (9, 8))),
    ("nn.functional.group_norm(x, 2)",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b: F.group_norm(x, 2)),
    ("nn.functional.instance_norm(l)",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b: F.instance_norm(l)),
])

one = torch.where(floats(6) > 0, 1.0, -1.0)
section("losses", {"x": floats(6, 5), "y": floats(6, 5),
                   "z": floats(6, 5), "p": floats(6, 5, low=0.05, high=0.95), "c": ints(5, 6),
                   "s": one, "w": floats(5, low=0.5, high=2.0), "im": floats(2, 5, 3, 4),
                   "ic": ints(5, 2, 3, 4)}, [
    ("x:mse_loss(y)", lambda x, y, z, p, c, s, w, im, ic: F.mse_loss(x, y)),
    ("x:l1_loss(y, {reduction = 'sum'})",
     lambda x, y, z, p, c, s, w, im, ic: F.l1_loss(x, y, reduction="sum")),
    ("x:huber_loss(y, {delta = 0.5})",
     lambda x, y, z, p, c, s, w, im, ic: F.huber_loss(x, y, delta=0.5)),
    ("x:smooth_l1_loss(y, {beta = 0.5, reduction = 'none'})",
     lambda x, y, z, p, c, s, w, im, ic: F.smooth_l1_loss(x, y, beta=0.5, reduction="none")),
    ("x:bce_with_logits(p, {pos_weight = w})",
     lambda x, y, z, p, c, s, w, im, ic: F.binary_cross_entropy_with_logits(x, p, pos_weight=w)),
    ("p:binary_cross_entropy(p:flip(1))",
     lambda x, y, z, p, c, s, w, im, ic: F.binary_cross_entropy(p, p.flip(0))),
    ("x:log_softmax():kl_div(p, {reduction = 'batchmean'})",
     lambda x, y, z, p, c, s, w, im, ic: F.kl_div(x.log_softmax(-1), p, reduction="batchmean")),
    ("x:kl_div(y, {log_target = true})",
     lambda x, y, z, p, c, s, w, im, ic: F.kl_div(x, y, log_target=True)),
    ("x:poisson_nll_loss(p * 5, {full = true})",
     lambda x, y, z, p, c, s, w, im, ic: F.poisson_nll_loss(x, p * 5, full=True)),
    ("x:gaussian_nll_loss(y, p, {full = true})",
     lambda x, y, z, p, c, s, w, im, ic: F.gaussian_nll_loss(x, y, p, full=True)),
    ("x:soft_margin_loss(s:unsqueeze(2):expand{6, 5})",
     lambda x, y, z, p, c, s, w, im, ic: F.soft_margin_loss(x, s.unsqueeze(1).expand(6, 5))),
    ("x:sum(2):hinge_embedding_loss(s)",
     lambda x, y, z, p, c, s, w, im, ic: F.hinge_embedding_loss(x.sum(1), s)),
    ("x:sum(2):margin_ranking_loss(y:sum(2), s, {margin = 0.3})",
     lambda x, y, z, p, c, s, w, im, ic: F.margin_ranking_loss(x.sum(1), y.sum(1), s, 0.3)),
    ("x:cosine_embedding_loss(y, s, {margin = 0.1})",
     lambda x, y, z, p, c, s, w, im, ic: F.cosine_embedding_loss(x, y, s, 0.1)),
    ("x:triplet_margin_loss(y, z)",
     lambda x, y, z, p, c, s, w, im, ic: F.triplet_margin_loss(x, y, z)),
    ("x:triplet_margin_loss(y, z, {swap = true, p = 1})",
     lambda x, y, z, p, c, s, w, im, ic: F.triplet_margin_loss(x, y, z, swap=True, p=1)),
    ("x:multilabel_soft_margin_loss(p:gt(0.5):float())",
     lambda x, y, z, p, c, s, w, im, ic: F.multilabel_soft_margin_loss(x, (p > 0.5).float())),
    ("x:multi_margin_loss(c)",
     lambda x, y, z, p, c, s, w, im, ic: F.multi_margin_loss(x, c.long())),
    ("x:multi_margin_loss(c, {p = 2, weight = w})",
     lambda x, y, z, p, c, s, w, im, ic: F.multi_margin_loss(x, c.long(), p=2, weight=w)),
    ("x:cross_entropy(c, {label_smoothing = 0.1, weight = w})",
     lambda x, y, z, p, c, s, w, im, ic: F.cross_entropy(x, c.long(), w, label_smoothing=0.1)),
    ("im:cross_entropy(ic, {axis = 2, ignore_index = 3})",
     lambda x, y, z, p, c, s, w, im, ic: F.cross_entropy(im, ic.long(), ignore_index=3)),
    ("im:log_softmax(2):nll_loss(ic, {axis = 2, weight = w})",
     lambda x, y, z, p, c, s, w, im, ic: F.nll_loss(im.log_softmax(1), ic.long(), w)),
    ("im:cross_entropy(im:softmax(3):permute(1, 2, 4, 3):reshape{2, 5, 3, 4}, " +
     "{axis = 2, weight = w, label_smoothing = 0.2, reduction = 'none'})",
     lambda x, y, z, p, c, s, w, im, ic: F.cross_entropy(
         im, im.softmax(2).permute(0, 1, 3, 2).reshape(2, 5, 3, 4), w, label_smoothing=0.2,
         reduction="none")),
    ("nn.grad(im:cross_entropy(ic, {axis = 2, weight = w, label_smoothing = 0.2}), im)",
     lambda x, y, z, p, c, s, w, im, ic: gradient(
         lambda v: F.cross_entropy(v, ic.long(), w, label_smoothing=0.2), im)),
    ("im:permute(3, 1, 4, 2):cross_entropy(ic:permute(2, 1, 3), {ignore_index = 1})",
     lambda x, y, z, p, c, s, w, im, ic: F.cross_entropy(im, ic.long(), ignore_index=1)),
    ("im:permute(1, 3, 4, 2):reshape{24, 5}:cross_entropy(ic:reshape{24}, {label_smoothing = 0.1})",
     lambda x, y, z, p, c, s, w, im, ic: F.cross_entropy(im, ic.long(), label_smoothing=0.1)),
    ("(im:permute(1, 3, 4, 2) * w + nn.index({2, 3, 4, 5}, 2)):argmax({2, 3})",
     lambda x, y, z, p, c, s, w, im, ic: (
         im.permute(0, 2, 3, 1) * w + torch.arange(3.0).view(3, 1, 1)).flatten(1, 2).argmax(1)),
    ("im:permute(4, 1, 3, 2):argmax({1, 3})",
     lambda x, y, z, p, c, s, w, im, ic: im.permute(0, 1, 3, 2).flatten(2).argmax(2)),
    ("im:select(1, 1):cross_entropy(ic:select(1, 1), {axis = 1, reduction = 'sum'})",
     lambda x, y, z, p, c, s, w, im, ic: F.cross_entropy(im[:1], ic[:1].long(), reduction="sum")),
    ("x:nll_loss(c, {reduction = 'none'})",
     lambda x, y, z, p, c, s, w, im, ic: F.nll_loss(x, c.long(), reduction="none")),
])

# Layers with parameters: (name of the layer, expression, module, what it is called with). The
# module's state dict is loaded under that name.
MODULES = {}


def layers(section_name, inputs, cases):
    SECTIONS[section_name] = (inputs, [(text, call) for _, text, _, call in cases])
    MODULES[section_name] = {name: module.eval() for name, _, module, _ in cases if module}
    for name, _, module, _ in cases:
        for key, p in (module.state_dict() if module else {}).items():
            if p.is_floating_point():
                p.copy_(torch.rand(p.shape, generator=GEN) * 0.8 + 0.2 if "var" in key
                        else torch.randn(p.shape, generator=GEN) * 0.3)


def of(name, text, module, call=None):
    return name, text, module, call or (lambda x, *_: module(x))


layers("layers", {"x": floats(2, 4, 9, 8), "l": floats(2, 4, 11), "d": floats(1, 4, 5, 6, 5),
                  "f": floats(3, 6), "g": floats(3, 5), "i": ints(7, 3, 4)}, [
    of("c2", "x:conv2d('c2', {out_channels = 6, "
             "kernel_size = 3, padding = 1, stride = 2, groups = 2, padding_mode = 'reflect'})",
       (m := tnn.Conv2d(4, 6, 3, 2, 1, groups=2, padding_mode="reflect")),
       lambda x, l, d, f, g, i, m=m: m(x)),
    of("c1", "l:conv1d('c1', {out = 5, kernel = 4, pad = 'same'})",
       (m := tnn.Conv1d(4, 5, 4, padding="same")), lambda x, l, d, f, g, i, m=m: m(l)),
    of("c3", "d:conv3d('c3', {out = 3, kernel = {3, 2, 1}, stride = {1, 2, 1}, pad = {1, 0, 0}})",
       (m := tnn.Conv3d(4, 3, (3, 2, 1), (1, 2, 1), (1, 0, 0))),
       lambda x, l, d, f, g, i, m=m: m(d)),
    of("t1", "l:conv_transpose1d('t1', {out = 6, kernel = 3, stride = 2, groups = 2})",
       (m := tnn.ConvTranspose1d(4, 6, 3, 2, groups=2)), lambda x, l, d, f, g, i, m=m: m(l)),
    of("t3", "d:conv_transpose3d('t3', {out = 2, kernel = 2, stride = 2, pad = 1})",
       (m := tnn.ConvTranspose3d(4, 2, 2, 2, 1)), lambda x, l, d, f, g, i, m=m: m(d)),
    of("fc", "f:linear('fc', {out_features = 4})", (m := tnn.Linear(6, 4)),
       lambda x, l, d, f, g, i, m=m: m(f)),
    of("bi", "f:bilinear('bi', {x2 = g, out = 4})", (m := tnn.Bilinear(6, 5, 4)),
       lambda x, l, d, f, g, i, m=m: m(f, g)),
    of("em", "i:embedding('em', {count = 7, size = 5})", (m := tnn.Embedding(7, 5)),
       lambda x, l, d, f, g, i, m=m: m(i.long())),
    of("eb", "i:embedding_bag('eb', {count = 7, size = 5, mode = 'mean'})",
       (m := tnn.EmbeddingBag(7, 5)), lambda x, l, d, f, g, i, m=m: m(i.long())),
    of("ex", "i:embedding_bag('ex', {count = 7, size = 5, mode = 'max'})",
       (m := tnn.EmbeddingBag(7, 5, mode="max")), lambda x, l, d, f, g, i, m=m: m(i.long())),
    of("pr", "x:prelu('pr', {count = 4})", (m := tnn.PReLU(4)), lambda x, l, d, f, g, i, m=m: m(x)),
    of("b1", "f:batch_norm1d('b1')", (m := tnn.BatchNorm1d(6)), lambda x, l, d, f, g, i, m=m: m(f)),
    of("bl", "l:batch_norm1d('bl', {eps = 1e-3})", (m := tnn.BatchNorm1d(4, eps=1e-3)),
       lambda x, l, d, f, g, i, m=m: m(l)),
    of("b3", "d:batch_norm3d('b3')", (m := tnn.BatchNorm3d(4)), lambda x, l, d, f, g, i, m=m: m(d)),
    of("bt", "x:batch_norm2d('bt', {track_running_stats = false})",
       (m := tnn.BatchNorm2d(4, track_running_stats=False)), lambda x, l, d, f, g, i, m=m: m(x)),
    of("ln", "x:layer_norm('ln', {shape = {9, 8}})", (m := tnn.LayerNorm((9, 8))),
       lambda x, l, d, f, g, i, m=m: m(x)),
    of("gn", "x:group_norm('gn', {groups = 2})", (m := tnn.GroupNorm(2, 4)),
       lambda x, l, d, f, g, i, m=m: m(x)),
    of("in", "x:instance_norm2d('in', {affine = true})", (m := tnn.InstanceNorm2d(4, affine=True)),
       lambda x, l, d, f, g, i, m=m: m(x)),
    of("seq", "f:sequential('seq', {{'linear', {out = 4}}, {'relu'}, {'linear', {out = 2}}})",
       (m := tnn.Sequential(tnn.Linear(6, 4), tnn.ReLU(), tnn.Linear(4, 2))),
       lambda x, l, d, f, g, i, m=m: m(f)),
])

section("more", {"x": floats(4, 5), "i": ints(100, 4, 5), "j": ints(100, 4, 5), "k": ints(5, 4, 3),
                 "n": ints(4, 2), "y": floats(4, 3), "r": floats(2, 5), "v": floats(4),
                 "q": floats(4, 4)}, [
    ("i:bitwise_and(j):float()", lambda x, i, j, k, n, y, r, v, q: (i & j).float()),
    ("i:bitwise_or(j):float()", lambda x, i, j, k, n, y, r, v, q: (i | j).float()),
    ("i:bitwise_xor(12):float()", lambda x, i, j, k, n, y, r, v, q: (i ^ 12).float()),
    ("i:bitwise_not():float()", lambda x, i, j, k, n, y, r, v, q: (~i).float()),
    ("i:bitwise_left_shift(3):float()", lambda x, i, j, k, n, y, r, v, q: (i << 3).float()),
    ("i:bitwise_not():bitwise_right_shift(2):float()",
     lambda x, i, j, k, n, y, r, v, q: (~i >> 2).float()),
    # PyTorch 1 leaves places that an integer has not undefined, 2 has these
    ("i:bitwise_left_shift(j - 50):float()", lambda x, i, j, k, n, y, r, v, q:
     torch.where((j >= 50) & (j < 82), i << (j - 50).clamp(0, 31), torch.zeros_like(i)).float()),
    ("(30 - i):bitwise_right_shift(j - 50):float()", lambda x, i, j, k, n, y, r, v, q:
     ((30 - i) >> torch.where((j >= 50) & (j < 82), j - 50, torch.full_like(i, 31))).float()),
    ("x:cummax(2)", lambda x, i, j, k, n, y, r, v, q: x.cummax(1)[0]),
    ("x:cummin()", lambda x, i, j, k, n, y, r, v, q: x.cummin(1)[0]),
    ("x:msort()", lambda x, i, j, k, n, y, r, v, q: x.msort()),
    ("x:pdist()", lambda x, i, j, k, n, y, r, v, q: F.pdist(x)),
    ("x:cov()", lambda x, i, j, k, n, y, r, v, q: x.cov()),
    ("x:renorm(2, 1, 1.5)", lambda x, i, j, k, n, y, r, v, q: x.renorm(2, 0, 1.5)),
    ("x:scatter(2, k, 9)", lambda x, i, j, k, n, y, r, v, q: x.scatter(1, k.long(), 9.0)),
    ("x:scatter(2, nn.index({4, 3}, 2) + nn.index({4, 3}, 1):mod(2), y)",
     lambda x, i, j, k, n, y, r, v, q:
         x.scatter(1, (torch.arange(3) + (torch.arange(4) % 2)[:, None]), y)),
    ("x:index_copy(1, nn.tensor{2, 0}, r)",
     lambda x, i, j, k, n, y, r, v, q: x.index_copy(0, torch.tensor([2, 0]), r)),
    ("x:index_fill(1, n, -1)", lambda x, i, j, k, n, y, r, v, q: x.index_fill(0, n.long(), -1)),
    ("x:select_scatter(v, 2, 3)", lambda x, i, j, k, n, y, r, v, q: x.select_scatter(v, 1, 2)),
    ("x:slice_scatter(r, 1, 2, 3)", lambda x, i, j, k, n, y, r, v, q: torch.cat((x[:1], r, x[3:]))),
    ("v:diagflat(1)", lambda x, i, j, k, n, y, r, v, q: v.diagflat(1)),
    ("select(2, x:vsplit(2))", lambda x, i, j, k, n, y, r, v, q: x.vsplit(2)[1]),
    ("select(1, q:hsplit(2))", lambda x, i, j, k, n, y, r, v, q: q.hsplit(2)[0]),
    ("q:matrix_power(5)", lambda x, i, j, k, n, y, r, v, q: q.matrix_power(5)),
    ("q:matrix_power(0)", lambda x, i, j, k, n, y, r, v, q: q.matrix_power(0)),
    ("x:ldexp(2)", lambda x, i, j, k, n, y, r, v, q: torch.ldexp(x, torch.tensor(2))),
    ("x * x:size(2) + x:numel() + x:dim()", lambda x, i, j, k, n, y, r, v, q: x * 5 + 20 + 2),
    ("x:allclose(x):float()", lambda x, i, j, k, n, y, r, v, q: torch.ones(())),
    ("x:triplet_margin_with_distance_loss(x * 2, x:flip(1), "
     "{distance = function(a, b) return (a - b):abs():sum(2) end})",
     lambda x, i, j, k, n, y, r, v, q: F.triplet_margin_with_distance_loss(
         x, x * 2, x.flip(0), distance_function=lambda a, b: (a - b).abs().sum(1))),
])


def gradient(f, x):
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        return torch.autograd.grad(f(x).sum(), x)[0]


def ctc(x, t, m, n, **options):
    return F.ctc_loss(x.log_softmax(-1), t.long(), m.long(), n.long(), **options)


TRAPS = torch.tensor([[3, 1, -1, 2], [0, -1, 1, 2], [2, 0, 1, 3]], dtype=torch.int32)
section("rarer", {"x": floats(3, 4), "p": floats(4, 9, low=-0.999, high=0.999),
                  "b": floats(7).sort()[0], "k": ints(4, 3, 4), "i": ints(3, 3, 4),
                  "l": floats(12, 3, 6), "t": ints(6, 3, 4, low=1), "e": TRAPS,
                  "m": torch.tensor([12, 10, 9], dtype=torch.int32),
                  "n": torch.tensor([4, 2, 0], dtype=torch.int32)}, [
    ("p:erfinv()", lambda x, p, b, k, i, l, t, e, m, n: p.erfinv()),
    ("(nn.grad(p:erfinv():sum(), p))",
     lambda x, p, b, k, i, l, t, e, m, n: gradient(torch.erfinv, p)),
    ("x:quick_gelu()", lambda x, p, b, k, i, l, t, e, m, n: x * torch.sigmoid(1.702 * x)),
    ("p:quantile(0.3)", lambda x, p, b, k, i, l, t, e, m, n: p.quantile(0.3)),
    ("p:quantile(0.55, 1, true, {interpolation = 'nearest'})",
     lambda x, p, b, k, i, l, t, e, m, n:
         p.quantile(0.55, dim=0, keepdim=True, interpolation="nearest")),
    ("k:float():mode(2)", lambda x, p, b, k, i, l, t, e, m, n: k.float().mode(1)[0]),
    ("select(2, k:float():cummax(2)):float()",
     lambda x, p, b, k, i, l, t, e, m, n: k.float().cummax(1)[1].float()),
    ("select(2, k:float():cummin(1)):float()",
     lambda x, p, b, k, i, l, t, e, m, n: k.float().cummin(0)[1].float()),
    ("p:trapezoid(0.5)", lambda x, p, b, k, i, l, t, e, m, n: torch.trapezoid(p, dx=0.5)),
    ("p:cumulative_trapezoid(1, 1)",
     lambda x, p, b, k, i, l, t, e, m, n: torch.cumulative_trapezoid(p, dim=0)),
    ("b:searchsorted(x):float()",
     lambda x, p, b, k, i, l, t, e, m, n: torch.searchsorted(b, x).float()),
    ("p:sort():searchsorted(nn.pad(x, {0, 0, 0, 1}), {right = true}):float()",
     lambda x, p, b, k, i, l, t, e, m, n:
         torch.searchsorted(p.sort()[0], F.pad(x, (0, 0, 0, 1)), right=True).float()),
    ("k:isin(i):float()", lambda x, p, b, k, i, l, t, e, m, n: torch.isin(k, i).float()),
    ("x:histc(5, -1, 1)", lambda x, p, b, k, i, l, t, e, m, n: torch.histc(x, 5, -1, 1)),
] + [
    ("x:scatter_reduce(1, i, x * 2, '%s', {include_self = %s})" % (how, own),
     lambda x, p, b, k, i, l, t, e, m, n, how=how, own=own:
         x.scatter_reduce(0, i.long(), x * 2, how, include_self=own == "true"))
    for how in ("sum", "prod", "mean", "amax", "amin") for own in ("true", "false")
] + [
    ("nn.max_unpool2d(nn.max_pool2d(l:reshape{1, 3, 12, 6}, 2, {return_indices = true}), "
     "select(2, nn.max_pool2d(l:reshape{1, 3, 12, 6}, 2, {return_indices = true})), 2)",
     lambda x, p, b, k, i, l, t, e, m, n: F.max_unpool2d(
         *F.max_pool2d(l.reshape(1, 3, 12, 6), 2, return_indices=True), 2)),
    ("nn.max_unpool2d(nn.max_pool2d(l:reshape{1, 3, 12, 6}, 3, {stride = 2, pad = 1, "
     "return_indices = true}), select(2, nn.max_pool2d(l:reshape{1, 3, 12, 6}, 3, {stride = 2, "
     "pad = 1, return_indices = true})), 3, {stride = 2, pad = 1, size = {12, 6}})",
     lambda x, p, b, k, i, l, t, e, m, n: F.max_unpool2d(
         *F.max_pool2d(l.reshape(1, 3, 12, 6), 3, 2, 1, return_indices=True), 3, 2, 1, (12, 6))),
    ("nn.max_unpool1d(nn.max_pool1d(l, 2, {return_indices = true}), "
     "select(2, nn.max_pool1d(l, 2, {return_indices = true})), 2)",
     lambda x, p, b, k, i, l, t, e, m, n: F.max_unpool1d(
         *F.max_pool1d(l, 2, return_indices=True), 2)),
    ("nn.max_unpool1d(nn.max_pool1d(l, 2, {return_indices = true}), "
     "select(2, nn.max_pool1d(l, 2, {return_indices = true})), 2, {output_size = l.shape})",
     lambda x, p, b, k, i, l, t, e, m, n: F.max_unpool1d(
         *F.max_pool1d(l, 2, return_indices=True), 2, output_size=l.shape)),
    ("x:multilabel_margin_loss(e)",
     lambda x, p, b, k, i, l, t, e, m, n: F.multilabel_margin_loss(x, e.long())),
    ("x:multilabel_margin_loss(e, {reduction = 'none'})",
     lambda x, p, b, k, i, l, t, e, m, n:
         F.multilabel_margin_loss(x, e.long(), reduction="none")),
    ("l:log_softmax():ctc_loss(t, m, n)", lambda x, p, b, k, i, l, t, e, m, n: ctc(l, t, m, n)),
    ("l:log_softmax():ctc_loss(t, m, n, {reduction = 'none'})",
     lambda x, p, b, k, i, l, t, e, m, n: ctc(l, t, m, n, reduction="none")),
    ("l:log_softmax():ctc_loss(t, m, n, {reduction = 'sum'})",
     lambda x, p, b, k, i, l, t, e, m, n: ctc(l, t, m, n, reduction="sum")),
    ("(nn.grad(l:log_softmax():ctc_loss(t, m, n, {reduction = 'sum'}), l))",
     lambda x, p, b, k, i, l, t, e, m, n: gradient(
         lambda v: ctc(v, t, m, n, reduction="sum"), l)),
    ("x:gumbel_softmax(0.7, true):sum(2)",
     lambda x, p, b, k, i, l, t, e, m, n: torch.ones(3)),
])


layers("transformers", {"x": floats(5, 2, 8), "m": floats(7, 2, 8)}, [
    of("e", "x:transformer_encoder_layer('e', {nhead = 2, dim_feedforward = 12})",
       (m := tnn.TransformerEncoderLayer(8, 2, 12)), lambda x, _, m=m: m(x)),
    of("ef", "x:permute{2, 1, 3}:transformer_encoder_layer('ef', "
             "{heads = 4, inner = 12, activation = 'gelu', norm_first = true, batch_first = true})",
       (m := tnn.TransformerEncoderLayer(8, 4, 12, activation="gelu", norm_first=True,
                                         batch_first=True)),
       lambda x, _, m=m: m(x.permute(1, 0, 2))),
    of("d", "x:transformer_decoder_layer('d', {memory = m, heads = 2, inner = 12, "
            "mask = nn.tri(5):lt(0.5)})",
       (m := tnn.TransformerDecoderLayer(8, 2, 12)),
       lambda x, y, m=m: m(x, y, tgt_mask=torch.tril(torch.ones(5, 5)) < 0.5)),
    of("es", "x:transformer_encoder('es', {layers = 2, heads = 2, inner = 12, norm = true})",
       (m := tnn.TransformerEncoder(tnn.TransformerEncoderLayer(8, 2, 12), 2, tnn.LayerNorm(8))),
       lambda x, _, m=m: m(x)),
    of("t", "x:transformer('t', {src = m, heads = 2, encoder_layers = 1, decoder_layers = 1, "
            "inner = 12})",
       (m := tnn.Transformer(8, 2, 1, 1, 12)), lambda x, y, m=m: m(y, x)),
])

layers("recurrent",
       {"x": floats(5, 2, 6), "h": floats(2, 2, 4), "c": floats(2, 2, 4), "q": floats(7, 2, 8),
        "k": floats(5, 2, 8), "w": floats(5, 2, 6), "f": floats(2, 6), "s": floats(2, 4)}, [
    of("r", "x:rnn('r', {hidden_size = 4})", (m := tnn.RNN(6, 4)), lambda x, *_, m=m: m(x)[0]),
    of("rr",
       "select(2, x:rnn('rr', {hidden = 4, layers = 2, nonlinearity = 'relu', bias = false}))",
       (m := tnn.RNN(6, 4, 2, nonlinearity="relu", bias=False)), lambda x, *_, m=m: m(x)[1]),
    of("l", "x:lstm('l', {hidden = 4, bidirectional = true, h = h, c = c})",
       (m := tnn.LSTM(6, 4, bidirectional=True)), lambda x, h, c, *_, m=m: m(x, (h, c))[0]),
    of("lp", "select(3, x:lstm('lp', {hidden = 4, num_layers = 2, proj_size = 3}))",
       (m := tnn.LSTM(6, 4, 2, proj_size=3)), lambda x, *_, m=m: m(x)[1][1]),
    of("lb", "x:permute{2, 1, 3}:lstm('lb', {hidden = 4, batch_first = true})",
       (m := tnn.LSTM(6, 4, batch_first=True)), lambda x, *_, m=m: m(x.permute(1, 0, 2))[0]),
    of("g", "x:gru('g', {hidden = 4, bidirectional = true, layers = 2})",
       (m := tnn.GRU(6, 4, 2, bidirectional=True)), lambda x, *_, m=m: m(x)[0]),
    of("rc", "f:rnn_cell('rc', {hidden = 4, h = s})", (m := tnn.RNNCell(6, 4)),
       lambda x, h, c, q, k, w, f, s, m=m: m(f, s)),
    of("lc", "select(2, f:lstm_cell('lc', {hidden = 4}))", (m := tnn.LSTMCell(6, 4)),
       lambda x, h, c, q, k, w, f, s, m=m: m(f)[1]),
    of("gc", "f:gru_cell('gc', {hidden = 4, h = s})", (m := tnn.GRUCell(6, 4)),
       lambda x, h, c, q, k, w, f, s, m=m: m(f, s)),
    of("m", "q:multi_head_attention('m', {heads = 2})", (m := tnn.MultiheadAttention(8, 2)),
       lambda x, h, c, q, *_, m=m: m(q, q, q)[0]),
    of("mk", "q:multi_head_attention('mk', {num_heads = 4, key = k})",
       (m := tnn.MultiheadAttention(8, 4)), lambda x, h, c, q, k, *_, m=m: m(q, k, k)[0]),
    of("mo", "q:multi_head_attention('mo', {heads = 2, key = w, value = k, bias = false})",
       (m := tnn.MultiheadAttention(8, 2, bias=False, kdim=6)),
       lambda x, h, c, q, k, w, *_, m=m: m(q, w, k)[0]),
    of("mm", "q:multi_head_attention('mm', {heads = 2, attn_mask = nn.tri(7):lt(0.5)})",
       (m := tnn.MultiheadAttention(8, 2)),
       lambda x, h, c, q, *_, m=m: m(q, q, q, attn_mask=torch.tril(torch.ones(7, 7)) < 0.5)[0]),
])


TINY = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 1e-39, -1e-44, 3e38, -3.4028235e38, 1e-20,
                     7.5, -8.0, float("inf"), float("-inf"), float("nan")])
HOLES = floats(5, 7)
HOLES[0, 2] = HOLES[1] = HOLES[3, 0] = HOLES[3, 5] = float("nan")
section("special", {"p": floats(40, low=0.01, high=12), "x": floats(40, low=-9.9, high=9.9),
                    "a": floats(40, low=0.05, high=90), "y": floats(40, low=0, high=110),
                    "t": TINY, "h": HOLES, "i": ints(100000, 60, low=-1000), "j": ints(720, 60),
                    "m": floats(4, 5), "k": ints(4, 3), "f": floats(3, 5)}, [
    ("p:lgamma()", lambda p, *_: p.lgamma()),
    ("x:lgamma()", lambda p, x, *_: x.lgamma()),
    ("(nn.grad(p:lgamma():sum(), p))", lambda p, *_: gradient(torch.lgamma, p)),
    ("p:digamma()", lambda p, *_: p.digamma()),
    ("p:polygamma(1)", lambda p, *_: p.polygamma(1)),
    ("p:polygamma(3)", lambda p, *_: p.polygamma(3)),
    ("(nn.grad(p:digamma():sum(), p))", lambda p, *_: gradient(torch.digamma, p)),
    ("(p * 1e30):polygamma(1)", lambda p, *_: (p * 1e30).polygamma(1)),
    ("(p * math.huge):polygamma(1)", lambda p, *_: (p * INF).polygamma(1)),
    ("(p + 2):mvlgamma(3)", lambda p, *_: (p + 2).mvlgamma(3)),
    ("a:igamma(y)", lambda p, x, a, y, *_: a.double().igamma(y.double()).float()),
    ("a:igammac(y)", lambda p, x, a, y, *_: a.double().igammac(y.double()).float()),
    ("p:i0()", lambda p, *_: p.i0()),
    ("x:i0()", lambda p, x, *_: x.i0()),
    ("(nn.grad(x:i0():sum(), x))", lambda p, x, *_: gradient(torch.i0, x)),
    ("(t:frexp())", lambda p, x, a, y, t, *_: t.frexp()[0]),
    ("select(2, t:slice(1, 1, 14):frexp()):float()",
     lambda p, x, a, y, t, *_: t[:14].frexp()[1].float()),
    ("t:nextafter(9.0)", lambda p, x, a, y, t, *_: t.nextafter(torch.tensor(9.0))),
    ("t:nextafter(-9.0)", lambda p, x, a, y, t, *_: t.nextafter(torch.tensor(-9.0))),
    ("i:gcd(j):float()", lambda p, x, a, y, t, h, i, j, *_: i.gcd(j).float()),
    ("(i % 1000):lcm(j):float()", lambda p, x, a, y, t, h, i, j, *_: (i % 1000).lcm(j).float()),
    ("h:nanmedian()", lambda p, x, a, y, t, h, *_: h.nanmedian()),
    ("h:nanmedian(2)", lambda p, x, a, y, t, h, *_: h.nanmedian(1)[0]),
] + [
    ("h:nanquantile(0.55, 2, {interpolation = '%s'})" % how,
     lambda p, x, a, y, t, h, *_, how=how: h.nanquantile(0.55, 1, interpolation=how))
    for how in ("linear", "lower", "higher", "midpoint", "nearest")
] + [
    ("m:quantile(0.5, 1, {interpolation = '%s'})" % how,
     lambda p, x, a, y, t, h, i, j, m, *_, how=how: m.quantile(0.5, 0, interpolation=how))
    for how in ("linear", "lower", "higher", "midpoint", "nearest")
] + [
    ("m:corrcoef()", lambda p, x, a, y, t, h, i, j, m, k, f: m.corrcoef()),
    ("m:sum_to_size{1, 5}", lambda p, x, a, y, t, h, i, j, m, k, f: m.sum_to_size(1, 5)),
    ("m:sum_to_size{5}", lambda p, x, a, y, t, h, i, j, m, k, f: m.sum_to_size(5)),
    ("m:diagonal_scatter(nn.arange(4):float(), 1)",
     lambda p, x, a, y, t, h, i, j, m, k, f: m.diagonal_scatter(torch.arange(4.0), 1)),
] + [
    ("m:index_reduce(1, k, f, '%s', {include_self = %s})" % (how, own),
     lambda p, x, a, y, t, h, i, j, m, k, f, how=how, own=own:
         m.index_reduce(0, k.long(), f, how, include_self=own == "true"))
    for how in ("prod", "mean", "amax", "amin") for own in ("true", "false")
])
section("windows", {"x": floats(2, 3, 9, 10), "d": floats(1, 2, 6, 7, 8),
                    "u": floats(2, 3, 2, low=0, high=1), "w": floats(1, 2, 3, low=0, high=1),
                    "t": floats(7, 2, 4), "f": floats(3, 4, 5), "b": floats(5)}, [
    ("x:fractional_max_pool2d({2, 3}, {size = {4, 3}, samples = u})",
     lambda x, d, u, *_: F.fractional_max_pool2d(x, (2, 3), (4, 3), _random_samples=u)),
    ("select(2, x:fractional_max_pool2d(2, {ratio = 0.5, samples = u, return_indices = true}))"
     ":float()", lambda x, d, u, *_: F.fractional_max_pool2d(
         x, 2, output_ratio=0.5, _random_samples=u, return_indices=True)[1].float()),
    ("d:fractional_max_pool3d({2, 2, 3}, {size = {3, 4, 3}, samples = w})",
     lambda x, d, u, w, *_: F.fractional_max_pool3d(d, (2, 2, 3), (3, 4, 3), _random_samples=w)),
    ("select(2, d:max_pool3d(2, {stride = {1, 2, 2}, return_indices = true})):float()",
     lambda x, d, *_: F.max_pool3d(d, 2, (1, 2, 2), return_indices=True)[1].float()),
    ("nn.max_unpool3d(d:max_pool3d(2), select(2, d:max_pool3d(2, {return_indices = true})), 2, "
     "{size = {6, 7, 8}})",
     lambda x, d, *_: F.max_unpool3d(*F.max_pool3d(d, 2, return_indices=True), 2,
                                     output_size=(6, 7, 8))),
    ("nn.functional.conv_tbc(t, f, b, 1)",
     lambda x, d, u, w, t, f, b: torch.conv_tbc(t, f, b, 1)),
    ("nn.functional.upsample_nearest(x, {scale = 2})",
     lambda x, *_: F.interpolate(x, scale_factor=2)),
    ("nn.functional.upsample_bilinear(x, {size = {5, 7}})",
     lambda x, *_: F.interpolate(x, (5, 7), mode="bilinear", align_corners=True)),
])


TIES = torch.tensor([[[[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 2, 2], [2, 0, 2, 1]]]], dtype=torch.float)
ZEROS = torch.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [4.0, 5.0, 6.0]])
section("edges", {"q": TIES, "z": ZEROS, "x": floats(2, 3), "p": floats(2, 3, 9, 10),
                  "l": torch.tensor([[[1.0, 3.0, 3.0, 2.0, 0.0, 5.0]]])}, [
    ("x % 7", lambda q, z, x, p, l: x % 7),
    ("x // 2", lambda q, z, x, p, l: torch.floor_divide(x, 2)),
    ("(nn.grad(q:max_pool2d(3, {stride = 1, pad = 1}):sum(), q))",
     lambda q, *_: gradient(lambda v: F.max_pool2d(v, 3, 1, 1), q)),
    ("(nn.grad(q:max_pool2d(2, {stride = 1, dilation = 2}):sum(), q))",
     lambda q, *_: gradient(lambda v: F.max_pool2d(v, 2, 1, 0, 2), q)),
    ("(nn.grad(l:max_pool1d(2, {stride = 1}):sum(), l))",
     lambda q, z, x, p, l: gradient(lambda v: F.max_pool1d(v, 2, 1), l)),
    ("(nn.grad(p:max_pool2d({3, 2}, {stride = 2, pad = 1}):square():sum(), p))",
     lambda q, z, x, p, l: gradient(lambda v: F.max_pool2d(v, (3, 2), 2, 1).square(), p)),
    ("(nn.grad(q:median(), q))", lambda q, *_: gradient(lambda v: v.median(), q)),
    ("(nn.grad(nn.where(z:eq(5), 0 / 0, z):nanmedian(), z))",
     lambda q, z, *_: gradient(lambda v: v.masked_fill(v == 5, float("nan")).nanmedian(), z)),
    ("(nn.grad(q:ravel():scatter_reduce(1, nn.index({16}, 1) // 4, q:ravel(), 'amax')"
     ":square():sum(), q))", lambda q, *_: gradient(lambda v: v.ravel().scatter_reduce(
         0, torch.arange(16) // 4, v.ravel(), "amax").square(), q)),
    ("(nn.grad((q + 3):ravel():scatter_reduce(1, nn.index({16}, 1) // 4, q:ravel(), 'amin', "
     "{include_self = false}):exp():sum(), q))",
     lambda q, *_: gradient(lambda v: (v + 3).ravel().scatter_reduce(
         0, torch.arange(16) // 4, v.ravel(), "amin", include_self=False).exp(), q)),
    ("(nn.grad(z:prod(2):sum(), z))", lambda q, z, *_: gradient(lambda v: v.prod(1), z)),
    ("(nn.grad(z:prod(), z))", lambda q, z, *_: gradient(lambda v: v.prod(), z)),
    ("(nn.grad((z - z):norm(), z))", lambda q, z, *_: gradient(lambda v: (v - v).norm(), z)),
    ("(nn.grad((z * 0 + 1):std(2):sum(), z))", lambda q, z, *_: torch.zeros(3, 3)),
    ("(nn.grad(z:norm(3, 1):sum(), z))", lambda q, z, *_: gradient(lambda v: v.norm(3, 0), z)),
    ("(nn.grad(z:pow(0):sum(), z))", lambda q, z, *_: gradient(lambda v: v.pow(0), z)),
    ("(nn.grad(z:pow(z):sum(), z))", lambda q, z, *_: gradient(lambda v: v.pow(v), z)),
    ("(nn.grad(z:xlogy(z:detach() + 2):sum(), z))",
     lambda q, z, *_: gradient(lambda v: torch.xlogy(v, v.detach() + 2), z)),
    ("(nn.grad(z:xlogy(z:detach() - 0.5):nan_to_num():sum(), z))",
     lambda q, z, *_: gradient(lambda v: torch.xlogy(v, v.detach() - 0.5).nan_to_num(), z)),
    ("(nn.grad(z:xlog1py(z:detach() + 2):sum(), z))",
     lambda q, z, *_: gradient(lambda v: torch.special.xlog1py(v, v.detach() + 2), z)),
    ("z:xlogy(nn.where(z:eq(0), math.huge, z))",
     lambda q, z, *_: torch.xlogy(z, z.masked_fill(z == 0, float("inf")))),
    ("(nn.grad((z - 2):fmod(1.5):sum(), z))",
     lambda q, z, *_: gradient(lambda v: (v - 2).fmod(1.5), z)),
    ("(nn.grad((z * 0):cosine_similarity(z + 1):sum(), z)) * 1e-8",
     lambda q, z, *_: gradient(lambda v: F.cosine_similarity(v * 0, v + 1), z) * 1e-8),
    ("(nn.grad((z - z:detach()):cosine_similarity(z:detach() + 1):sum(), z)) * 1e-8",
     lambda q, z, *_: gradient(lambda v: F.cosine_similarity(v - v.detach(), v.detach() + 1), z)
     * 1e-8),
    ("(nn.grad(q:lp_pool2d(2, {1, 2}, {stride = 1}):sum(), q))",
     lambda q, *_: gradient(lambda v: F.lp_pool2d(v, 2, (1, 2), 1), q)),
    ("(nn.grad(q:lp_pool2d(1, {1, 2}, {stride = 1}):sum(), q))",
     lambda q, *_: gradient(lambda v: F.lp_pool2d(v, 1, (1, 2), 1), q)),
    ("(nn.grad(nn.binary_cross_entropy(z:clamp(0, 1), z:gt(1):to('f32') * 0.7), z)) * 1e-9",
     lambda q, z, *_: gradient(
         lambda v: F.binary_cross_entropy(v.clamp(0, 1), (z > 1) * 0.7), z) * 1e-9),
    ("(nn.grad(nn.binary_cross_entropy(z * 0.1 + 0.2, z:gt(1):to('f32') * 0.7), z))",
     lambda q, z, *_: gradient(
         lambda v: F.binary_cross_entropy(v * 0.1 + 0.2, (z > 1) * 0.7), z)),
    ("(nn.grad(nn.gaussian_nll_loss(z, z + 1, z * 0.1, {eps = 0.15}), z))",
     lambda q, z, *_: gradient(lambda v: F.gaussian_nll_loss(v, v + 1, v * 0.1, eps=0.15), z)),
    ("(nn.grad(nn.multi_margin_loss(z, nn.tensor({0, 2, 1}):to('i32')), z))",
     lambda q, z, *_: gradient(lambda v: F.multi_margin_loss(v, torch.tensor([0, 2, 1])), z)),
    ("(nn.grad(nn.multilabel_margin_loss(z, nn.tensor({{0, 2, -1}, {1, -1, 0}, {2, 0, -1}})"
     ":to('i32')), z))",
     lambda q, z, *_: gradient(lambda v: F.multilabel_margin_loss(
         v, torch.tensor([[0, 2, -1], [1, -1, 0], [2, 0, -1]])), z)),
    ("p:abs():lp_pool2d(2, 3, {ceil_mode = true})",
     lambda q, z, x, p, l: F.lp_pool2d(p.abs(), 2, 3, ceil_mode=True)),
    ("p:lp_pool2d(1, {2, 3})", lambda q, z, x, p, l: F.lp_pool2d(p, 1, (2, 3))),
    ("p:lp_pool2d(3, 2)", lambda q, z, x, p, l: F.lp_pool2d(p, 3, 2)),
    ("x:index_select(2, nn.tensor{1, 1})", lambda q, z, x, p, l: x[:, [1, 1]]),
    ("x:view(-1)", lambda q, z, x, p, l: x.view(-1)),
    ("x:tile(2)", lambda q, z, x, p, l: x.tile(2)),
    ("nn.zeros(3)", lambda *_: torch.zeros(3)),
    ("(x * (0 / 0)):threshold(0.5, 7)",
     lambda q, z, x, p, l: F.threshold(x * float("nan"), 0.5, 7)),
])


NAN, INF = float("nan"), float("inf")
section("ties", {"s": torch.tensor([-3.0, -1, -0.5, 0, 0.5, 1, 3, 6]),
                 "m": torch.tensor([[1.0, 3, 3], [2, 2, 1]]),
                 "c": torch.tensor([[2.0, 3, 0, 5, 4], [2, 0, 3, 0, 4], [1, 2, 3, 4, 5]]),
                 "v": torch.tensor([[3.0, NAN, 1, 2], [NAN, NAN, 0, 5], [INF, -INF, 2, -0.0]]),
                 "u": torch.tensor([1.0, 3.0, 3.0]), "q": torch.tensor([1e20, -1e20, 7.5, -7.5])}, [
    *[(f"(nn.grad(nn.{name}(s):sum(), s))",
       lambda s, m, c, v, u, q, f=getattr(F, name): gradient(f, s))
      for name in ("hardtanh", "hardsigmoid", "hardswish", "relu6", "relu", "elu", "celu", "selu",
                   "softplus", "hardshrink", "softshrink", "leaky_relu", "logsigmoid")],
    ("(nn.grad(s:clamp(-1, 1):sum(), s))", lambda s, *_: gradient(lambda x: x.clamp(-1, 1), s)),
    ("(function() local e = (s - 0.25) * math.huge; return nn.grad(e:hardswish():sum(), e) end)()",
     lambda s, *_: gradient(F.hardswish, (s - 0.25) * INF)),
    ("s * 1e30 * 1e30", lambda s, *_: s * 1e30 * 1e30),
    ("(s + 1e38) * 10 - 1e38", lambda s, *_: (s + 1e38) * 10 - 1e38),
    ("(nn.grad((s:round() * s):sum(), s))", lambda s, *_: gradient(lambda x: x.round() * x, s)),
    ("(nn.grad(s:frac():sum(), s))", lambda s, *_: gradient(lambda x: x.frac(), s)),
    ("(nn.grad((s:sign() + s:floor() + s:ceil() + s):sum(), s))",
     lambda s, *_: gradient(lambda x: x.sign() + x.floor() + x.ceil() + x, s)),
    ("(nn.grad((s % 2.5):square():sum(), s))", lambda s, *_: gradient(lambda x: (x % 2.5) ** 2, s)),
    ("(nn.grad(s:fmod(2.5):square():sum(), s))",
     lambda s, *_: gradient(lambda x: x.fmod(2.5) ** 2, s)),
    ("(nn.grad((5.5 % u):square():sum(), u))",
     lambda s, m, c, v, u, q: gradient(lambda x: torch.remainder(torch.tensor(5.5), x) ** 2, u)),
    ("(nn.grad((m:max{axis = 2}):sum(), m))", lambda s, m, *_: gradient(lambda x: x.max(1)[0], m)),
    ("(nn.grad((m:min{axis = 1}):sum(), m))", lambda s, m, *_: gradient(lambda x: x.min(0)[0], m)),
    ("(nn.grad(m:amax(2):sum(), m))", lambda s, m, *_: gradient(lambda x: x.amax(1), m)),
    ("(nn.grad((m:mode(2)):sum(), m))", lambda s, m, *_: gradient(lambda x: x.mode(1)[0], m)),
    ("(nn.grad((m:cummax(2)):pow(3):sum(), m))",
     lambda s, m, *_: gradient(lambda x: x.cummax(1)[0] ** 3, m)),
    ("(nn.grad((m:cummin(1)):pow(3):sum(), m))",
     lambda s, m, *_: gradient(lambda x: x.cummin(0)[0] ** 3, m)),
    ("(nn.grad((m:sort(1)):cumsum(1):pow(2):sum(), m))",
     lambda s, m, *_: gradient(lambda x: x.sort(0)[0].cumsum(0) ** 2, m)),
    ("(nn.grad((m:median(2)):sum(), m))", lambda s, m, *_: gradient(lambda x: x.median(1)[0], m)),
    ("math.max(u, 2.5, -u) * math.max(1, 2, 3) + math.min(0, 0, 0, -1)",
     lambda s, m, c, v, u, q: torch.maximum(u, torch.tensor(2.5)) * 3 - 1),
    ("(nn.grad(nn.max(m, u):square():sum(), u))",
     lambda s, m, c, v, u, q: gradient(lambda x: torch.maximum(m, x) ** 2, u)),
    ("(nn.grad(nn.min(u, m):square():sum(), u))",
     lambda s, m, c, v, u, q: gradient(lambda x: torch.minimum(x, m) ** 2, u)),
    ("(nn.grad(m:hypot(u):sum(), u))",
     lambda s, m, c, v, u, q: gradient(lambda x: torch.hypot(m, x), u)),
    ("(nn.grad(m:logaddexp(u):sum(), u))",
     lambda s, m, c, v, u, q: gradient(lambda x: torch.logaddexp(m, x), u)),
    ("(nn.grad((c:cumprod(2) * nn.arange(1, 6)):sum(), c))",
     lambda s, m, c, *_: gradient(lambda x: x.cumprod(1) * torch.arange(1, 6), c)),
    ("(nn.grad((s * 0):binary_cross_entropy_with_logits(s:sigmoid()), s))",
     lambda s, *_: gradient(
         lambda x: F.binary_cross_entropy_with_logits(x * 0, s.sigmoid(), reduction="mean"), s)),
    ("(v:sort(2))", lambda s, m, c, v, u, q: v.sort(dim=1, stable=True)[0]),
    ("(v:sort(2, true))", lambda s, m, c, v, u, q: v.sort(1, True)[0]),
    ("v:argsort(2)", lambda s, m, c, v, u, q: v.sort(dim=1, stable=True)[1]),
    ("(v:topk(2, 2, {largest = false}))",
     lambda s, m, c, v, u, q: v.topk(2, 1, largest=False)[0]),
    ("(v:median(2))", lambda s, m, c, v, u, q: v.median(1)[0]),
    ("v:var(2)", lambda s, m, c, v, u, q: v.var(1)),
    ("v:nan_to_num()", lambda s, m, c, v, u, q: v.nan_to_num()),
    ("q:fmod(3.0)", lambda s, m, c, v, u, q: q.fmod(3)),
    ("q % 3.0", lambda s, m, c, v, u, q: q % 3),
    ("1 / ((v * 0.0) // 4)", lambda s, m, c, v, u, q: 1 / ((v * 0) // 4)), # zeros have signs
    ("1 / ((v * 0.0) // -4)", lambda s, m, c, v, u, q: 1 / ((v * 0) // -4)),
    ("u // 0.1", lambda s, m, c, v, u, q: torch.floor_divide(u, 0.1)),
    ("u % 0.1", lambda s, m, c, v, u, q: u % 0.1),
    *[(f"(nn.grad(v:{name}(v:zeros_like(), {{reduction = 'sum'}}), v))",
       lambda s, m, c, v, u, q, f=getattr(F, name):
       gradient(lambda x: f(x, torch.zeros_like(x), reduction="sum"), v))
      for name in ("huber_loss", "smooth_l1_loss")],
    ("q // math.huge", lambda s, m, c, v, u, q: torch.floor_divide(q, INF)),
    ("q // -math.huge", lambda s, m, c, v, u, q: torch.floor_divide(q, -INF)),
    ("(q * math.huge) // 0", lambda s, m, c, v, u, q: torch.floor_divide(q * INF, 0.0)),
    ("(m * 0):normalize(2, 2)", lambda s, m, c, v, u, q: F.normalize(m * 0)),
    ("(m * 0):cosine_similarity(m, 2)", lambda s, m, c, v, u, q: F.cosine_similarity(m * 0, m)),
])


K = torch.tensor([[1, 2, 2], [7, 7, 1]], dtype=torch.int32)
LARGE = torch.tensor([[2147483647, -2147483648, 2147483646, 16777217, 16777216]],
                     dtype=torch.int32)
section("whole", {"k": K, "e": LARGE}, [
    ("k ^ 2", lambda k, e: k.pow(2)),
    ("k ^ k", lambda k, e: k.pow(k)),
    ("nn.pow(2, k)", lambda k, e: torch.pow(2, k)),
    ("k ^ 0.5", lambda k, e: k.pow(0.5)),
    ("(-k) ^ 3", lambda k, e: (-k).pow(3)),
    ("k:relu6()", lambda k, e: F.relu6(k)),
    ("k:hardtanh()", lambda k, e: F.hardtanh(k)),
    ("k:float_power(2):to('f32')", lambda k, e: k.float_power(2).float()),
    ("k:masked_fill(k:gt(1), 1.7)", lambda k, e: k.masked_fill(k > 1, 1.7)),
    ("(k:mode(2))", lambda k, e: k.mode(1)[0]),
    ("(e:sort(2))", lambda k, e: e.sort(1)[0]),
    ("e:argsort(2)", lambda k, e: e.argsort(1)),
    ("(e:topk(3, 2, {largest = false}))", lambda k, e: e.topk(3, 1, largest=False)[0]),
    ("nn.max(k, -2147483648)", lambda k, e: k.clamp(min=-2147483648)),
    *[(f"(k * 0):scatter_reduce(2, k % 3, k, '{how}')",
       lambda k, e, how=how: (k * 0).scatter_reduce(1, (k % 3).long(), k, how))
      for how in ("sum", "mean", "amax", "amin", "prod")],
    *[(f"k:index_reduce(2, nn.tensor{{0, 0, 1}}, k, '{how}', {{include_self = false}})",
       lambda k, e, how=how: k.index_reduce(1, torch.tensor([0, 0, 1]), k, how,
                                            include_self=False))
      for how in ("mean", "amax", "amin", "prod")],
])


section("empty", {"x": floats(3, 4), "e": floats(2, 0, 4), "i": ints(3, 0)}, [
    ("e:relu() + 1", lambda x, e, i: e.relu() + 1),
    ("e:sum(2)", lambda x, e, i: e.sum(1)),
    ("e:sum(3)", lambda x, e, i: e.sum(2)),
    ("e:prod()", lambda x, e, i: e.prod()),
    ("e:mean({2, 3})", lambda x, e, i: e.mean((1, 2))),
    ("e:logsumexp(2)", lambda x, e, i: e.logsumexp(1)),
    ("nn.all(e:gt(0), 2):to('f32')", lambda x, e, i: e.gt(0).all(1).float()),
    ("nn.any(e:gt(0), 2):to('f32')", lambda x, e, i: e.gt(0).any(1).float()),
    ("e:softmax(3)", lambda x, e, i: e.softmax(2)),
    ("e:cumsum(2)", lambda x, e, i: e.cumsum(1)),
    ("e:view(4, -1, 2)", lambda x, e, i: e.view(4, 0, 2)),
    ("e:flatten(1)", lambda x, e, i: e.flatten()),
    ("e:transpose(1, 2)", lambda x, e, i: e.transpose(0, 1)),
    ("e:sum(2):matmul(x:transpose(1, 2))", lambda x, e, i: e.sum(1) @ x.T),
    ("nn.zeros{3, 0}:matmul(nn.zeros{0, 5}) + 1", lambda x, e, i: torch.ones(3, 5)),
    ("nn.concat({x, nn.zeros{0, 4}, x}, 1)", lambda x, e, i: torch.cat((x, x))),
    ("nn.stack({e, e}, 1)", lambda x, e, i: torch.stack((e, e))),
    ("nn.pad(e, {0, 0, 1, 2}, {value = 3})", lambda x, e, i: F.pad(e, (0, 0, 1, 2), value=3)),
    ("x:slice(1, 2, 1)", lambda x, e, i: x[1:1]),
    ("x:narrow(2, 3, 0)", lambda x, e, i: x.narrow(1, 2, 0)),
    ("(select(2, x:split({1, 0, 2}, 1)))", lambda x, e, i: x.split((1, 0, 2))[1]),
    ("(select(4, x:tensor_split(4, 1)))", lambda x, e, i: x.tensor_split(4)[3]),
    ("x:tile(0, 2)", lambda x, e, i: x.repeat(0, 2)),
    ("x:index_select(1, i)", lambda x, e, i: x.index_select(0, i)),
    ("nn.arange(0)", lambda x, e, i: torch.arange(0)),
    ("nn.eye(0)", lambda x, e, i: torch.eye(0)),
    ("e:flip(2)", lambda x, e, i: e.flip(1)),
    ("e:roll(1, 2)", lambda x, e, i: e.roll(1, 1)),
    ("x:masked_fill(x:gt(0), 0):slice(1, 1, 0):sum()", lambda x, e, i: torch.zeros(())),
])


def derived(f, *of):
    """The gradients of (f(...) * w).sum(), w = 0, 1, ..., by each of `of`, in one row."""
    with torch.enable_grad():
        of = [v.clone().requires_grad_() for v in of]
        y = f(*of)
        w = torch.arange(y.numel(), dtype=torch.float32).reshape(y.shape)
        return torch.cat([g.ravel() for g in torch.autograd.grad((y * w).sum(), of)])


def derives(text, *names):
    """The same of an expression of a model file, by the tensors named."""
    return ("(function() local of = %s; local by = nn.arange(of:numel()):float():reshape(of.shape);"
            " local g = nn.grad((of * by):sum(), {%s}); for i, v in ipairs(g) do g[i] = v:ravel()"
            " end; return nn.concat(g, 1) end)()" % (text, ", ".join(names)))


section("parts", {"x": floats(5, 7, 3), "v": floats(9), "s": floats(1)[0], "u": floats(2, 2, 3),
                  "f": floats(5, 2, 3)}, [
    ("select(%d, x:tensor_split({1, 4, 4}, 2)):sum()" % (k + 1),
     lambda x, *_, k=k: x.tensor_split((1, 4, 4), 1)[k].sum()) for k in range(4)
] + [
    ("select(2, x:tensor_split({-3, 12, 2}, 2))",
     lambda x, *_: x.tensor_split((-3, 12, 2), 1)[1]),
    ("select(2, v:hsplit{2, 5})", lambda x, v, *_: v.hsplit((2, 5))[1]),
    ("select(3, x:hsplit{2, 5})", lambda x, *_: x.hsplit((2, 5))[2]),
    ("select(1, x:vsplit{2, 5})", lambda x, *_: x.vsplit((2, 5))[0]),
    ("select(2, x:dsplit{1, 2})", lambda x, *_: x.dsplit((1, 2))[1]),
    ("x:repeat_interleave({1, 0, 2, 3, 1}, 1)",
     lambda x, *_: x.repeat_interleave(torch.tensor([1, 0, 2, 3, 1]), 0)),
    (derives("x:repeat_interleave({1, 0, 2, 3, 1}, 1)", "x"),
     lambda x, *_: derived(lambda x: x.repeat_interleave(torch.tensor([1, 0, 2, 3, 1]), 0), x)),
    ("x:repeat_interleave({2}, 3)", lambda x, *_: x.repeat_interleave(2, 2)),
    ("x:slice(2, 3, 99)", lambda x, *_: x[:, 2:99]), ("x:slice(2, -99, 2)", lambda x, *_: x[:, :2]),
    ("x:slice(2, 9, 12)", lambda x, *_: x[:, 8:12]),
    ("x:slice(2, 99, -99, -2)", lambda x, *_: x.flip(1)[:, ::2]),
    ("x:roll({1, 3, 2}, {2, 3, 2})", lambda x, *_: x.roll((1, 3, 2), (1, 2, 1))),
    ("x:unfold(2, 3, 2)", lambda x, *_: x.unfold(1, 3, 2)),
    ("x:unfold(-1, 2, 1)", lambda x, *_: x.unfold(-1, 2, 1)),
    ("v:unfold(1, 4, 4)", lambda x, v, *_: v.unfold(0, 4, 4)),
    (derives("x:unfold(2, 3, 2)", "x"), lambda x, *_: derived(lambda x: x.unfold(1, 3, 2), x)),
    ("u:diag_embed(1, 1, 3)", lambda x, v, s, u, f: u.diag_embed(1, 0, 2)),
    ("u:diag_embed(-1, -2, 1)", lambda x, v, s, u, f: u.diag_embed(-1, -2, 0)),
    ("u:diagonal(9)", lambda x, v, s, u, f: u.diagonal(9)),
    ("s:sum(1) + s:cumsum(-1)", lambda x, v, s, *_: s * 2),
    ("s:softmax(1)", lambda x, v, s, *_: s.softmax(0)),
    ("s:amax(-1, true)", lambda x, v, s, *_: s.amax(-1, True)),
    ("(s:sort(1))", lambda x, v, s, *_: s.sort(0)[0]),
    ("(s:topk(1, -1))", lambda x, v, s, *_: s.topk(1, -1)[0]),
    ("s:take_along(nn.zeros({}, {dtype = 'i32'}), 1)", lambda x, v, s, *_: s),
    ("s:flip(1) + s:movedim(1, 1)", lambda x, v, s, *_: s * 2),
    ("x:slice_scatter(f, 2, 3, 6, 3)", lambda x, v, s, u, f: x.slice_scatter(f, 1, 2, 6, 3)),
    ("x:slice_scatter(f, 2, -4, nil, 2)", lambda x, v, s, u, f: x.slice_scatter(f, 1, -4, None, 2)),
    (derives("x:slice_scatter(f, 2, 3, 6, 3)", "x", "f"),
     lambda x, v, s, u, f: derived(lambda x, f: x.slice_scatter(f, 1, 2, 6, 3), x, f)),
    ("x:diff(1, 2, f, f)", lambda x, v, s, u, f: x.diff(1, 1, f, f)),
    ("x:diff{n = 2, append = nn.zeros{5, 7, 1}}",
     lambda x, *_: x.diff(2, append=torch.zeros(5, 7, 1))),
    ("x:diff(3, 3)", lambda x, *_: x.diff(3)), ("x:diff(0)", lambda x, *_: x),
    ("x:gt(0):diff():float()", lambda x, *_: (x > 0).diff().float()),
    ("v:trapezoid(v:cumsum())", lambda x, v, *_: torch.trapezoid(v, v.cumsum(0))),
    ("x:trapezoid(v:slice(1, 1, 7), 2)", lambda x, v, *_: torch.trapezoid(x, v[:7], dim=1)),
    ("x:cumulative_trapezoid(x:flip(1), 2)",
     lambda x, *_: torch.cumulative_trapezoid(x, x.flip(0), dim=1)),
    (derives("x:cumulative_trapezoid(v:slice(1, 1, 7), 2)", "x", "v"),
     lambda x, v, *_: derived(lambda x, v: torch.cumulative_trapezoid(x, v[:7], dim=1), x, v)),
    ("x:tensordot(x * 2, {{1, 3}, {1, 3}})",
     lambda x, *_: torch.tensordot(x, x * 2, ((0, 2), (0, 2)))),
    ("x:tensordot(v:slice(1, 1, 7), {2, 1})",
     lambda x, v, *_: torch.tensordot(x, v[:7], ((1,), (0,)))),
    ("v:cov()", lambda x, v, *_: v.cov()), ("v:corrcoef()", lambda x, v, *_: v.corrcoef()),
    ("v:cov{correction = 9}", lambda x, v, *_: v.cov(correction=9)),
    ("x:slice(2, 1, 1):var(2)", lambda x, *_: x[:, :1].var(1)),
    ("x:slice(2, 1, 1):std(2)", lambda x, *_: x[:, :1].std(1)),
    ("x:std(3, false, 3)", lambda x, *_: x.var(2, unbiased=False) / 0),
    ("v:fmax(0.25) + v:fmin(-1.5)",
     lambda x, v, *_: v.fmax(torch.tensor(0.25)) + v.fmin(torch.tensor(-1.5))),
    ("v:copysign(-2.0)", lambda x, v, *_: v.copysign(-2.0)),
    ("nn.copysign(2.0, v)", lambda x, v, *_: torch.full_like(v, 2).copysign(v)),
    ("v:atan2(0.5)", lambda x, v, *_: v.atan2(torch.tensor(0.5))),
    ("nn.atan2(0.5, v)", lambda x, v, *_: torch.full_like(v, 0.5).atan2(v)),
    ("v:hypot(2.5) + nn.hypot(1.5, v)",
     lambda x, v, *_: v.hypot(torch.tensor(2.5)) + v.hypot(torch.tensor(1.5))),
])


SMALL = torch.tensor([[[0, 2, 1], [1, 0, 3]], [[3, 3, 0], [2, 1, 1]]], dtype=torch.int32)
section("scattered", {"x": floats(3, 4, 5), "g": SMALL, "u": floats(2, 3, 4),
                      "k": ints(90, 3, 4, 5), "m": ints(1000, 4, 6, low=-1000),
                      "n": ints(9999, 6, 3, low=-9999), "b": ints(99, 2, 3, 6), "i": ints(4, 5),
                      "f": floats(1, 4, 5), "h": ints(4, 1, 3, 5)}, [
    ("x:gather(2, g)", lambda x, g, *_: x.gather(1, g.long())),
    ("x:take_along(g, 2)", lambda x, g, *_: x.gather(1, g.long())),
    (derives("x:gather(2, g)", "x"), lambda x, g, *_: derived(lambda x: x.gather(1, g.long()), x)),
    ("x:take_along_dim(h, 2)",
     lambda x, g, u, k, m, n, b, i, f, h: x.take_along_dim(h.long(), 1)),
    ("f:take_along_dim(h, 2)",
     lambda x, g, u, k, m, n, b, i, f, h: f.take_along_dim(h.long(), 1)),
    ("x:scatter(2, g, 7)", lambda x, g, *_: x.scatter(1, g.long(), 7.0)),
    ("x:scatter(2, nn.tensor{{{0, 1}}, {{2, 2}}}, u)",
     lambda x, g, u, *_: x.scatter(1, torch.tensor([[[0, 1]], [[2, 2]]]), u)),
    (derives("x:scatter(2, nn.tensor{{{0, 1}}, {{2, 2}}}, u)", "x", "u"),
     lambda x, g, u, *_: derived(
         lambda x, u: x.scatter(1, torch.tensor([[[0, 1]], [[2, 2]]]), u[:, :1, :2]), x, u)),
    ("x:scatter(2, g, u, {reduce = 'add'})",
     lambda x, g, u, *_: x.scatter(1, g.long(), u, reduce="add")),
    ("x:scatter(2, g, 3, {reduce = 'multiply'})",
     lambda x, g, u, *_: x.scatter(1, g.long(), 3, reduce="multiply")),
    ("x:scatter_add(2, g, u)", lambda x, g, u, *_: x.scatter_add(1, g.long(), u)),
    (derives("x:scatter_add(2, g, u)", "x", "u"),
     lambda x, g, u, *_: derived(lambda x, u: x.scatter_add(1, g.long(), u[:, :2, :3]), x, u)),
    ("k:scatter_add(2, g, g + 1):float()",
     lambda x, g, u, k, *_: k.scatter_add(1, g.long(), g + 1).float()),
] + [
    ("x:scatter_reduce(2, g, u, '%s', {include_self = %s})" % (how, own),
     lambda x, g, u, *_, how=how, own=own:
         x.scatter_reduce(1, g.long(), u[:, :2, :3], how, include_self=own == "true"))
    for how in ("sum", "prod", "mean", "amax", "amin") for own in ("true", "false")
] + [
    ("k:scatter_reduce(2, g, g * 30, '%s', {include_self = %s}):float()" % (how, own),
     lambda x, g, u, k, *_, how=how, own=own:
         k.scatter_reduce(1, g.long(), g * 30, how, include_self=own == "true").float())
    for how in ("sum", "prod", "mean", "amax", "amin") for own in ("true", "false")
] + [
    ("m:matmul(n)", lambda x, g, u, k, m, n, *_: m @ n),
    ("m:mv(n:select(2, 1))", lambda x, g, u, k, m, n, *_: m @ n[:, 0]),
    ("m:select(1, 1):dot(n:select(2, 2))", lambda x, g, u, k, m, n, *_: m[0] @ n[:, 1]),
    ("b:bmm(n:expand{2, -1, -1})", lambda x, g, u, k, m, n, b, *_: b @ n),
    ("nn.einsum('bij,jk->kbi', b, n)",
     lambda x, g, u, k, m, n, b, *_: torch.einsum("bij,jk->kbi", b, n)),
    ("m:inner(b)", lambda x, g, u, k, m, n, b, *_:
         torch.einsum("ij,bkj->ibk", m, b)),
    ("m:index_add(1, nn.tensor{3, 1, 3}, n:t(), {alpha = 2})",
     lambda x, g, u, k, m, n, *_: m.index_add(0, torch.tensor([3, 1, 3]), n.t(), alpha=2)),
    ("m:argmax(2)", lambda x, g, u, k, m, *_: m.argmax(1).int()),
    ("m:argmin()", lambda x, g, u, k, m, *_: m.argmin().int()),
    ("i:argmax(1, true)", lambda x, g, u, k, m, n, b, i, *_: torch.tensor(
        [i.tolist().index(max(i))], dtype=torch.int32)),
    ("m:nansum(1)", lambda x, g, u, k, m, *_: m.sum(0).int()),
    ("select(2, nn.max(m, nil, {axis = 2}))", lambda x, g, u, k, m, *_: m.max(1)[1].int()),
])


LONG = floats(3, 150)
LONG[0, 7] = LONG[0, 90] = LONG[1, 3] = float("nan")
LONG[1, 100] = float("inf")
section("orders", {"x": LONG, "k": ints(12, 100, 3), "w": floats(2, 70, 3), "s": floats(4, 9)}, [
    ("(x:sort())", lambda x, *_: x.sort(stable=True)[0]),
    ("select(2, x:sort())", lambda x, *_: x.sort(stable=True)[1].int()),
    ("select(2, x:sort(2, true))",
     lambda x, *_: x.sort(dim=-1, descending=True, stable=True)[1].int()),
    ("(k:sort(1))", lambda x, k, *_: k.sort(0)[0]),
    ("k:argsort(1)", lambda x, k, *_: k.sort(dim=0, stable=True)[1].int()),
    ("k:argsort(1, true)", lambda x, k, *_: k.sort(dim=0, stable=True, descending=True)[1].int()),
    ("(x:slice(2, 1, 60):sort())", lambda x, *_: x[:, :60].sort()[0]),
    ("select(2, x:slice(2, 1, 60):sort(2, true))",
     lambda x, *_: x[:, :60].sort(stable=True, descending=True)[1].int()),
    ("(x:topk(100))", lambda x, *_: x.topk(100)[0]),
    ("(k:topk(80, 1, {largest = false}))", lambda x, k, *_: k.topk(80, 0, largest=False)[0]),
    ("(k:topk(5, 1, {largest = false}))", lambda x, k, *_: k.topk(5, 0, largest=False)[0]),
    ("(w:kthvalue(30, 2))", lambda x, k, w, *_: w.kthvalue(30, 1)[0]),
    ("(w:median(2))", lambda x, k, w, *_: w.median(1)[0]),
    ("w:quantile(0.37, 2)", lambda x, k, w, *_: w.quantile(0.37, 1)),
    ("x:nanquantile(0.37)", lambda x, *_: x.nanquantile(0.37)),
    ("x:median()", lambda x, *_: x.median()),
    ("x:quantile(0.5, {keep = true})", lambda x, *_: x.quantile(0.5, keepdim=True)),
    ("x:quantile({0.1, 0.5, 1}, 2)",
     lambda x, *_: x.quantile(torch.tensor([0.1, 0.5, 1]), 1)),
    ("x:nanquantile({0, 0.7}, -1, true)",
     lambda x, *_: x.nanquantile(torch.tensor([0, 0.7]), -1, True)),
    (derives("w:sort(2)", "w"), lambda x, k, w, *_: derived(lambda w: w.sort(1)[0], w)),
    (derives("s:sort(2, true)", "s"),
     lambda x, k, w, s: derived(lambda s: s.sort(1, True)[0], s)),
])


section("made", {"a": floats(2, 3), "b": floats(3, 1), "v": floats(4), "w": floats(3),
                 "s": floats(1)[0], "i": ints(9, 4), "c": floats(2, 4, 1)}, [
    ("nn.block_diag(a, v, s, b)", lambda a, b, v, w, s, i, c: torch.block_diag(a, v, s, b)),
    ("nn.block_diag{a, a}", lambda a, *_: torch.block_diag(a, a)),
    (derives("nn.block_diag(a, v, b)", "a", "v", "b"),
     lambda a, b, v, w, s, i, c: derived(torch.block_diag, a, v, b)),
    ("nn.column_stack{w, a:t(), w}", lambda a, b, v, w, *_: torch.column_stack((w, a.t(), w))),
    ("s:atleast_1d()", lambda a, b, v, w, s, i, c: torch.atleast_1d(s)),
    ("v:atleast_2d()", lambda a, b, v, *_: torch.atleast_2d(v)),
    ("s:atleast_3d()", lambda a, b, v, w, s, i, c: torch.atleast_3d(s)),
    ("v:atleast_3d()", lambda a, b, v, *_: torch.atleast_3d(v)),
    ("a:atleast_3d()", lambda a, *_: torch.atleast_3d(a)),
    ("select(1, nn.broadcast_tensors(v, b, c:slice(1, 1, 1):slice(2, 1, 3)))",
     lambda a, b, v, w, s, i, c: torch.broadcast_tensors(v, b, c[:1, :3])[0]),
    ("select(3, nn.broadcast_tensors(v, b, c:slice(2, 1, 3)))",
     lambda a, b, v, w, s, i, c: torch.broadcast_tensors(v, b, c[:, :3])[2]),
    ("nn.cartesian_prod(v, w, v)", lambda a, b, v, w, *_: torch.cartesian_prod(v, w, v)),
    ("nn.cartesian_prod(v)", lambda a, b, v, *_: torch.cartesian_prod(v)),
    ("v:combinations()", lambda a, b, v, *_: torch.combinations(v)),
    ("v:combinations(3, true)", lambda a, b, v, *_: torch.combinations(v, 3, True)),
    ("v:combinations(5)", lambda a, b, v, *_: torch.combinations(v, 5)),
    ("i:combinations(2)", lambda a, b, v, w, s, i, c: torch.combinations(i)),
    (derives("v:combinations(2)", "v"), lambda a, b, v, *_: derived(torch.combinations, v)),
    ("v:vander()", lambda a, b, v, *_: torch.vander(v)),
    ("v:vander(6, true)", lambda a, b, v, *_: torch.vander(v, 6, True)),
    ("i:vander(3)", lambda a, b, v, w, s, i, c: torch.vander(i, 3)),
    ("v:vander(0)", lambda a, b, v, *_: torch.vander(v, 0)),
    (derives("v:vander(3)", "v"), lambda a, b, v, *_: derived(
        lambda v: torch.stack((v * v, v, v * 0), 1), v)),
    ("nn.tril_indices(4, 3, 1)", lambda *_: torch.tril_indices(4, 3, 1).int()),
    ("nn.triu_indices(20, 9, -2)", lambda *_: torch.triu_indices(20, 9, -2).int()),
    ("nn.triu_indices(2, 2, 5)", lambda *_: torch.triu_indices(2, 2, 5).int()),
    ("nn.range(1, 4, 0.5)", lambda *_: torch.arange(1, 4.5, 0.5)),
    ("nn.range(5, -2, -3)", lambda *_: torch.arange(5.0, -3, -3)),
    ("a:new_zeros(2, 3) + a:new_ones{2, 3} + a:new_full({2, 3}, 7)",
     lambda a, *_: torch.full((2, 3), 8.0)),
    ("i:new_full({3}, 7)", lambda a, b, v, w, s, i, c: i.new_full((3,), 7)),
    ("a:new_tensor{1, 2}", lambda a, *_: a.new_tensor([1, 2])),
    ("i:zeros_like{dtype = 'f32'}", lambda *_: torch.zeros(4)),
    ("select(2, nn.meshgrid(v, w, {indexing = 'xy'}))",
     lambda a, b, v, w, *_: torch.meshgrid(v, w, indexing="xy")[1]),
    ("v:histc(5)", lambda a, b, v, *_: v.histc(5)),
    ("nn.full({7}, 2.5):histc(4)", lambda *_: torch.full((7,), 2.5).histc(4)),
    ("nn.randperm(90):sort():float()", lambda *_: torch.arange(90).float()),
    ("nn.randint(-3, 4, {1000}):amin():float()", lambda *_: torch.tensor(-3.0)),
    ("nn.randint(4, {1000}):amax():float()", lambda *_: torch.tensor(3.0)),
    ("nn.full({1000}, 0.25):bernoulli():mean():sub(0.25):abs():lt(0.05):float()",
     lambda *_: torch.ones(())),
] + [
    ("nn.%s_window(%d, %s)" % (name, n, str(periodic).lower()),
     lambda *_, name=name, n=n, periodic=periodic: getattr(torch, name + "_window")(n, periodic))
    for name in ("hann", "hamming", "bartlett", "blackman", "kaiser")
    for n, periodic in ((0, True), (1, False), (1, True), (2, False), (13, True), (90, False))
] + [
    ("nn.hamming_window(8, true, 0.5, 0.25)", lambda *_: torch.hamming_window(8, True, 0.5, 0.25)),
    ("nn.kaiser_window(9, false, 4)", lambda *_: torch.kaiser_window(9, False, 4)),
])


section("none", {"x": floats(3, 4), "e": floats(2, 0, 4), "z": floats(0), "i": ints(3, 0)}, [
    ("nn.tensor{}", lambda *_: torch.tensor([])),
    ("nn.tensor{{}, {}}", lambda *_: torch.tensor([[], []])),
    ("nn.einsum('bij,jk->bik', e, x:t():slice(1, 1, 4):slice(2, 1, 3))",
     lambda x, e, *_: torch.einsum("bij,jk->bik", e, x.t())),
    ("nn.einsum('bij,bik->jk', e, e)", lambda x, e, *_: torch.einsum("bij,bik->jk", e, e)),
    ("nn.einsum('bij->b', e)", lambda x, e, *_: torch.einsum("bij->b", e)),
    ("nn.einsum('i,j->ij', z, x:select(1, 1))",
     lambda x, e, z, *_: torch.einsum("i,j->ij", z, x[0])),
    ("z:dot(z)", lambda x, e, z, *_: z.dot(z)),
    ("z:outer(z)", lambda x, e, z, *_: z.outer(z)),
    ("x:index_add(1, i, nn.zeros{0, 4})",
     lambda x, e, z, i: x.index_add(0, i.long(), torch.zeros(0, 4))),
    ("x:index_copy(2, i, nn.zeros{3, 0})",
     lambda x, e, z, i: x.index_copy(1, i.long(), torch.zeros(3, 0))),
    ("x:index_fill(2, i, 7)", lambda x, e, z, i: x.index_fill(1, i.long(), 7)),
    ("x:scatter(1, nn.zeros({0, 4}, {dtype = 'i32'}), nn.zeros{0, 4})",
     lambda x, *_: x),
    ("x:scatter(2, nn.zeros({3, 0}, {dtype = 'i32'}), 1)", lambda x, *_: x),
    ("x:scatter_add(2, nn.zeros({3, 0}, {dtype = 'i32'}), nn.zeros{3, 0})", lambda x, *_: x),
    ("x:gather(1, nn.zeros({0, 4}, {dtype = 'i32'}))", lambda x, *_: x[:0]),
    ("x:index_select(2, i)", lambda x, e, z, i: x[:, :0]),
    ("x:take(i)", lambda x, e, z, i: x.take(i.long())),
    ("i:one_hot(3)", lambda x, e, z, i: F.one_hot(i.long(), 3).float()),
    ("i:bincount(3)", lambda x, e, z, i: torch.zeros(3).int()),
    ("(e:sort(2))", lambda x, e, *_: e.sort(1)[0]),
    ("select(2, z:sort())", lambda x, e, z, *_: z.sort()[1].int()),
    ("(z:topk(0))", lambda x, e, z, *_: z.topk(0)[0]),
    ("(x:topk(0))", lambda x, *_: x.topk(0)[0]),
    ("z:argsort()", lambda x, e, z, *_: z.argsort().int()),
    ("z:diff()", lambda x, e, z, *_: z.diff()),
    ("e:diff(1, 2)", lambda x, e, *_: e.diff(1, 1)),
    ("e:diagonal(0, 1, 2)", lambda x, e, *_: e.diagonal(0, 0, 1)),
    ("nn.zeros{0, 0}:trace()", lambda *_: torch.zeros(())),
    ("z:diag()", lambda x, e, z, *_: z.diag()),
    ("z:diag(2)", lambda x, e, z, *_: z.diag(2)),
    ("e:diag_embed()", lambda x, e, *_: e.diag_embed()),
    ("e:triu()", lambda x, e, *_: e.triu()),
    ("z:trapezoid()", lambda x, e, z, *_: torch.trapezoid(z)),
    ("z:cumulative_trapezoid()", lambda x, e, z, *_: torch.cumulative_trapezoid(z)),
    ("z:var()", lambda x, e, z, *_: z.var()),
    ("e:std(2)", lambda x, e, *_: e.std(1)),
    ("z:norm()", lambda x, e, z, *_: z.norm()),
    ("z:repeat_interleave(3)", lambda x, e, z, *_: z.repeat_interleave(3)),
    ("x:repeat_interleave({0, 0, 0}, 1)", lambda x, *_: x[:0]),
    ("select(2, e:tensor_split({0}, 2))", lambda x, e, *_: e),
    ("nn.block_diag(x, nn.zeros{0, 2}, z)",
     lambda x, e, z, *_: torch.block_diag(x, torch.zeros(0, 2), z)),
    ("nn.cartesian_prod(z, x:select(1, 1))",
     lambda x, e, z, *_: torch.cartesian_prod(z, x[0])),
    ("z:combinations()", lambda x, e, z, *_: torch.combinations(z)),
    ("z:vander()", lambda x, e, z, *_: torch.vander(z)),
    ("nn.tril_indices(0, 3)", lambda *_: torch.tril_indices(0, 3).int()),
    ("x:slice(1, 1, 1):pdist()", lambda x, *_: torch.zeros(0)),
    ("z:cov()", lambda x, e, z, *_: torch.tensor(float("nan"))),
    ("e:median(3)", lambda x, e, *_: e.median(2)[0]),
    ("e:kthvalue(2, 3)", lambda x, e, *_: e.kthvalue(2, 2)[0]),
    ("e:cummax(3)", lambda x, e, *_: e.cummax(2)[0]),
    ("e:argmax(3)", lambda x, e, *_: e.argmax(2).int()),
    ("e:amax(3)", lambda x, e, *_: e.amax(2)),
    ("z:bucketize((x:select(1, 1):sort()))", lambda x, e, z, *_: torch.zeros(0).int()),
    ("x:bucketize(z)", lambda x, *_: torch.zeros(3, 4).int()),
    ("x:isin(z):float()", lambda x, *_: torch.zeros(3, 4)),
    ("e:unfold(3, 2, 1)", lambda x, e, *_: e.unfold(2, 2, 1)),
    ("e:movedim(1, 2)", lambda x, e, *_: e.movedim(0, 1)),
    ("nn.cdist(nn.zeros{0, 4}, x)", lambda x, *_: torch.zeros(0, 3)),
    ("e:roll(1)", lambda x, e, *_: e),
    ("e:softmax(2)", lambda x, e, *_: e),
])


section("further", {"x": floats(3, 5), "y": floats(3, 5), "v": floats(9), "m": ints(2, 3, 5),
                    "r": ints(2, 5), "i": ints(15, 2, 2)}, [
    ("x:rsub(y, {alpha = 2})", lambda x, y, *_: torch.rsub(x, y, alpha=2)),
    ("x:rsub(1.5)", lambda x, *_: torch.rsub(x, 1.5)),
    ("x:equal(x * 1):float() + x:equal(y):float() + x:equal(v):float()", lambda *_: torch.ones(())),
    ("x:masked_scatter(m:bool(), v:tile(2))",
     lambda x, y, v, m, *_: x.masked_scatter(m.bool(), v.tile(2))),
    ("x:masked_scatter(r:bool(), y)", lambda x, y, v, m, r, i: x.masked_scatter(r.bool(), y)),
    (derives("x:masked_scatter(m:bool(), y)", "x", "y"),
     lambda x, y, v, m, *_: derived(lambda x, y: x.masked_scatter(m.bool(), y), x, y)),
    ("x:put(nn.tensor{{3, 0}, {14, 7}}, v:slice(1, 1, 4):view(2, 2))",
     lambda x, y, v, *_: x.put(torch.tensor([[3, 0], [14, 7]]), v[:4].view(2, 2))),
    ("x:put(i, v:slice(1, 1, 4):view(2, 2), true)",
     lambda x, y, v, m, r, i: x.put(i.long(), v[:4].view(2, 2), True)),
    ("x:as_strided({2, 3}, {1, 4}, 2)", lambda x, *_: x.as_strided((2, 3), (1, 4), 2)),
    ("v:as_strided({4, 3}, {2, 1})", lambda x, y, v, *_: v.as_strided((4, 3), (2, 1))),
    (derives("v:as_strided({4, 3}, {2, 1})", "v"),
     lambda x, y, v, *_: derived(lambda v: v.as_strided((4, 3), (2, 1)), v)),
    ("x:adjoint()", lambda x, *_: x.adjoint()),
    ("x:isin(y:slice(1, 1, 1), {invert = true}):float()",
     lambda x, y, *_: torch.isin(x, y[:1], invert=True).float()),
    ("v:searchsorted(x, {sorter = v:argsort{stable = true}, side = 'right'})",
     lambda x, y, v, *_: torch.searchsorted(v, x, sorter=v.argsort(), side="right").int()),
    ("(x:topk(2, {sorted = true}))", lambda x, *_: x.topk(2)[0]),
    ("nn.functional.rms_norm(x, {5}, y:select(1, 1))",
     lambda x, y, *_: x * (x.square().mean(1, True) + 1.1920929e-7).rsqrt() * y[0]),
    ("x:pad{padding = {1, 2}, mode = 'reflect'}",
     lambda x, *_: F.pad(x[None], (1, 2), mode="reflect")[0]),
])


layers("adaptive", {"x": floats(9, 16), "l": ints(30, 9)}, [
    of("few", "(x:adaptive_log_softmax_with_loss('few', l, {classes = 30, cutoffs = {5, 12}}))",
       (m := tnn.AdaptiveLogSoftmaxWithLoss(16, 30, [5, 12])), lambda x, l, m=m: m(x, l.long())[0]),
    of("two", "select(2, x:adaptive_log_softmax_with_loss('two', l, {classes = 30, "
       "cutoffs = {20}, div_value = 2, head_bias = true}))",
       (m := tnn.AdaptiveLogSoftmaxWithLoss(16, 30, [20], 2, True)),
       lambda x, l, m=m: m(x, l.long())[1]),
])


def attention(q, k, v, mask=None, causal=False):  # as PyTorch's, which 1.13 has not
    s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool).tril(), float("-inf"))
    if mask is not None and mask.dtype == torch.bool:
        s = s.masked_fill(~mask, float("-inf"))
    elif mask is not None:
        s = s + mask
    return torch.softmax(s, -1) @ v


STATE = GEN.get_state()  # what follows draws as if these were not here
BATCHES = {"q": floats(2, 3, 4, 9, 8), "k": floats(1, 3, 4, 7, 8), "v": floats(3, 4, 7, 6),
           "two": floats(9, 8), "bias": floats(2, 1, 1, 9, 7), "rows": floats(9, 7)}
section("attention_batches", BATCHES, [
    ("q:scaled_dot_product_attention(k, v)", lambda q, k, v, *_: attention(q, k, v)),
    ("k:scaled_dot_product_attention(q, q)", lambda q, k, *_: attention(k, q, q)),
    ("two:scaled_dot_product_attention(k, v)", lambda q, k, v, two, *_: attention(two, k, v)),
    ("two:scaled_dot_product_attention(two, two, {causal = true})",
     lambda q, k, v, two, *_: attention(two, two, two, causal=True)),
    ("q:scaled_dot_product_attention(k:slice(3, 2, 2), v)",
     lambda q, k, v, *_: attention(q, k[:, :, 1:2], v)),
    ("q:scaled_dot_product_attention(k, v, rows)",
     lambda q, k, v, two, bias, rows: attention(q, k, v, rows)),
    ("q:scaled_dot_product_attention(k, v, bias)",
     lambda q, k, v, two, bias, rows: attention(q, k, v, bias)),
    ("q:scaled_dot_product_attention(k, v, bias:slice(1, 1, 1):gt(-1))",
     lambda q, k, v, two, bias, rows: attention(q, k, v, bias[:1] > -1)),
])


BITS = "nn.full({1}, ({f32 = 32, f16 = 16, bf16 = 16, i32 = 32, u8 = 8, bool = 1})"


def promoted(*cases):
    """Each case, and how many bits its dtype has; integers of 64 are of 32 here."""
    for text, f in cases:
        yield text, f
        yield (BITS + "[(%s).dtype])" % text,
               lambda *x, f=f: torch.tensor([min(32, bits_of(f(*x)))]))


def kept(*cases):
    """Each case, of bf16 and integers: how many bits its dtype has."""
    for text, f in cases:
        yield (BITS + "[(function(p) return %s end)(x:to('bf16')).dtype])" % text,
               lambda u, i, x, *_, f=f: torch.tensor([bits_of(f(x.bfloat16(), i))]))


def bits_of(x):
    return 1 if x.dtype == torch.bool else \
        (torch.finfo if x.is_floating_point() else torch.iinfo)(x.dtype).bits


i300 = torch.tensor(300, dtype=torch.int32)
section("promoted", {"u": ints(256, 9).to(torch.uint8), "i": ints(90, 9), "x": floats(9),
                     "h": floats(9).half(), "m": floats(9) > 0, "k": ints(900, 1, low=600)},
        list(promoted(
    ("u + nn.tensor(300, {dtype = 'i32'})", lambda u, i, x, h, m, k: u + i300),
    ("(u + k:reshape{}) * 100", lambda u, i, x, h, m, k: (u + k.reshape(())) * 100),
    ("u + k", lambda u, i, x, h, m, k: u + k),
    ("(u + k) * 100", lambda u, i, x, h, m, k: (u + k) * 100),
    ("nn.max(u, k:reshape{})", lambda u, i, x, h, m, k: torch.maximum(u, k.reshape(()))),
    ("u:lt(k:reshape{})", lambda u, i, x, h, m, k: u < k.reshape(())),
    ("nn.tensor(300, {dtype = 'i32'}) * nn.full({}, 7, {dtype = 'u8'})",
     lambda u, i, x, h, m, k: i300 * torch.tensor(7, dtype=torch.uint8)),
    ("u * nn.tensor(0.5)", lambda u, i, x, h, m, k: u * torch.tensor(0.5)),
    ("u * nn.full({}, 0.5, {dtype = 'f16'})",
     lambda u, i, x, h, m, k: u * torch.tensor(0.5, dtype=torch.float16)),
    ("nn.full({}, 0.5, {dtype = 'f16'}) * 2.0",
     lambda u, i, x, h, m, k: torch.tensor(0.5, dtype=torch.float16) * 2.0),
    ("m + u:amax()", lambda u, i, x, h, m, k: m + u.amax()),
    ("h:float():mean():half()", lambda u, i, x, h, m, k: h.float().mean().half()),
    ("h * nn.tensor(0.5)", lambda u, i, x, h, m, k: h * torch.tensor(0.5)),
    ("nn.concat({h, x}, 1)", lambda u, i, x, h, m, k: torch.cat([h, x])),
    ("nn.concat({x, h}, 1)", lambda u, i, x, h, m, k: torch.cat([x, h])),
    ("nn.concat({i, h, u}, 1)", lambda u, i, x, h, m, k: torch.cat([i, h, u])),
    ("nn.stack({h, x}, 1)", lambda u, i, x, h, m, k: torch.stack([h, x])),
    ("nn.concat({u, m}, 1)", lambda u, i, x, h, m, k: torch.cat([u, m])),
    ("h:copysign(x)", lambda u, i, x, h, m, k: torch.copysign(h, x)),
    ("x:copysign(h)", lambda u, i, x, h, m, k: torch.copysign(x, h)),
    ("i:copysign(h)", lambda u, i, x, h, m, k: torch.copysign(i, h)),
    ("i:copysign(-1)", lambda u, i, x, h, m, k: torch.copysign(i, -1)),
    ("h:copysign(-2.5)", lambda u, i, x, h, m, k: torch.copysign(h, -2.5)),
    ("h:fmod(2.5)", lambda u, i, x, h, m, k: torch.fmod(h, 2.5)),
    ("i:square()", lambda u, i, x, h, m, k: i.square()),
    ("m:square()", lambda u, i, x, h, m, k: m.square()),
    ("i:logsumexp(1)", lambda u, i, x, h, m, k: i.logsumexp(0)),
    ("u:bitwise_xor(k:reshape{})", lambda u, i, x, h, m, k: u ^ k.reshape(())),
    ("m:bitwise_or(k:reshape{})", lambda u, i, x, h, m, k: m | k.reshape(())),
    ("u:bitwise_right_shift(nn.tensor(2))", lambda u, i, x, h, m, k: u >> torch.tensor(2).int()),
    ("(u % 4):pow(nn.tensor(3))", lambda u, i, x, h, m, k: (u % 4) ** torch.tensor(3).int()),
    ("i:xlogy(2)", lambda u, i, x, h, m, k: torch.xlogy(i, 2)),
    ("i:xlogy(i)", lambda u, i, x, h, m, k: torch.xlogy(i, i)),
    ("x:exp():xlogy(i + 1)", lambda u, i, x, h, m, k: torch.xlogy(x.exp(), i + 1)),
)) + list(kept(
    ("p:xlogy(2)", lambda p, *_: torch.xlogy(p, 2)),
    ("nn.xlogy(2, p)", lambda p, *_: torch.xlogy(2, p)),
    ("p:xlogy(i)", lambda p, i: torch.xlogy(p, i)),
    ("i:xlogy(p)", lambda p, i: torch.xlogy(i, p)),
    ("p:xlog1py(i)", lambda p, i: torch.special.xlog1py(p, i)),
    ("p:nanmean()", lambda p, *_: p.nanmean()),
    ("p:norm(0)", lambda p, *_: p.norm(0)),
    ("p:nextafter(p)", lambda p, *_: torch.nextafter(p, p)),
    ("(p:frexp())", lambda p, *_: torch.frexp(p)[0]),
    ("p:cross_entropy(nn.zeros({}, {dtype = 'i32'}))",
     lambda p, *_: F.cross_entropy(p, torch.tensor(0))),
    ("p:scatter_reduce(1, i % 3, p, 'mean')",
     lambda p, i: p.scatter_reduce(0, i.long() % 3, p, "mean")),
    ("p:index_reduce(1, i % 3, p, 'mean', {include_self = false})",
     lambda p, i: p.index_reduce(0, i % 3, p, "mean", include_self=False)),
    ("p:view(1, 1, 9):interpolate{scale = 2, mode = 'linear'}",
     lambda p, *_: F.interpolate(p[None, None], scale_factor=2, mode="linear")),
    ("p:view(1, 1, 3, 3):interpolate{scale = 2, mode = 'bicubic'}",
     lambda p, *_: F.interpolate(p.view(1, 1, 3, 3), scale_factor=2, mode="bicubic")),
    ("p:view(1, 1, 3, 3):avg_pool2d(2, {ceil_mode = true})",
     lambda p, *_: F.avg_pool2d(p.view(1, 1, 3, 3), 2, ceil_mode=True)),
    ("p:slice(1, 1, 6):view(1, 2, 3):affine_grid({1, 1, 2, 2})",
     lambda p, *_: F.affine_grid(p[:6].view(1, 2, 3), (1, 1, 2, 2), align_corners=False)),
    ("p:gumbel_softmax(1, true)", lambda p, *_: F.gumbel_softmax(p, 1, True)),
    ("p:histc(4)", lambda p, *_: p),
)))
def of_pairs(p):
    """Of an exponent: the distances, and their gradients, each of another weight."""
    said = str(p).replace("inf", "math.huge")
    return [
        ("a:pdist(%s)" % said, lambda a, *_: F.pdist(a, p)),
        ("w:pdist(%s)" % said, lambda a, b, c, d, w: F.pdist(w, p)),
        ("(nn.grad((a:pdist(%s) * nn.index{435}):sum(), a))" % said,
         lambda a, *_: gradient(lambda v: F.pdist(v, p) * torch.arange(435), a)),
    ]


def gradient_of(y, x):
    """That of the sum of y, which can be differentiated again."""
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


PAIRS, inf = torch.triu_indices(4, 4, 1), float("inf")
a, b, c, d = floats(30, 5), floats(4, 5), floats(2, 1, 27, 5), floats(3, 7, 5)
section("distances", {"a": a, "b": b, "c": c, "d": d, "w": ints(3, 30, 2).float()}, [
    ("nn.cdist(a, b)", lambda a, b, *_: torch.cdist(a, b)),
    ("nn.cdist(b, a)", lambda a, b, *_: torch.cdist(b, a)),
    ("nn.cdist(c, d)", lambda a, b, c, d, w: torch.cdist(c, d)),
    ("nn.cdist(a, b, 1)", lambda a, b, *_: torch.cdist(a, b, 1)),
    ("nn.cdist(b, b, {compute_mode = 'use_mm_for_euclid_dist'}):gt(1e-3):float()",
     lambda a, b, *_: torch.cdist(b, b).gt(1e-3).float()),
    ("nn.cdist(a, a, {compute_mode = 'donot_use_mm_for_euclid_dist'})",
     lambda a, *_: torch.cdist(a, a, compute_mode="donot_use_mm_for_euclid_dist")),
    ("nn.cdist(w, w)", lambda a, b, c, d, w: torch.cdist(w, w)),
    ("(nn.grad(nn.cdist(w, w:detach()):square():sum() + nn.cdist(w, w):sum(), w))",
     lambda a, b, c, d, w: gradient(
         lambda v: torch.cdist(v, v.detach()).square().sum() + torch.cdist(v, v).sum(), w)),
    ("(nn.grad(nn.cdist(a, b):pow(3):sum(), b))",
     lambda a, b, *_: gradient(lambda v: torch.cdist(a, v).pow(3), b)),
    ("(nn.grad(nn.cdist(c, d):sum(), d))",
     lambda a, b, c, d, w: gradient(lambda v: torch.cdist(c, v), d)),
] + [case for p in (0, 0.5, 1, 1.5, 2, 3, inf) for case in of_pairs(p)] + [
    ("nn.index({300, 1}, 1):to('f32'):pdist()",
     lambda *_: F.pdist(torch.arange(300).float()[:, None])),
    ("nn.pdist(b:slice(1, 1, 2))", lambda a, b, *_: F.pdist(b[:2])),
    ("(nn.grad(w:pdist():sum(), w))",
     lambda a, b, c, d, w: gradient(lambda v: F.pdist(v), w)),
    ("(nn.grad(w:pdist(1):square():sum(), w))",
     lambda a, b, c, d, w: gradient(lambda v: F.pdist(v, 1).square(), w)),
    ("(nn.grad(w:pdist(1.5):sum(), w))",
     lambda a, b, c, d, w: gradient(lambda v: F.pdist(v, 1.5), w)),
    ("(nn.grad(nn.grad(b:pdist(3):pow(4):sum(), b):square():sum(), b))",
     lambda a, b, *_: gradient(lambda v: gradient_of(
         (v[PAIRS[0]] - v[PAIRS[1]]).norm(3, -1).pow(4), v).square(), b)),
])
a, b, i = floats(2, 3), floats(3), ints(9, 5, low=1)
ONES = torch.zeros(1, dtype=torch.int64)
section("numbers", {"n": floats(1)[0], "a": a, "b": b, "i": i, "m": b > 0, "w": a > 0,
                    "o": ints(1, 1), "t": ints(1, 2)}, [
    ("n:take_along(o, 1)", lambda n, *_: n.gather(0, ONES)),
    ("n:take_along(t, 1)", lambda n, *_: n.gather(0, torch.zeros(2).long())),
    ("n:take_along(o:squeeze(), 1)", lambda n, *_: n.gather(0, ONES[0])),
    ("b:slice(1, 1, 1):take_along(o:squeeze(), 1)", lambda n, a, b, *_: b[:1].gather(0, ONES[0])),
    ("n:scatter_add(1, o, o:float() + 2)", lambda n, *_: n.scatter_add(0, ONES, ONES + 2.0)),
    ("n:scatter_add(1, o:squeeze(), n)", lambda n, *_: n.scatter_add(0, ONES[0], n)),
    ("n:scatter_add(1, t, t:float() + 2)",
     lambda n, *_: n.scatter_add(0, torch.zeros(2).long(), torch.full((2,), 2.0))),
    ("n:unfold(1, 1, 1)", lambda n, *_: n.unfold(0, 1, 1)),
    ("n:unfold(-1, 0, 2)", lambda n, *_: n.unfold(0, 0, 2)),
    ("(nn.grad((n * n):unfold(1, 1, 1):sum() + (n * n):take_along(t, 1):sum(), n))",
     lambda n, *_: gradient(lambda v: 3 * v * v, n)),
    ("b:masked_scatter(w, a + 1)", lambda n, a, b, i, m, w, *_: b.masked_scatter(w, a + 1)),
    ("a:masked_scatter(m, a + 1)", lambda n, a, b, i, m, w, *_: a.masked_scatter(m, a + 1)),
    ("b:masked_scatter(w:slice(2, 1, 1), a + 1)",
     lambda n, a, b, i, m, w, *_: b.masked_scatter(w[:, :1], a + 1)),
    ("b:pad({1, 2}, {value = true})", lambda n, a, b, *_: F.pad(b, (1, 2), value=True)),
    ("b:pad({1, 2}, {value = false})", lambda n, a, b, *_: F.pad(b, (1, 2), value=False)),
    ("m:pad({1, 2}, {value = true}):float()",
     lambda n, a, b, i, m, *_: F.pad(m, (1, 2), value=True).float()),
    ("m:masked_fill(m, false):float()",
     lambda n, a, b, i, m, *_: m.masked_fill(m, False).float()),
    ("i:masked_fill(i:gt(4), true)", lambda n, a, b, i, *_: i.masked_fill(i > 4, True)),
    ("m:index_fill(1, t, true):float()",
     lambda n, a, b, i, m, *_: m.index_fill(0, torch.tensor([0]), True).float()),
    ("m:scatter(1, t, true):float()",
     lambda n, a, b, i, m, *_: m.scatter(0, torch.tensor([0]), True).float()),
    ("nn.full({2}, true):int()", lambda *_: torch.full((2,), True).int()),
    ("i:full_like(true)", lambda n, a, b, i, *_: torch.full_like(i, True)),
    ("i:lgamma()", lambda n, a, b, i, *_: i.lgamma()),
    ("i:digamma()", lambda n, a, b, i, *_: i.digamma()),
    ("i:polygamma(1)", lambda n, a, b, i, *_: torch.polygamma(1, i)),
    ("i:polygamma(3)", lambda n, a, b, i, *_: torch.polygamma(3, i)),
    ("m:lgamma()", lambda n, a, b, i, m, *_: m.lgamma()),
    ("(i + 1):zeta(2)", lambda n, a, b, i, *_: torch.special.zeta(i + 1, 2)),
    ("nn.zeta(2.5, i)", lambda n, a, b, i, *_: torch.special.zeta(2.5, i)),
    ("i:igamma(i + 0.5)", lambda n, a, b, i, *_: torch.igamma(i.float(), i + 0.5)),
    ("i:i0()", lambda n, a, b, i, *_: i.i0()),
    ("i:i0e()", lambda n, a, b, i, *_: torch.special.i0e(i)),
    ("i:i1()", lambda n, a, b, i, *_: torch.special.i1(i)),
    ("i:i1e()", lambda n, a, b, i, *_: torch.special.i1e(i)),
    ("i:entr()", lambda n, a, b, i, *_: torch.special.entr(i)),
    ("i:erfcx()", lambda n, a, b, i, *_: torch.special.erfcx(i)),
    ("i:ndtr()", lambda n, a, b, i, *_: torch.special.ndtr(i)),
    ("(-i):log_ndtr()", lambda n, a, b, i, *_: torch.special.log_ndtr(-i)),
    ("m:erfinv()", lambda n, a, b, i, m, *_: m.erfinv()),
])
GEN.set_state(STATE)


def scale(text, want):
    """What an absolute error is measured by: the elements of a gradient are sums of terms as large
    as its largest element, and in some of them the terms cancel, in PyTorch's fp32 as in ours."""
    return max(1, np.abs(np.nan_to_num(want, posinf=0, neginf=0)).max(initial=0)) \
        if "nn.grad" in text else 1


DTYPES = {torch.float32: "f32", torch.int32: "i32", torch.uint8: "u8", torch.float16: "f16",
          torch.bool: "bool"}


def run(program, folder, name, dtypes=DTYPES):
    inputs, cases = SECTIONS[name]
    lines = ['local nn = require "nn"']
    flags = []
    for key, value in inputs.items():
        below = ""
        if value.dtype == torch.int32 and value.numel() and value.min() >= 0:
            below = ", below = %d" % (int(value.max()) + 1)
        lines.append('local %s = nn.input("%s", {%s}, {dtype = "%s"%s})'
                     % (key, key, ", ".join(map(str, value.shape)), dtypes[value.dtype], below))
        np.save("%s/in_%s.npy" % (folder, key), value.numpy())
        flags += ["--input", "%s=%s/in_%s.npy" % (key, folder, key)]
    for i, (text, _) in enumerate(cases):
        lines.append('nn.output("y%d", (%s))' % (i, text))
    state = {}
    for own, module in MODULES.get(name, {}).items():
        for key, p in module.state_dict().items():
            if p.is_floating_point():
                state["%s.%s" % (own, key)] = p.float()
    if state:
        write_safetensors("%s/%s.safetensors" % (folder, name), state)
        flags += ["--weights", "%s/%s.safetensors" % (folder, name)]
    model = "%s/%s.lua" % (folder, name)
    with open(model, "w") as file:
        file.write("\n".join(lines) + "\n")
    done = subprocess.run([program, model, "--quiet", "--output", folder] + flags,
                          capture_output=True, text=True)
    if done.returncode:
        return [done.stderr.strip() or "exit %d" % done.returncode]
    wrong = []
    for i, (text, reference) in enumerate(cases):
        with torch.no_grad():
            want = reference(*inputs.values()).contiguous().numpy()
        got = np.load("%s/y%d.npy" % (folder, i))
        if list(want.shape) != list(got.shape):
            wrong.append("%s: shape %s, PyTorch's is %s" % (text, got.shape, want.shape))
        elif not np.allclose(got, want, rtol=2e-5, atol=2e-6 * scale(text, want), equal_nan=True):
            at = np.unravel_index(np.argmax(np.abs(np.nan_to_num(got - want, nan=9e9))), want.shape)
            wrong.append("%s: %r at %s, PyTorch has %r" % (text, got[at], at, want[at]))
    return wrong


def main():
    program, folder = sys.argv[1:3]
    names = sys.argv[3:] or list(SECTIONS)
    bad = 0
    for name in names:
        wrong = run(program, folder, name)
        print("%s %s: %d functions and options" % ("not ok" if wrong else "ok", name,
                                                   len(SECTIONS[name][1])), flush=True)
        for line in wrong:
            print("  " + line)
        bad += len(wrong)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
