"""check_nvcc.py FILE.ptx ARCH: runs the kernels of nvcc_kernels.cu on build/libcusim.so, with all
checks and a random order of threads, and holds them to what is worked out here. Speaks TAP."""
import ctypes
import os
import struct
import sys

PATH, ARCH = sys.argv[1], int(sys.argv[2])
os.environ.update(NNGEN_SIM_CHECK="all", NNGEN_SIM_SEED="7")
DRIVER = ctypes.CDLL("build/libcusim.so")
POINTER = ctypes.c_void_p
WORD = 0xffffffff


def must(code):
    if code:
        raise RuntimeError(f"error {code}")


def start():
    context, module = POINTER(), POINTER()
    must(DRIVER.cuInit(0))
    must(DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    must(DRIVER.cuCtxSetCurrent(context))
    with open(PATH, "rb") as file:
        must(DRIVER.cuModuleLoadData(ctypes.byref(module), file.read() + b"\0"))
    return module


def upload(words):
    data, at = struct.pack(f"<{len(words)}i", *words), POINTER()
    must(DRIVER.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(len(data))))
    must(DRIVER.cuMemcpyHtoD_v2(at, data, ctypes.c_size_t(len(data))))
    return at


def run(module, name, grid, block, count, *before, after=()):
    """The first `count` words of what the kernel leaves; its output stands between the others."""
    function, out = POINTER(), upload([0] * count)
    must(DRIVER.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
    values = [*before, out, *(ctypes.c_int(a) for a in after)]
    params = (POINTER * len(values))(*[ctypes.cast(ctypes.pointer(v), POINTER) for v in values])
    must(DRIVER.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, None, params, None))
    must(DRIVER.cuCtxSynchronize())
    got = ctypes.create_string_buffer(4 * count)
    must(DRIVER.cuMemcpyDtoH_v2(got, out, ctypes.c_size_t(4 * count)))
    return struct.unpack(f"<{count}i", got.raw)


def warp(t):
    return range(t // 32 * 32, t // 32 * 32 + 32)


def groups(module):
    threads = range(128)
    third = [[u for u in warp(t) if u % 3 == 0] for t in threads]
    alike = [[u for u in warp(t) if u % 5 == t % 5] for t in threads]
    first = [sum(range(t // 8 * 8, t // 8 * 8 + 8)) for t in threads]
    match = [sum(1 << u % 32 for u in warp(t) if u // 6 == t // 6) for t in threads]
    want = first + [sum(range(t // 32 * 32, t + 1)) for t in threads]
    want += [-1 if t % 3 else len(third[t]) * 1000 + max(third[t]) for t in threads]
    want += [len(alike[t]) * 1000 + alike[t].index(t) for t in threads]
    want += [next(u for u in warp(t) if (u % 7 < 3) == (t % 7 < 3)) for t in threads]
    want += first[::-1] + [signed(m) for m in match]
    return run(module, "groups", 1, 128, 896), want


def pipelines(module):
    tiles, threads = 5, range(64)
    given = [i * 7919 % 1000 for i in range(64 * tiles)]
    want = [sum(given[c * 64 + 63 - t] * (c + 1) for c in range(tiles)) for t in threads]
    want += [(t + 7) % 64 for t in threads]
    return run(module, "pipelines", 1, 64, 128, upload(given), after=(tiles,)), want


def cub_blocks(module):
    keys = [(i * 2654435761 & WORD) >> 7 for i in range(512)]
    got = run(module, "cub_blocks", 1, 128, 1312)
    want = [max(t * 37 % 101 for t in range(100)), sum(t % 11 for t in range(128))] + [0] * 126
    want += [sum(u % 11 for u in range(t)) for t in range(128)]
    want += sorted(range(512), key=lambda i: (-keys[i], i))
    want += [sum(i * 7 % 32 == k for i in range(512)) for k in range(32)]
    want += sorted(i * 7919 % 1009 for i in range(384))
    want += [min(u ^ 5 for u in range(t // 32 * 32, t + 1)) for t in range(128)]
    return got, want


def ackermann(m, n):
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))


def calls(module):
    threads = range(64)
    want = [t * t if t & 1 else 3 * t * t for t in threads]
    want += [ackermann(2, t % 4) for t in threads]
    want += [t * 3 if t & 1 else t + 3 for t in threads]
    want += [sum(range(4 * (t + 1))) for t in threads]
    return run(module, "calls", 1, 64, 256), want


def signed(word, bits=32):
    word &= (1 << bits) - 1
    return word - (1 << bits) if word >> (bits - 1) else word


def parts(word, n, sign):
    bits = 32 // n
    each = [word >> bits * i & (1 << bits) - 1 for i in range(n)]
    return [signed(e, bits) if sign else e for e in each]


def joined(values):
    bits = 32 // len(values)
    return sum((int(v) & (1 << bits) - 1) << bits * i for i, v in enumerate(values))


def simd(module):
    want = [[] for _ in range(10)]
    every = 0
    for t in range(32):
        every ^= t * 2654435761 & WORD
    for t in range(32):
        a, b = t * 2654435761 & WORD, (~t & WORD) * 40503 + 77 & WORD
        two = list(zip(parts(a, 2, True), parts(b, 2, True), parts(a ^ b, 2, True)))
        four = list(zip(parts(a, 4, True), parts(b, 4, True)))
        plain = list(zip(parts(a, 4, False), parts(b, 4, False)))
        found = [joined([p + q for p, q, _ in two]),
                 joined([max(-128, min(127, p + q)) for p, q in four]),
                 joined([abs(p - q) for p, q in plain]),
                 joined([max(p, q) for p, q, _ in two]),
                 sum(abs(p - q) for p, q in plain),
                 joined([-1 if p > q else 0 for p, q, _ in two]),
                 joined([(p + q + 1) // 2 for p, q in plain]),
                 joined([max(three) for three in two]),
                 sum(p * q for p, q in four) + 5, every]
        for row, value in zip(want, found):
            row.append(signed(value))
    return run(module, "simd", 1, 32, 320), sum(want, [])


def clusters(module):
    want = [(b % 4 + 1) % 4 * 1000 + 63 - t for b in range(8) for t in range(64)]
    return run(module, "clusters", 8, 64, 514), want + [4 * sum(range(64))] * 2


def bulk(module):
    given = list(range(256))
    return run(module, "bulk", 1, 128, 256, upload(given)), [2 * v + 1 for v in given]


def main():
    tests = [groups, pipelines, cub_blocks, calls, simd] + ([clusters, bulk] if ARCH >= 90 else [])
    failed, module = 0, start()
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        try:
            got, want = test(module)
            pairs = enumerate(zip(got, want))
            wrong = [f"word {i} is {g}, not {w}" for i, (g, w) in pairs if g != w]
        except RuntimeError as error:
            wrong = [str(error)]
        failed += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} - {test.__name__} sm_{ARCH}")
        print("".join(f"# {text}\n" for text in wrong[:3]), end="")
    return failed > 0


sys.exit(main())
