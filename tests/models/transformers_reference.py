#!/usr/bin/env python3
"""Random weights, inputs and outputs of the transformers of models/, in plain Python, one element
at a time.

usage: transformers_reference.py MODEL FOLDER SETTING=NUMBER ...   (settings of models/MODEL.lua)
Writes FOLDER/weights.safetensors, FOLDER/in/NAME.npy and FOLDER/out/NAME.npy.
"""
import json
import math
import os
import random
import struct
import sys

from attention_reference import Array, write


class Weights:
    """Each weight is drawn when it is first asked for: a list of rows (of the last dimension, or as
    long as `row` says), or a list."""

    def __init__(self):
        self.drawn = {}

    def __call__(self, name, *shape, around=0.0, row=None):
        size = row or shape[-1]
        if name not in self.drawn:
            deviation = 1 / math.sqrt(size) if len(shape) > 1 else 0.3
            self.drawn[name] = shape, [random.gauss(around, deviation)
                                       for _ in range(math.prod(shape))]
        values = self.drawn[name][1]
        return ([values[i:i + size] for i in range(0, len(values), size)] if len(shape) > 1
                else values)

    def linear(self, name, x, out, bias=True, mark="."):
        """x (N, in) @ weight (out, in) transposed."""
        w = self(name + mark + "weight", out, len(x[0]))
        b = self(name + mark + "bias", out) if bias else [0] * out
        return [[dot(row, column) + c for column, c in zip(w, b)] for row in x]

    def layer_norm(self, name, x, eps=1e-5):
        w, b = self(name + ".weight", len(x[0]), around=1.0), self(name + ".bias", len(x[0]))
        return [[v * c + d for v, c, d in zip(normal(row, eps), w, b)] for row in x]

    def save(self, path):
        header, at = {}, 0
        for name, (shape, values) in self.drawn.items():
            header[name] = {"dtype": "F32", "shape": shape,
                            "data_offsets": [at, at + 4 * len(values)]}
            at += 4 * len(values)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for _, values in self.drawn.values():
                f.write(struct.pack("<%df" % len(values), *values))


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def add(x, y):
    return [[a + b for a, b in zip(r, s)] for r, s in zip(x, y)]


def normal(row, eps):
    mean = sum(row) / len(row)
    variance = sum((v - mean) ** 2 for v in row) / len(row)
    return [(v - mean) / math.sqrt(variance + eps) for v in row]


def each(f, x):
    return [[f(v) for v in row] for row in x]


def gelu(v):
    return v * 0.5 * (1 + math.erf(v / math.sqrt(2)))


def attend(q, k, v, heads, visible=lambda i, j: True):
    """Rows of H * D each; k and v may have fewer heads, each for several of q that stand
    together."""
    size, out = len(q[0]) // heads, [[] for _ in q]
    for h in range(heads):
        g = h // (heads * size // len(k[0]))
        for i, row in enumerate(q):
            scores = {j: dot(row[h * size:(h + 1) * size], key[g * size:(g + 1) * size])
                      / math.sqrt(size)
                      for j, key in enumerate(k) if visible(i, j)}
            most = max(scores.values(), default=0)
            e = {j: math.exp(s - most) for j, s in scores.items()}
            total = sum(e.values())
            out[i] += [sum(p / total * v[j][g * size + c] for j, p in e.items())
                       for c in range(size)]
    return out


def thirds(x):
    size = len(x[0]) // 3
    return ([row[i * size:(i + 1) * size] for row in x] for i in range(3))


# ---- models: weights and settings -> inputs and outputs by name, each (shape, values) ------------


def normals(*shape):
    return shape, [random.gauss(0, 1) for _ in range(math.prod(shape))]


def rows(tensor):
    """The batches of a tensor (B, N, C), each a list of rows."""
    (batch, count, size), values = tensor
    return [[values[(b * count + i) * size:][:size] for i in range(count)] for b in range(batch)]


def flat(batches):
    return [v for x in batches for row in x for v in row]


def block(w, batch, tokens, width, heads):
    def one(x):
        y = attend(*thirds(w.linear("attn.qkv", w.layer_norm("norm1", x), 3 * width, bias=False)),
                   heads)
        x = add(x, w.linear("attn.proj", y, width))
        y = each(gelu, w.linear("mlp.fc1", w.layer_norm("norm2", x), 4 * width))
        return add(x, each(gelu, w.linear("mlp.fc2", y, width)))

    x = normals(batch, tokens, width)
    return {"x": x}, {"y": (x[0], flat(one(b) for b in rows(x)))}


def vit(w, batch, image, patch, layers, heads, width, inner, classes):
    def one(pixels):  # [channel][row][column]
        kernel = w("conv_proj.weight", width, 3, patch, patch, row=3 * patch * patch)
        x = [w("class_token", 1, 1, width)[0]]
        for top in range(0, image, patch):
            for left in range(0, image, patch):
                cut = [v for c in pixels for row in c[top:top + patch]
                       for v in row[left:left + patch]]
                x.append([dot(cut, out) for out in kernel])
        x[1:] = [[a + b for a, b in zip(row, w("conv_proj.bias", width))] for row in x[1:]]
        x = add(x, w("encoder.pos_embedding", 1, len(x), width))
        for i in range(layers):
            at = f"encoder.layers.encoder_layer_{i}."
            y = w.linear(at + "self_attention.in_proj", w.layer_norm(at + "ln_1", x, 1e-6),
                         3 * width, mark="_")
            y = attend(*thirds(y), heads)
            x = add(x, w.linear(at + "self_attention.out_proj", y, width))
            y = each(gelu, w.linear(at + "mlp.0", w.layer_norm(at + "ln_2", x, 1e-6), inner))
            x = add(x, w.linear(at + "mlp.3", y, width))
        return w.linear("heads.head", w.layer_norm("encoder.ln", x, 1e-6)[:1], classes)

    shape, values = given = normals(batch, 3, image, image)
    channels = rows(((batch * 3, image, image), values))
    images = [channels[i:i + 3] for i in range(0, len(channels), 3)]
    return {"image": given}, {"logits": ((batch, classes), flat(one(x) for x in images))}


def ids(below, *shape):
    return shape, [random.randrange(below) for _ in range(math.prod(shape))]


def batches(tensor):
    """Of integers (B, N), as many lists."""
    (batch, count), values = tensor
    return [values[b * count:(b + 1) * count] for b in range(batch)]


def bert(w, batch, tokens, vocab, positions, layers, heads, width, inner):
    def one(words, mask, types):
        at = "embeddings."
        x = [w(at + "word_embeddings.weight", vocab, width)[i] for i in words]
        x = add(x, w(at + "position_embeddings.weight", positions, width)[:tokens])
        x = add(x, [w(at + "token_type_embeddings.weight", 2, width)[i] for i in types])
        x = w.layer_norm(at + "LayerNorm", x, 1e-12)
        for i in range(layers):
            at = f"encoder.layer.{i}."
            q, k, v = (w.linear(at + "attention.self." + name, x, width)
                       for name in ("query", "key", "value"))
            y = attend(q, k, v, heads, lambda i, j: mask[j])
            y = w.linear(at + "attention.output.dense", y, width)
            x = w.layer_norm(at + "attention.output.LayerNorm", add(x, y), 1e-12)
            y = w.linear(at + "output.dense",
                         each(gelu, w.linear(at + "intermediate.dense", x, inner)), width)
            x = w.layer_norm(at + "output.LayerNorm", add(x, y), 1e-12)
        mean = [dot(column, mask) / sum(mask) for column in zip(*x)]
        return x, [[v / math.sqrt(dot(mean, mean)) for v in mean]]

    words, types = ids(vocab, batch, tokens), ids(2, batch, tokens)
    mask = (batch, tokens), [int(i < tokens - 3 * b) for b in range(batch) for i in range(tokens)]
    hidden, means = zip(*(one(*given)
                          for given in zip(batches(words), batches(mask), batches(types))))
    return ({"input_ids": words, "attention_mask": mask, "token_type_ids": types},
            {"hidden": ((batch, tokens, width), flat(hidden)),
             "embedding": ((batch, width), flat(means))})


def causal(i, j):
    return j <= i


def gpt2(w, batch, tokens, vocab, positions, layers, heads, width):
    def product(name, x, out):  # the weight is (in, out)
        columns, b = list(zip(*w(name + ".weight", len(x[0]), out))), w(name + ".bias", out)
        return [[dot(row, column) + c for column, c in zip(columns, b)] for row in x]

    def gelu_tanh(v):
        return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3)))

    def one(words):
        x = [w("wte.weight", vocab, width)[i] for i in words]
        x = add(x, w("wpe.weight", positions, width)[:tokens])
        for i in range(layers):
            at = f"h.{i}."
            y = attend(*thirds(product(at + "attn.c_attn", w.layer_norm(at + "ln_1", x),
                                       3 * width)), heads, causal)
            x = add(x, product(at + "attn.c_proj", y, width))
            y = each(gelu_tanh, product(at + "mlp.c_fc", w.layer_norm(at + "ln_2", x), 4 * width))
            x = add(x, product(at + "mlp.c_proj", y, width))
        return [[dot(row, word) for word in w("wte.weight", vocab, width)]
                for row in w.layer_norm("ln_f", x)]

    words = ids(vocab, batch, tokens)
    return {"input_ids": words}, {"logits": ((batch, tokens, vocab),
                                             flat(one(x) for x in batches(words)))}


def llama(w, batch, tokens, vocab, layers, heads, groups, width, inner, theta):
    size = width // heads

    def rms_norm(name, x):
        weight = w(name + ".weight", width, around=1.0)
        return [[v * c / math.sqrt(dot(row, row) / width + 1e-5) for v, c in zip(row, weight)]
                for row in x]

    def linear(name, x, out):
        return w.linear(name, x, out, bias=False)

    # The pair (c, c + size / 2) of a head is a complex number, turned by
    # place * theta ** (-2 c / size).
    def rotary(x):
        turned = [row[:] for row in x]
        for place, row in enumerate(turned):
            for first in range(0, len(row), size):
                for c in range(first, first + size // 2):
                    angle = place * theta ** (-2 * (c - first) / size)
                    z = (complex(row[c], row[c + size // 2])
                         * complex(math.cos(angle), math.sin(angle)))
                    row[c], row[c + size // 2] = z.real, z.imag
        return turned

    def one(words):
        x = [w("model.embed_tokens.weight", vocab, width)[i] for i in words]
        for i in range(layers):
            at = f"model.layers.{i}."
            y = rms_norm(at + "input_layernorm", x)
            counts = {"q": heads, "k": groups, "v": groups}
            q, k, v = (linear(at + f"self_attn.{name}_proj", y, n * size)
                       for name, n in counts.items())
            x = add(x, linear(at + "self_attn.o_proj",
                              attend(rotary(q), rotary(k), v, heads, causal), width))
            y = rms_norm(at + "post_attention_layernorm", x)
            gate, up = linear(at + "mlp.gate_proj", y, inner), linear(at + "mlp.up_proj", y, inner)
            y = [[a / (1 + math.exp(-a)) * b for a, b in zip(r, s)] for r, s in zip(gate, up)]
            x = add(x, linear(at + "mlp.down_proj", y, width))
        return linear("lm_head", rms_norm("model.norm", x), vocab)

    words = ids(vocab, batch, tokens)
    return {"input_ids": words}, {"logits": ((batch, tokens, vocab),
                                             flat(one(x) for x in batches(words)))}


MODELS = {"block": block, "vit": vit, "bert": bert, "gpt2": gpt2, "llama": llama}


def save(folder, weights, inputs, outputs):
    weights.save(f"{folder}/weights.safetensors")
    for part, tensors in (("in", inputs), ("out", outputs)):
        os.makedirs(f"{folder}/{part}", exist_ok=True)
        for key, (shape, values) in tensors.items():
            write(f"{folder}/{part}/{key}.npy", Array(shape, values),
                  "<i4" if isinstance(values[0], int) else "<f4")


def main():
    settings = {k: int(v) for k, v in (a.split("=") for a in sys.argv[3:])}
    random.seed(sys.argv[1])
    weights = Weights()
    inputs, outputs = MODELS[sys.argv[1]](weights, **settings)
    save(sys.argv[2], weights, inputs, outputs)


if __name__ == "__main__":
    main()
