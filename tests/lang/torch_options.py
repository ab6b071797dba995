"""Options and forms of the model language's layers and functions beside PyTorch's, in the way of
torch_cases.py: torch_options.py PROGRAM FOLDER [SECTION...]"""
import sys

import torch
import torch.nn as tnn
import torch.nn.functional as F

from torch_cases import ctc, floats, gradient, ints, layers, main, of, section


def gradients(f, *inputs):
    """Of f(*inputs) by each."""
    with torch.enable_grad():
        inputs = [x.clone().requires_grad_() for x in inputs]
        return torch.autograd.grad(f(*inputs).sum(), inputs)


section("targets", {"x": floats(7, 5), "t": floats(7, 5, low=0.05, high=0.95),
                    "w": floats(5, low=0.3, high=2.0), "im": floats(2, 5, 3, 4),
                    "it": floats(2, 5, 3, 4, low=0, high=1),
                    "r": floats(5), "c": ints(5, 7), "o": ints(5, 1),
                    "m": torch.tensor([2, 0, -1, 3, 1], dtype=torch.int32), "v": floats(7, 1)}, [
    ("x:cross_entropy(t)", lambda x, t, *_: F.cross_entropy(x, t)),
    ("x:cross_entropy(t, {label_smoothing = 0.2, weight = w})",
     lambda x, t, w, *_: F.cross_entropy(x, t, w, label_smoothing=0.2)),
    ("x:cross_entropy(t, {weight = w, reduction = 'none'})",
     lambda x, t, w, *_: F.cross_entropy(x, t, w, reduction="none")),
    ("im:cross_entropy{target = it, axis = 2, reduction = 'sum', weight = w, label_smoothing = 1}",
     lambda x, t, w, im, it, *_: F.cross_entropy(im, it, w, reduction="sum", label_smoothing=1)),
    ("im:cross_entropy(it, {axis = 2, reduction = 'none'})",
     lambda x, t, w, im, it, *_: F.cross_entropy(im, it, reduction="none")),
    ("(nn.grad(im:cross_entropy(it, {axis = 2, weight = w, label_smoothing = 0.1}), im))",
     lambda x, t, w, im, it, *_: gradient(
         lambda v: F.cross_entropy(v, it, w, label_smoothing=0.1), im)),
    ("(nn.grad(x:cross_entropy(t, {weight = w}), t))",
     lambda x, t, w, *_: gradient(lambda v: F.cross_entropy(x, v, w), t)),
    ("r:cross_entropy(r:softmax())",
     lambda x, t, w, im, it, r, *_: F.cross_entropy(r, r.softmax(0))),
    ("r:cross_entropy(o:squeeze(1), {label_smoothing = 0.1})",
     lambda x, t, w, im, it, r, c, o, *_: F.cross_entropy(r, o[0].long(), label_smoothing=0.1)),
    ("r:cross_entropy(o:squeeze(1), {weight = w})",
     lambda x, t, w, im, it, r, c, o, *_: F.cross_entropy(r, o[0].long(), w)),
    ("(nn.grad(r:cross_entropy(o:squeeze(1), {weight = w, reduction = 'sum'}), r))",
     lambda x, t, w, im, it, r, c, o, *_: gradient(
         lambda v: F.cross_entropy(v, o[0].long(), w, reduction="sum"), r)),
    ("r:nll_loss(o:squeeze(1), {weight = w})",
     lambda x, t, w, im, it, r, c, o, *_: F.nll_loss(r, o[0].long(), w)),
    ("r:multi_margin_loss(o:squeeze(1), {weight = w, margin = 2})",
     lambda x, t, w, im, it, r, c, o, *_: F.multi_margin_loss(r, o[0].long(), weight=w, margin=2)),
    ("r:multilabel_margin_loss(m)",
     lambda x, t, w, im, it, r, c, o, m, v: F.multilabel_margin_loss(r, m.long())),
    ("x:cross_entropy(c, {label_smoothing = 0.3, reduction = 'none', ignore_index = 2})",
     lambda x, t, w, im, it, r, c, *_: F.cross_entropy(x, c.long(), label_smoothing=0.3,
                                                      reduction="none", ignore_index=2)),
    ("(nn.grad(x:cross_entropy(c, {label_smoothing = 0.3, weight = w, ignore_index = 2}), x))",
     lambda x, t, w, im, it, r, c, *_: gradient(lambda v: F.cross_entropy(
         v, c.long(), w, label_smoothing=0.3, ignore_index=2), x)),
] + [
    (form % own, lambda x, t, w, im, it, r, c, o, m, v, f=f, pick=pick: f(x, pick(r, v, x)))
    for form, f in (
        ("x:mse_loss(%s)", F.mse_loss), ("x:l1_loss(%s)", F.l1_loss),
        ("x:huber_loss(%s, {delta = 0.4})", lambda a, b: F.huber_loss(a, b, delta=0.4)),
        ("x:smooth_l1_loss(%s, {reduction = 'none'})",
         lambda a, b: F.smooth_l1_loss(a, b, reduction="none")),
        ("x:kl_div(%s, {log_target = true, reduction = 'batchmean'})",
         lambda a, b: F.kl_div(a, b, log_target=True, reduction="batchmean")),
        ("x:poisson_nll_loss(%s)", F.poisson_nll_loss),
        ("(nn.grad(x:mse_loss(%s), x))", lambda a, b: gradient(lambda y: F.mse_loss(y, b), a)),
        ("(nn.grad(x:huber_loss(%s), x))", lambda a, b: gradient(lambda y: F.huber_loss(y, b), a)),
    )
    for own, pick in (("r", lambda r, v, x: r), ("v", lambda r, v, x: v),
                      ("x:detach():unsqueeze(2)", lambda r, v, x: x.unsqueeze(1)))
] + [
    ("x:gaussian_nll_loss(t, v:abs())",
     lambda x, t, *rest: F.gaussian_nll_loss(x, t, rest[-1].abs())),
    ("x:gaussian_nll_loss(r, v:abs():squeeze(2))",
     lambda x, t, w, im, it, r, *rest: F.gaussian_nll_loss(x, r, rest[-1].abs()[:, 0])),
    ("(nn.grad(x:mse_loss(r), r))",
     lambda x, t, w, im, it, r, *_: gradient(lambda y: F.mse_loss(x, y), r)),
])

section("alone", {"x": floats(4, 9, 8), "l": floats(4, 11), "d": floats(2, 5, 6, 7),
                  "w2": floats(6, 2, 3, 3), "w1": floats(6, 4, 3), "w3": floats(3, 2, 2, 3, 2),
                  "t2": floats(4, 3, 3, 3), "t1": floats(4, 2, 4), "t3": floats(2, 2, 3, 2, 2),
                  "b": floats(6), "s": ints(4, 3, low=1), "e": torch.tensor(10, dtype=torch.int32),
                  "g": torch.tensor(3, dtype=torch.int32)}, [
    ("nn.functional.conv2d(x, w2, b, {pad = 1, groups = 2})",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b, *_: F.conv2d(x, w2, b, padding=1, groups=2)),
    ("nn.functional.conv1d(l, w1, b, 2)",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, b, *_: F.conv1d(l, w1, b, 2)),
    ("nn.functional.conv3d(d, w3)", lambda x, l, d, w2, w1, w3, *_: F.conv3d(d, w3)),
    ("(nn.grad(nn.functional.conv2d(x, w2, {groups = 2}):square():sum(), x))",
     lambda x, l, d, w2, *_: gradient(lambda v: F.conv2d(v, w2, groups=2).square(), x)),
    ("nn.functional.conv_transpose2d(x, t2, {stride = 2})",
     lambda x, l, d, w2, w1, w3, t2, *_: F.conv_transpose2d(x, t2, stride=2)),
    ("nn.functional.conv_transpose1d(l, t1, {stride = 3, pad = 1})",
     lambda x, l, d, w2, w1, w3, t2, t1, *_: F.conv_transpose1d(l, t1, stride=3, padding=1)),
    ("nn.functional.conv_transpose3d(d, t3)",
     lambda x, l, d, w2, w1, w3, t2, t1, t3, *_: F.conv_transpose3d(d, t3)),
    ("x:max_pool2d(2)", lambda x, *_: F.max_pool2d(x, 2)),
    ("select(2, x:max_pool2d(3, {return_indices = true})):float()",
     lambda x, *_: F.max_pool2d(x, 3, return_indices=True)[1].float()),
    ("nn.max_unpool2d(x:max_pool2d(2), select(2, x:max_pool2d(2, {return_indices = true})), 2, "
     "{size = {9, 8}})",
     lambda x, *_: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2,
                                  output_size=(9, 8))),
    ("l:max_pool1d(3, {pad = 1})", lambda x, l, *_: F.max_pool1d(l, 3, padding=1)),
    ("d:max_pool3d(2)", lambda x, l, d, *_: F.max_pool3d(d, 2)),
    ("x:avg_pool2d(3, {pad = 1, count_include_pad = false})",
     lambda x, *_: F.avg_pool2d(x, 3, padding=1, count_include_pad=False)),
    ("l:avg_pool1d(4)", lambda x, l, *_: F.avg_pool1d(l, 4)),
    ("d:avg_pool3d(2)", lambda x, l, d, *_: F.avg_pool3d(d, 2)),
    ("l:abs():lp_pool1d(2, 3)", lambda x, l, *_: F.lp_pool1d(l.abs(), 2, 3)),
    ("x:adaptive_avg_pool2d{4, 5}", lambda x, *_: F.adaptive_avg_pool2d(x, (4, 5))),
    ("l:adaptive_max_pool1d(3)", lambda x, l, *_: F.adaptive_max_pool1d(l, 3)),
    ("d:adaptive_avg_pool3d(2)", lambda x, l, d, *_: F.adaptive_avg_pool3d(d, 2)),
    ("x:unfold(3)", lambda x, *_: F.unfold(x, 3)),
    ("x:unfold(3):fold({9, 8}, 3)", lambda x, *_: F.fold(F.unfold(x, 3), (9, 8), 3)),
    ("l:t():log_softmax():ctc_loss(s, e, g)", lambda x, l, *rest: ctc(l.t(), *rest[-3:])),
    ("(nn.grad(l:t():log_softmax():ctc_loss(s, e, g), l))",
     lambda x, l, *rest: gradient(lambda v: ctc(v.t(), *rest[-3:]), l)),
])

layers("single", {"x": floats(4, 9, 8), "l": floats(4, 11), "q": floats(6, 5), "h": floats(2, 7),
                  "k": floats(2, 7)}, [
    of("c2", "x:conv2d('c2', {out = 6, kernel = 3, pad = 'same', groups = 2})",
       tnn.Conv2d(4, 6, 3, 1, "same", groups=2)),
    of("t1", "l:conv_transpose1d('t1', {out = 6, kernel = 3, stride = 2})",
       (m := tnn.ConvTranspose1d(4, 6, 3, 2)), lambda x, l, *_, m=m: m(l)),
    of("in1", "l:instance_norm1d('in1', {affine = true})",
       (m := tnn.InstanceNorm1d(4, affine=True)), lambda x, l, *_, m=m: m(l)),
    of("in2", "x:instance_norm2d('in2')", tnn.InstanceNorm2d(4)),
    of("ls", "(q:lstm('ls', {hidden = 7, bidirectional = true, h = h, c = k, batch_first = true}))",
       (m := tnn.LSTM(5, 7, bidirectional=True, batch_first=True)),
       lambda x, l, q, h, k, m=m: m(q, (h, k))[0]),
    of("l3", "select(3, q:lstm('l3', {hidden = 7, layers = 2, h = h, c = k}))",
       (m := tnn.LSTM(5, 7, 2)), lambda x, l, q, h, k, m=m: m(q, (h, k))[1][1]),
    of("gr", "select(2, q:gru('gr', {hidden = 7}))", (m := tnn.GRU(5, 7)),
       lambda x, l, q, h, k, m=m: m(q)[1]),
    of("rn", "(q:rnn('rn', {hidden = 3, nonlinearity = 'relu'}))",
       (m := tnn.RNN(5, 3, nonlinearity="relu")), lambda x, l, q, h, k, m=m: m(q)[0]),
    of("lc", "(q:select(1, 2):lstm_cell('lc', {hidden = 7, h = h:select(1, 1), "
       "c = k:select(1, 1)}))",
       (m := tnn.LSTMCell(5, 7)), lambda x, l, q, h, k, m=m: m(q[1], (h[0], k[0]))[0]),
    of("gc", "q:select(1, 2):gru_cell('gc', {hidden = 7})", (m := tnn.GRUCell(5, 7)),
       lambda x, l, q, h, k, m=m: m(q[1])),
])

section("parts", {"x": floats(2, 3, 9, 10), "l": floats(2, 3, 11), "d": floats(1, 2, 5, 6, 7),
                  "q": ints(3, 2, 2, 7, 5)}, [
    ("x:adaptive_avg_pool2d{5, nil}", lambda x, *_: F.adaptive_avg_pool2d(x, (5, None))),
    ("x:adaptive_avg_pool2d{nil, 4}", lambda x, *_: F.adaptive_avg_pool2d(x, (None, 4))),
    ("d:adaptive_max_pool3d({nil, 4, nil})", lambda x, l, d, q:
     F.adaptive_max_pool3d(d, (None, 4, None))),
    ("d:adaptive_avg_pool3d{nil, nil, 3}", lambda x, l, d, q:
     F.adaptive_avg_pool3d(d, (None, None, 3))),
    ("(x:adaptive_max_pool2d({4, 3}, {return_indices = true}))",
     lambda x, *_: F.adaptive_max_pool2d(x, (4, 3))),
    ("select(2, x:adaptive_max_pool2d({4, 3}, {return_indices = true})):float()",
     lambda x, *_: F.adaptive_max_pool2d(x, (4, 3), True)[1].float()),
    ("select(2, x:adaptive_max_pool2d{nil, 7, return_indices = true}):float()",
     lambda x, *_: F.adaptive_max_pool2d(x, (9, 7), True)[1].float()),
    ("select(2, l:adaptive_max_pool1d(4, {return_indices = true})):float()",
     lambda x, l, *_: F.adaptive_max_pool1d(l, 4, True)[1].float()),
    ("select(2, d:adaptive_max_pool3d({2, 4, 3}, {return_indices = true})):float()",
     lambda x, l, d, q: F.adaptive_max_pool3d(d, (2, 4, 3), True)[1].float()),
    ("select(2, q:float():adaptive_max_pool2d({3, 2}, {return_indices = true})):float()",
     lambda x, l, d, q: F.adaptive_max_pool2d(q.float(), (3, 2), True)[1].float()),
    ("(nn.grad((q:float() + x:sum() * 0):adaptive_max_pool2d({3, 2}, {return_indices = true})"
     ":square():sum() + x:adaptive_max_pool2d({4, 6}, {return_indices = true}):square():sum(), x))",
     lambda x, l, d, q: gradient(lambda v: F.adaptive_max_pool2d(v, (4, 6)).square(), x)),
])

section("tables", {"w": floats(7, 5), "i": ints(7, 3, 4), "j": ints(7, 10), "u": floats(3, 4),
                   "v": floats(10), "e": floats(3, 5),
                   "o": torch.tensor([0, 4, 4, 9], dtype=torch.int32)}, [
    ("nn.functional.embedding(i, w, {max_norm = 1.5})",
     lambda w, i, *_: F.embedding(i.long(), w.clone(), max_norm=1.5)),
    ("nn.functional.embedding(i, w, 3, 1.5, 1)",
     lambda w, i, *_: F.embedding(i.long(), w.clone(), 3, 1.5, 1)),
    ("(nn.grad(nn.functional.embedding(i, w, {max_norm = 1.5}):square():sum(), w))",
     lambda w, i, *_: gradient(lambda t: F.embedding(i.long(), t * 1, max_norm=1.5).square(), w)),
    ("(nn.grad((nn.functional.embedding(j:view(2, 5), w, {scale_grad_by_freq = true, "
     "padding_idx = -2}) * u:sum()):sum(), w))",
     lambda w, i, j, u, *_: gradient(lambda t: F.embedding(
         j.view(2, 5).long(), t, scale_grad_by_freq=True, padding_idx=-2) * u.sum(), w)),
    ("nn.functional.embedding_bag(i, w)", lambda w, i, *_: F.embedding_bag(i.long(), w)),
    ("nn.functional.embedding_bag(i, w, {mode = 'sum', per_sample_weights = u})",
     lambda w, i, j, u, *_: F.embedding_bag(i.long(), w, mode="sum", per_sample_weights=u)),
    ("nn.functional.embedding_bag(j, w, {0, 4, 4, 9}, {mode = 'sum', per_sample_weights = v})",
     lambda w, i, j, u, v, e, o: F.embedding_bag(j.long(), w, o.long(), mode="sum",
                                                 per_sample_weights=v)),
    ("nn.functional.embedding_bag(j, w, o, {mode = 'sum', include_last_offset = true, "
     "max_norm = 1})", lambda w, i, j, u, v, e, o: F.embedding_bag(
         j.long(), w.clone(), o.long(), mode="sum", include_last_offset=True, max_norm=1)),
    ("(nn.grad(nn.functional.embedding_bag(j, w, o, {mode = 'sum', weights = v}):square():sum(), "
     "v))", lambda w, i, j, u, v, e, o: gradient(lambda t: torch.stack([
         (t[:, None] * w[j.long()])[a:b].sum(0) for a, b in ((0, 4), (4, 4), (4, 9), (9, 10))
     ]).square(), v)),
] + [
    (form % (own, mode, ", padding_idx = 2" if pad else ""),
     lambda w, i, j, u, v, e, o, mode=mode, pad=pad, own=own, slope=slope:
     (lambda f: gradient(f, w) if slope else f(w))(lambda t: F.embedding_bag(
         (i if own == "i, w" else j).long(), t, None if own == "i, w" else o.long(), mode=mode,
         padding_idx=2 if pad else None).square()))
    for form, slope in (("nn.functional.embedding_bag(%s, {mode = '%s'%s}):square()", False),
                        ("(nn.grad(nn.functional.embedding_bag(%s, {mode = '%s'%s})"
                         ":square():sum(), w))", True))
    for own in ("i, w", "j, w, o", "j, w, {0, 4, 4, 9}")
    for pad in (False, True) for mode in ("sum", "mean", "max")
])

layers("bags", {"i": ints(7, 3, 4), "j": ints(7, 10)}, [
    of("em", "i:embedding('em', {count = 7, size = 5, padding_idx = 1, max_norm = 0.5})",
       (m := tnn.Embedding(7, 5, 1, 0.5)),
       lambda i, j, m=m: F.embedding(i.long(), m.weight.clone(), 1, 0.5)),
    of("eb", "i:embedding_bag('eb', {count = 7, size = 5, padding_idx = 0})",
       (m := tnn.EmbeddingBag(7, 5, padding_idx=0)), lambda i, j, m=m: m(i.long())),
    of("eo", "j:embedding_bag('eo', {count = 7, size = 5, mode = 'max', offsets = {0, 3, 3}})",
       (m := tnn.EmbeddingBag(7, 5, mode="max")),
       lambda i, j, m=m: m(j.long(), torch.tensor([0, 3, 3]))),
])


def attends(expected, own="heads = 2", query="q", heads=2, pick=0, call=None, **options):
    """A case of multi_head_attention named by how many there are; call: what the module is given
    besides the query, key and value."""
    name = "m%d" % len(ATTENDS)
    module = tnn.MultiheadAttention(8, heads, **options)
    ATTENDS.append(of(name, expected % ("%s:multi_head_attention('%s', {%s})" % (query, name, own)),
                      module, lambda *x, m=module: call(m, *x)[pick]))


ATTENDS = []
attends("select(2, %s)", "heads = 2, need_weights = true", pick=1,
        call=lambda m, q, k, *_: m(q, q, q))
attends("(%s)", "heads = 2, need_weights = true", call=lambda m, q, k, *_: m(q, q, q))
attends("(%s)", "heads = 2, bias = false", bias=False, call=lambda m, q, k, *_: m(q, q, q))
attends("select(2, %s)", "heads = 2, key = k, need_weights = true, average_attn_weights = false",
        pick=1, call=lambda m, q, k, *_: m(q, k, k, average_attn_weights=False))
attends("%s", "heads = 2, key = k, add_bias_kv = true", add_bias_kv=True,
        call=lambda m, q, k, *_: m(q, k, k))
attends("%s", "heads = 2, key = k, add_zero_attn = true, add_bias_kv = true", add_zero_attn=True,
        add_bias_kv=True, call=lambda m, q, k, *_: m(q, k, k))
attends("select(2, %s)", "heads = 2, key = k, add_zero_attn = true, mask = a:gt(1), "
        "key_padding_mask = p:eq(1), need_weights = true", add_zero_attn=True, pick=1,
        call=lambda m, q, k, w, a, b, p, c: m(q, k, k, p == 1, attn_mask=a > 1))
attends("%s", "heads = 2, key = k, add_bias_kv = true, mask = a, key_padding_mask = p:eq(1)",
        add_bias_kv=True, call=lambda m, q, k, w, a, b, p, c: m(q, k, k, p == 1, attn_mask=a))
attends("%s", "heads = 2, key = k, mask = b",
        call=lambda m, q, k, w, a, b, p, c: m(q, k, k, attn_mask=b))
attends("%s", "heads = 2, key = k, mask = b:gt(0.8), key_padding_mask = p:eq(1)",
        call=lambda m, q, k, w, a, b, p, c: m(q, k, k, p == 1, attn_mask=b > 0.8))
attends("%s", "heads = 2, key = k, value = w, vdim = 6, kdim = 8", vdim=6,
        call=lambda m, q, k, w, *_: m(q, k, w))
attends("%s", "heads = 4, causal = true, add_bias_kv = true", heads=4, add_bias_kv=True,
        call=lambda m, q, *_: m(q, q, q, attn_mask=torch.ones(7, 7).triu(1) > 0))
attends("%s", "heads = 4, key = k, causal = true", heads=4,
        call=lambda m, q, k, *_: m(q, k, k, attn_mask=torch.ones(7, 5).triu(1) > 0))
attends("(%s)", "heads = 2, key = k:select(2, 1), key_padding_mask = p:select(1, 1):eq(1)",
        "q:select(2, 1)",
        call=lambda m, q, k, w, a, b, p, c: m(q[:, 0], k[:, 0], k[:, 0], p[0] == 1))
attends("select(2, %s)", "heads = 2, mask = c, need_weights = true, average_attn_weights = false, "
        "batch_first = true", "q:select(2, 1)", pick=1, batch_first=True,
        call=lambda m, q, k, w, a, b, p, c: m(q[:, 0], q[:, 0], q[:, 0], attn_mask=c,
                                              average_attn_weights=False))
attends("(nn.grad(%s:square():sum(), q))", "heads = 2, key = k, add_bias_kv = true, mask = b, "
        "key_padding_mask = p:eq(1)", add_bias_kv=True, pick=slice(None),
        call=lambda m, q, k, w, a, b, p, c: gradient(
            lambda v: m(v, k, k, p == 1, attn_mask=b)[0].square(), q))
attends("(nn.grad(select(2, %s):square():sum(), q))", "heads = 2, key = k, mask = a, "
        "need_weights = true", pick=slice(None), call=lambda m, q, k, w, a, *_: gradient(
            lambda v: m(v, k, k, attn_mask=a)[1].square(), q))
layers("heads", {"q": floats(7, 2, 8), "k": floats(5, 2, 8), "w": floats(5, 2, 6),
                 "a": floats(7, 5), "b": floats(4, 7, 5),
                 "p": torch.tensor([[0, 0, 1, 0, 1], [0, 0, 0, 1, 0]], dtype=torch.int32),
                 "c": floats(2, 7, 7)}, ATTENDS)

layers("masks", {"x": floats(5, 2, 8), "m": floats(7, 2, 8), "a": floats(5, 5), "b": floats(5, 7),
                 "p": torch.tensor([[0, 0, 0, 0, 1], [0, 0, 1, 0, 0]], dtype=torch.int32)}, [
    of("e", "x:transformer_encoder_layer('e', {nhead = 2, dim_feedforward = 12, src_mask = a, "
            "src_key_padding_mask = p:eq(1), norm_first = true})",
       (m := tnn.TransformerEncoderLayer(8, 2, 12, norm_first=True)),
       lambda x, m, a, b, p, own=m: own(x, a, p == 1)),
    of("es", "x:transformer_encoder('es', {layers = 2, heads = 2, inner = 12, mask = a:gt(0.5), "
             "activation = function(v) return v:silu() end})",
       (m := tnn.TransformerEncoder(tnn.TransformerEncoderLayer(8, 2, 12, activation=F.silu), 2,
                                    enable_nested_tensor=False)),
       lambda x, m, a, b, p, own=m: own(x, a > 0.5)),
    of("ea", "x:select(2, 1):transformer_encoder_layer('ea', {nhead = 2, inner = 12, "
             "is_causal = true})", (m := tnn.TransformerEncoderLayer(8, 2, 12)),
       lambda x, m, a, b, p, own=m: own(x[:, 0], torch.ones(5, 5).triu(1) > 0)),
    of("d", "x:transformer_decoder_layer('d', {memory = m, heads = 2, inner = 12, tgt_mask = a, "
            "memory_mask = b, tgt_key_padding_mask = p:eq(1), norm_first = true, "
            "activation = 'gelu'})",
       (m := tnn.TransformerDecoderLayer(8, 2, 12, norm_first=True, activation="gelu")),
       lambda x, m, a, b, p, own=m: own(x, m, a, b, p == 1)),
    of("t", "x:transformer('t', {src = m, heads = 2, encoder_layers = 1, decoder_layers = 2, "
            "inner = 12, tgt_mask = a, memory_mask = b, tgt_key_padding_mask = p:eq(1), "
            "src_mask = (b:t():matmul(b)):gt(9)})",
       (m := tnn.Transformer(8, 2, 1, 2, 12)),
       lambda x, m, a, b, p, own=m: own(m, x, b.t() @ b > 9, a, b,
                                        tgt_key_padding_mask=p == 1)),
])

section("grids", {"x": floats(2, 3, 6, 8), "g": floats(2, 5, 4, 2, low=-1.4, high=1.4),
                  "d": floats(1, 2, 3, 4, 5), "h": floats(1, 2, 3, 4, 3, low=-1.3, high=1.3),
                  "t": floats(2, 2, 3), "u": floats(2, 3, 4)}, [
    ("%s:grid_sample(%s, {mode = '%s', padding_mode = '%s', align_corners = %s})"
     % (*own, mode, pad, align), lambda x, g, d, h, t, u, own=own, mode=mode, pad=pad, align=align:
     F.grid_sample(*((x, g) if own == ("x", "g") else (d, h)), mode, pad, align == "true"))
    for own, modes in ((("x", "g"), ("bicubic", "bilinear")), (("d", "h"), ("bilinear", "nearest")))
    for mode in modes for pad in ("zeros", "border", "reflection") for align in ("true", "false")
] + [
    ("(nn.grad(%s:grid_sample(%s, {mode = '%s', padding_mode = '%s', align_corners = %s})"
     ":square():sum() * 0.02, %s))" % (*own, mode, pad, align, own[1]),
     lambda x, g, d, h, t, u, own=own, mode=mode, pad=pad, align=align:
     gradient(lambda v: F.grid_sample((x if own[0] == "x" else d).double(), v, mode, pad,
                                      align == "true").square() * 0.02,
              (g if own[0] == "x" else h).double()).float())
    for own, modes in ((("x", "g"), ("bicubic", "bilinear")), (("d", "h"), ("bilinear",)))
    for mode in modes for pad in ("zeros", "border", "reflection") for align in ("true", "false")
] + [
    ("(nn.grad(x:grid_sample(g, {mode = 'bicubic'}):square():sum(), x))",
     lambda x, g, *_: gradient(lambda v: F.grid_sample(
         v, g, "bicubic", align_corners=False).square(), x)),
    ("(nn.grad(d:grid_sample(h, {padding_mode = 'border'}):square():sum(), d))",
     lambda x, g, d, h, *_: gradient(lambda v: F.grid_sample(
         v, h, padding_mode="border", align_corners=False).square(), d)),
    ("(nn.grad(x:grid_sample(t:affine_grid({2, 3, 4, 5})):square():sum(), t))",
     lambda x, g, d, h, t, u: gradient(lambda v: F.grid_sample(x, F.affine_grid(
         v, (2, 3, 4, 5), align_corners=False), align_corners=False).square(), t)),
    ("u:affine_grid({2, 1, 3, 4, 5})",
     lambda x, g, d, h, t, u: F.affine_grid(u, (2, 1, 3, 4, 5), align_corners=False)),
    ("u:affine_grid({2, 1, 3, 1, 5}, {align_corners = true})",
     lambda x, g, d, h, t, u: F.affine_grid(u, (2, 1, 3, 1, 5), align_corners=True)),
])

section("smooth", {"x": floats(2, 3, 17, 22)}, [
    ("x:interpolate{%s, mode = '%s', align_corners = %s, antialias = true}" % (how, mode, align),
     lambda x, options=options, mode=mode, align=align: F.interpolate(
         x.double(), mode=mode, align_corners=align == "true", antialias=True, **options).float())
    for how, options in (
        ("size = {5, 8}", {"size": (5, 8)}), ("size = {17, 30}", {"size": (17, 30)}),
        ("scale = 0.37", {"scale_factor": 0.37}), ("size = {1, 1}", {"size": (1, 1)}),
        ("scale = {0.6, 1.7}, recompute_scale_factor = true",
         {"scale_factor": (0.6, 1.7), "recompute_scale_factor": True}))
    for mode in ("bilinear", "bicubic") for align in ("true", "false")
] + [
    ("(nn.grad(x:interpolate{size = {5, 8}, mode = 'bicubic', antialias = true}:square():sum(), "
     "x))", lambda x: gradient(lambda v: F.interpolate(
         v, (5, 8), mode="bicubic", antialias=True).square(), x)),
])

layers("tracked", {"x": floats(4, 5, 6, 3), "l": floats(5, 7)}, [
    of("i2", "x:instance_norm2d('i2', {track_running_stats = true, affine = true})",
       (m := tnn.InstanceNorm2d(5, affine=True, track_running_stats=True)),
       lambda x, l, m=m: m(x)),
    of("i1", "l:instance_norm1d('i1', {track_running_stats = true})",
       (m := tnn.InstanceNorm1d(5, track_running_stats=True)), lambda x, l, m=m: m(l)),
    of("i3", "x:instance_norm2d('i3', {track_running_stats = true, training = true})",
       (m := tnn.InstanceNorm2d(5, track_running_stats=True)),
       lambda x, l, m=m: F.instance_norm(x)),
])


def moved(f, x, pick):
    """The running statistics behind f(x, mean, var)."""
    stats = torch.linspace(-1, 1, 5), torch.linspace(0.5, 2, 5)
    with torch.no_grad():
        return (f(x, *stats), *stats)[pick]


NORMS = "nn.linspace(-1, 1, 5), nn.linspace(0.5, 2, 5)"
section("batches", {"x": floats(4, 5, 6, 3), "f": floats(6, 5), "w": floats(5), "b": floats(5)}, [
    ("nn.functional.batch_norm(x, %s, w, b, true)" % NORMS,
     lambda x, f, w, b: moved(lambda v, m, n: F.batch_norm(v, m, n, w, b, True), x, 0)),
    ("select(2, nn.functional.batch_norm(x, %s, w, b, true, 0.3))" % NORMS,
     lambda x, f, w, b: moved(lambda v, m, n: F.batch_norm(v, m, n, w, b, True, 0.3), x, 1)),
    ("select(3, nn.functional.batch_norm(f, %s, {training = true, momentum = 0.3}))" % NORMS,
     lambda x, f, w, b: moved(lambda v, m, n: F.batch_norm(v, m, n, None, None, True, 0.3), f, 2)),
    ("nn.functional.batch_norm(f, nil, nil, w, {training = true, eps = 0.1})",
     lambda x, f, w, b: F.batch_norm(f, None, None, w, None, True, eps=0.1)),
    ("(nn.grad(nn.functional.batch_norm(x, nil, nil, w, b, true):pow(3):sum(), x))",
     lambda x, f, w, b: gradient(lambda v: F.batch_norm(v, None, None, w, b, True) ** 3, x)),
    ("(nn.grad(nn.functional.batch_norm(x, nil, nil, w, b, true):pow(3):sum(), w))",
     lambda x, f, w, b: gradient(lambda v: F.batch_norm(x, None, None, v, b, True) ** 3, w)),
    ("nn.functional.instance_norm(x, %s, w, b, false)" % NORMS,
     lambda x, f, w, b: moved(lambda v, m, n: F.instance_norm(v, m, n, w, b, False), x, 0)),
    ("select(2, nn.functional.instance_norm(x, %s, w, b, true, 0.3))" % NORMS,
     lambda x, f, w, b: moved(lambda v, m, n: F.instance_norm(v, m, n, w, b, True, 0.3), x, 1)),
    ("select(3, nn.functional.instance_norm(x, %s))" % NORMS,
     lambda x, f, w, b: moved(lambda v, m, n: F.instance_norm(v, m, n), x, 2)),
])

section("bits", {"i": ints(100, 4, 5, low=-99), "j": ints(100, 4, 5), "k": ints(6, 4, 5)}, [
    ("(i & j):float()", lambda i, j, k: (i & j).float()),
    ("(i | 12):float()", lambda i, j, k: (i | 12).float()),
    ("(i ~ j):float()", lambda i, j, k: (i ^ j).float()),
    ("(~i):float()", lambda i, j, k: (~i).float()),
    ("(i << k):float()", lambda i, j, k: (i << k).float()),
    ("(i >> 3):float()", lambda i, j, k: (i >> 3).float()),
    ("(~(i:gt(0) & j:lt(50))):float()", lambda i, j, k: (~((i > 0) & (j < 50))).float()),
    ("(i:gt(0) ~ j:lt(50) | k:eq(2)):float()",
     lambda i, j, k: ((i > 0) ^ (j < 50) | (k == 2)).float()),
])


if __name__ == "__main__":
    sys.exit(main())
