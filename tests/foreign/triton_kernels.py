"""triton_kernels.py FOLDER: compiles kernels for sm_80 and sm_90a, which needs no GPU, and leaves
NAME_ARCH.ptx with NAME_ARCH.json (name, shared memory, warps, scratch) in FOLDER."""
import json
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler import compile as compile_kernel


@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def softmax(o, x, stride, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < n
    v = tl.load(x + r * stride + i, mask=m, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(o + r * stride + i, e / tl.sum(e, 0), mask=m)


@triton.jit
def layernorm(o, x, w, b, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < n
    v = tl.load(x + r * n + i, mask=m, other=0.0)
    d = tl.where(m, v - tl.sum(v, 0) / n, 0.0)
    y = d / tl.sqrt(tl.sum(d * d, 0) / n + 1e-5)
    tl.store(o + r * n + i, y * tl.load(w + i, mask=m) + tl.load(b + i, mask=m), mask=m)


@triton.jit
def histogram(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.atomic_add(o + tl.load(x + i, mask=m, other=0), 1, mask=m)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * K + rk[None, :]
    pb = b + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK
        pb += BK * N
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def matmul_tma(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(da.load([m, k]), db.load([k, n]), acc)
    dc.store([m, n], acc.to(tl.float16))


@triton.jit
def flash(q, k, v, o, scale, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    rn = tl.arange(0, BN)
    q_tile = tl.load(q + rm[:, None] * D + rd[None, :])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for n in range(0, N, BN):
        s = tl.dot(q_tile, tl.trans(tl.load(k + (n + rn)[:, None] * D + rd[None, :]))) * scale
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        shrink = tl.exp2(top - new)
        total = total * shrink + tl.sum(p, 1)
        top = new
        v_tile = tl.load(v + (n + rn)[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(tl.float16), v_tile, acc * shrink[:, None])
    tl.store(o + rm[:, None] * D + rd[None, :], acc / total[:, None])


# Gradients of causal attention for the B rows and the B keys of this program; top: of each row the
# logarithm to base 2 of its sum; delta: of each row the product of its result and gradient.
@triton.jit
def flash_back(q, k, v, go, top, delta, gq, gk, gv, scale, N, D: tl.constexpr, B: tl.constexpr):
    first = tl.program_id(0) * B
    rd = tl.arange(0, D)[None, :]
    rb = tl.arange(0, B)
    mine = (first + rb)[:, None] * D + rd
    k_tile = tl.load(k + mine)
    v_tile = tl.load(v + mine)
    sum_k = tl.zeros((B, D), tl.float32)
    sum_v = tl.zeros((B, D), tl.float32)
    for m in range(first, N, B):
        place = (m + rb)[:, None] * D + rd
        q_tile = tl.load(q + place)
        go_tile = tl.load(go + place)
        s = tl.dot(k_tile, tl.trans(q_tile)) * scale
        p = tl.exp2(s - tl.load(top + m + rb)[None, :])
        p = tl.where((m + rb)[None, :] >= (first + rb)[:, None], p, 0.0)
        sum_v = tl.dot(p.to(tl.float16), go_tile, sum_v)
        gp = tl.dot(v_tile, tl.trans(go_tile))
        gs = p * (gp - tl.load(delta + m + rb)[None, :])
        sum_k = tl.dot(gs.to(tl.float16), q_tile, sum_k)
    tl.store(gk + mine, sum_k * (scale * 0.6931471805599453))
    tl.store(gv + mine, sum_v)
    q_tile = tl.load(q + mine)
    go_tile = tl.load(go + mine)
    top_tile = tl.load(top + first + rb)
    delta_tile = tl.load(delta + first + rb)
    sum_q = tl.zeros((B, D), tl.float32)
    for n in range(0, first + B, B):
        place = (n + rb)[:, None] * D + rd
        k_tile = tl.load(k + place)
        v_tile = tl.load(v + place)
        s = tl.dot(q_tile, tl.trans(k_tile)) * scale
        p = tl.exp2(s - top_tile[:, None])
        p = tl.where((first + rb)[:, None] >= (n + rb)[None, :], p, 0.0)
        gp = tl.dot(go_tile, tl.trans(v_tile))
        gs = p * (gp - delta_tile[:, None])
        sum_q = tl.dot(gs.to(tl.float16), k_tile, sum_q)
    tl.store(gq + mine, sum_q * (scale * 0.6931471805599453))


F, H, I = "*fp32", "*fp16", "i32"
PRODUCT = {"M": I, "N": I, "K": I}
JOBS = [
    ("add", add, {"x": F, "y": F, "o": F, "n": I}, {"B": 1024}, (80, 90)),
    ("softmax", softmax, {"o": F, "x": F, "stride": I, "n": I}, {"B": 512}, (80, 90)),
    ("layernorm", layernorm, {"o": F, "x": F, "w": F, "b": F, "n": I}, {"B": 512}, (80, 90)),
    ("histogram", histogram, {"x": "*i32", "o": "*i32", "n": I}, {"B": 256}, (80, 90)),
    ("matmul32", matmul, {"a": F, "b": F, "c": F, **PRODUCT},
     {"BM": 64, "BN": 64, "BK": 32}, (80, 90)),
    ("matmul16", matmul, {"a": H, "b": H, "c": F, **PRODUCT},
     {"BM": 64, "BN": 64, "BK": 32}, (80, 90)),
    ("matmul8", matmul, {"a": "*fp8e5", "b": "*fp8e5", "c": F, **PRODUCT},
     {"BM": 64, "BN": 64, "BK": 64}, (80, 90)),
    ("matmul8_e4m3", matmul, {"a": "*fp8e4nv", "b": "*fp8e4nv", "c": F, **PRODUCT},
     {"BM": 64, "BN": 64, "BK": 64}, (89, 90)),
    ("matmul_int8", matmul, {"a": "*i8", "b": "*i8", "c": F, **PRODUCT},
     {"BM": 64, "BN": 64, "BK": 64}, (80, 90)),
    ("matmul_tma", matmul_tma, {"a": H, "b": H, "c": H, **PRODUCT},
     {"BM": 128, "BN": 128, "BK": 64}, (90,)),
    ("flash", flash, {"q": H, "k": H, "v": H, "o": F, "scale": "fp32", "N": I},
     {"D": 64, "BM": 64, "BN": 64}, (80, 90)),
    ("flash_back", flash_back,
     {"q": H, "k": H, "v": H, "go": H, "top": F, "delta": F, "gq": F, "gk": F, "gv": F,
      "scale": "fp32", "N": I}, {"D": 64, "B": 64}, (80, 90)),
]


def compiled(kernel, types, constants, arch, **options):
    signature = {**types, **{k: "constexpr" for k in constants}}
    aligned = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(types.values())
               if t[0] == "*" or t == I}
    return compile_kernel(ASTSource(kernel, signature, constants, aligned),
                          target=GPUTarget("cuda", arch, 32),
                          options={"num_warps": 4, "num_stages": 3, **options})


def build(name, kernel, types, constants, arch, folder):
    made = compiled(kernel, types, constants, arch)
    stem = f"{folder}/{name}_{arch}"
    with open(stem + ".ptx", "w") as f:
        f.write(made.asm["ptx"])
    m = made.metadata
    with open(stem + ".json", "w") as f:
        json.dump({"name": m.name, "shared": m.shared, "warps": m.num_warps,
                   "gs": m.global_scratch_size}, f)


if __name__ == "__main__":
    for job in JOBS:
        for arch in job[4]:
            build(*job[:4], arch, sys.argv[1])
