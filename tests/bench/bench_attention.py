#!/usr/bin/env python3
"""bench_attention.py [--quick] [PART...]: the figures of attention, as Markdown tables.

bench.sh puts them into README.md and tests/bench/README.md. Parts: block arena tiles spills error
instructions modelled simulated; none named: all. --quick: tiny sizes and the caller's kernel cache,
for tests. Nothing here gates anything. Needs no GPU: figures are planned, compiled for a GPU that
need not be there, or computed on libcusim.
"""
import glob, json, os, random, re, shutil, struct, subprocess, sys, tempfile, time

from place import part

BLOCK, ATTEND = "models/block.lua", "tests/models/attend.lua"
WANTED = {"fp16": 2e-3, "bf16": 1e-2, "fp32": 1e-5}  # relative L2 error
# Of the forms blocks and documents in attend.lua, which has ids below 4.
BLOCK_TOKENS, DOCUMENTS = 16, 4


class Sizes:
    block = []  # settings of models/block.lua beside its own
    arena = (512, 1024, 2048, 4096, 8192, 16384)
    heads = 4  # more would be over 2^31 scores at the most tokens
    tiles = 4096
    window = 256
    depths = (16, 32, 64, 80, 96, 128, 256)
    archs = ("sm_80", "sm_90a", "sm_100a")
    dtypes = ("fp16", "bf16", "fp32")
    compiled = 2048  # tokens of kernels that are compiled, not run
    checked = 2048
    checked_depths = (32, 64, 128)
    unrolled_depths = (32, 64, 128)
    batches = (1, 8)
    simulated = 256
    generated = 200


class Quick(Sizes):
    block = ["tokens=64", "width=64", "heads=2"]
    arena = (64, 128)
    tiles = 512
    window = 64
    depths = (16,)
    archs = ("sm_80",)
    dtypes = ("fp16",)
    compiled = 512
    checked = 32
    checked_depths = (16,)
    unrolled_depths = (16,)
    batches = (1, 2)
    simulated = 16
    generated = 50


def nngen(*arguments, codes=(0,)):
    done = subprocess.run(["build/nngen", *arguments], capture_output=True, text=True)
    if done.returncode not in codes:
        sys.exit(f"nngen {' '.join(arguments)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def nngen_json(*arguments, **options):
    return json.loads(nngen(*arguments, **options))


def settings(form, tokens, depth, heads=1, **more):
    values = dict(form=form, B=1, H=heads, G=heads, N=tokens, M=tokens, D=depth, W=depth, **more)
    return ["--set", *[f"{name}={value}" for name, value in values.items()]]


def block_settings(sizes, *more):
    chosen = [*sizes.block, *more]
    return ["--set", *chosen] if chosen else []


def table(name, caption, head, rows):
    part(name)
    print(f"{caption}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")


def has_nvrtc():
    return not re.search(r"^NVRTC +not found", nngen("doctor", codes=(0, 3, 4)), re.M)


def megabytes(count):
    return f"{count / 1e6:.1f}" if count < 1e8 else f"{count / 1e6:.0f}"


def block(sizes):
    rows = []
    for name, options in (("fused", []), ("`--no-flash`", ["--no-flash"]),
                          ("`--lowering unfused`", ["--lowering", "unfused"])):
        plan = nngen_json("show", BLOCK, "--plan", "--dtype", "fp16", *options,
                          *block_settings(sizes))
        infer = next(e for e in plan["entries"] if e["name"] == "infer")
        kernels = [plan["kernels"][s["kernel"]] for s in infer["steps"] if s["kind"] == "launch"]
        rows.append((name, len(kernels), sum(k["bytes_read"] + k["bytes_written"] for k in kernels),
                     plan["arena_bytes"]))
    fused = rows[0]
    table("block", "The transformer block of models/block.lua, fp16, batch 1 (in parentheses: "
          "relative to the fused form):",
          ("form", "kernels", "planned MB", "arena MB"),
          [(name, kernels, f"{megabytes(traffic)} ({traffic / fused[2]:.2f}x)",
            f"{megabytes(arena)} ({arena / fused[3]:.2f}x)")
           for name, kernels, traffic, arena in rows])


def arena(sizes):
    rows, before = [], None
    for tokens in sizes.arena:
        now = [nngen_json("show", ATTEND, "--plan", "--dtype", "fp16", *options,
                          *settings("plain", tokens, 32, sizes.heads))["arena_bytes"]
               for options in ([], ["--no-flash"])]
        cells = [megabytes(a) + (f" ({a / b:.2f}x)" if b else "")
                 for a, b in zip(now, before or (0, 0))]
        rows.append((tokens, *cells))
        before = now
    table("arena", f"Arena of attention, fp16, {sizes.heads} heads of 32 (in parentheses: "
          "relative to the row above):",
          ("tokens", "fused MB", "`--no-flash` MB"), rows)


def shares(form, sizes):  # of tiles, in percent: skipped, with conditions, plain
    text = nngen(ATTEND, "--quiet", "--dtype", "fp16", "--explain", "matmul",
                 *settings(form, sizes.tiles, 64, window=sizes.window))
    found = re.search(r"tiles of scores: ([\d.]+) % skipped, ([\d.]+) % with conditions, "
                      r"([\d.]+) % plain", text)
    if not found:
        sys.exit(f"no tiles of scores of {form} in:\n{text}")
    return found.groups()


def store(path, shape, kind, values):  # as .npy; kind: i of 4 bytes or f
    header = f"{{'descr': '<{kind}4', 'fortran_order': False, 'shape': {shape}}}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        f.write(struct.pack(f"<{len(values)}{kind}", *values))


# By form=documents, as libcusim counts; and its blocks.
def bytes_read(ids_of_rows, ids_of_keys, depth, work):
    n = len(ids_of_rows)
    store(f"{work}/rows.npy", (1, 1, n, 1), "i", ids_of_rows)
    store(f"{work}/keys.npy", (1, 1, 1, n), "i", ids_of_keys)
    run = nngen_json(ATTEND, "--quiet", "--json", "--no-check", "--count", "--dtype", "fp16",
                     "--input", f"of_row={work}/rows.npy", "--input", f"of_key={work}/keys.npy",
                     *settings("documents", n, depth))
    kernel = next(k for k in run["kernels"] if k["template"] == "attend")
    parts = int(kernel["tile"].partition("/")[2] or 1)  # of the keys, a block's each
    return kernel["counted"]["bytes_read"], kernel["grid"][0] // parts


def documents(sizes, work):
    """Percent of tiles that a run skips, by what it reads of k and v; and of scores that are
    masked.

    The documents end where tiles do: in a tile with the condition, ids would be read for each
    score too.
    """
    n, depth, length = sizes.tiles, 64, sizes.tiles // DOCUMENTS
    ids = [token // length for token in range(n)]
    none, _ = bytes_read([0] * n, [1] * n, depth, work)  # no tile
    some, blocks = bytes_read(ids, ids, depth, work)
    every_tile = blocks * n * 2 * depth * 2  # each block all k and v, of 2 bytes
    return (length, 100 * (1 - (some - none) / every_tile),
            100 * (1 - DOCUMENTS * length ** 2 / n ** 2))


def tiles(sizes, work):
    n = sizes.tiles
    visible = {"causal": lambda row: row + 1,
               f"window {sizes.window}": lambda row: min(row + 1, sizes.window),
               f"blocks of {BLOCK_TOKENS}":
                   lambda row: min(BLOCK_TOKENS, n - row // BLOCK_TOKENS * BLOCK_TOKENS)}
    rows = []
    for name, keys in visible.items():
        masked = 1 - sum(keys(row) for row in range(n)) / n ** 2
        rows.append((name, *shares(name.split()[0], sizes), f"{100 * masked:.1f}"))
    table("tiles", f"Attention: score tiles by kind, fp16, {n} tokens, heads of 64, in % of all "
          "tiles:",
          ("mask", "skipped", "masked element by element", "without a mask",
           "scores masked, exactly"), rows)
    before, conditions, _ = shares("documents", sizes)
    length, skipped, masked = documents(sizes, work)
    print("\nDocument ids are runtime data, so their tiles are classified at run time: at compile "
          f"time {before} % are skipped, {conditions} % are masked element by element. A run with "
          f"{DOCUMENTS} documents of {length} tokens, which end at tile borders, skips "
          f"{skipped:.1f} % by the bytes that libcusim counts; {masked:.1f} % of the scores are "
          "masked.")


def compiled(form, arch, dtype, depth, sizes, *more):
    kernels = nngen_json(ATTEND, "--json", "--quiet", "--arch", arch, "--dtype", dtype, *more,
                         *settings(form, sizes.compiled, depth, 8))["kernels"]
    if any(k["spill_bytes"] < 0 or k["registers"] < 0 for k in kernels):
        sys.exit(f"no registers or spills of kernels for {arch}")
    return kernels


def spills(sizes):
    rows = []
    for arch in sizes.archs:
        for dtype in sizes.dtypes:
            kernels = [k for depth in sizes.depths
                       for k in compiled("causal", arch, dtype, depth, sizes)]
            attention = [k["registers"] for k in kernels if k["template"] == "attend"]
            rows.append((f"{arch}, {dtype}", len(attention), len(kernels) - len(attention),
                         sum(k["spill_bytes"] > 0 for k in kernels), max(attention)))
    table("attention_spills", "Causal attention compiled for heads of "
          f"{', '.join(map(str, sizes.depths))} (target: no spills):",
          ("GPU, dtype", "attention kernels", "copies before them", "kernels that spill",
           "registers at most"), rows)


def error(sizes, work):
    """Against the oracle, which reads the same q, k and v of the kernel's dtype."""
    rows, noise, n = [], random.Random(0), sizes.checked
    # Inputs of one shape are one noise: with it q, k and v would be the same.
    for depth in sizes.checked_depths:
        for name in "kv":
            store(f"{work}/{name}{depth}.npy", (1, 1, n, depth), "f",
                  [noise.gauss(0, 1) for _ in range(n * depth)])
    store(f"{work}/rows.npy", (1, 1, n, 1), "i", [row % 4 for row in range(n)])
    store(f"{work}/keys.npy", (1, 1, 1, n), "i", [key % 3 for key in range(n)])  # none of 3
    documents = [word for name, file in (("row", "rows"), ("key", "keys"))
                 for word in ("--input", f"of_{name}={work}/{file}.npy")]
    for dtype in sizes.dtypes:
        for depth in sizes.checked_depths:
            errors = []
            for form, inputs in (("plain", []), ("steep", []), ("documents", documents)):
                run = nngen_json(ATTEND, "--quiet", "--json", "--check", "--dtype", dtype,
                                 "--input", f"k={work}/k{depth}.npy",
                                 "--input", f"v={work}/v{depth}.npy", *inputs,
                                 *settings(form, n, depth, stored=dtype.replace("fp", "f")))
                errors.append(next(o["error"] for o in run["outputs"] if o["name"] == "y"))
            rows.append((dtype, depth, *[f"{e:.2e}" for e in errors], f"{WANTED[dtype]:.0e}"))
    table("error", f"Relative L2 error of attention against the oracle, {n} queries and keys, on "
          "libcusim (steep: scores with standard deviation 20; no key: a quarter of the queries "
          "has no visible key and yields zeros):",
          ("dtype", "head size", "plain", "steep", "no key", "target, at most"), rows)


def disassembler():
    foreign = glob.glob("build/foreign/env/lib/python3*/site-packages/triton/backends/nvidia/bin")
    where = os.pathsep.join([os.environ.get("PATH", ""), *foreign])
    for name, option in (("nvdisasm", "-c"), ("cuobjdump", "-sass")):
        found = shutil.which(name, path=where)
        if found:
            return [found, option]
    return None


# Of a warp, 16 x 8 x 16: an HMMA is one, an HGMMA of 64 x N x 16, of four warps, N / 8.
def products_of(instruction):
    group = re.search(r"\bHGMMA\.64x(\d+)x16\b", instruction)
    return int(group[1]) // 8 if group else bool(re.search(r"\bHMMA\b", instruction))


def main_loop(sass):
    """The shortest of the loops with the most products: (instructions, those of its shortest way,
    products of 16 x 8 x 16).

    A loop is what lies between a branch and its target before it, and does not end the kernel: a
    label of nvdisasm's, an address of cuobjdump's. The shortest way through it takes all its branches ahead, but for those around
    products and copies to shared memory.
    """
    place, labels, instructions = {}, {}, []
    for line in sass.splitlines():
        if label := re.match(r"(\.L\w+):", line):
            labels[label[1]] = len(instructions)
        elif found := re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line):
            place[int(found[1], 16)] = len(instructions)
            instructions.append(found[2])

    def target(text):
        found = re.search(r"\bBRA\b.*?(?:(\.L\w+)|\b0x([0-9a-f]+))", text)
        return found and (labels.get(found[1]) if found[1] else place.get(int(found[2], 16)))

    def leaves(text):  # waits that are not over at once stand behind the end, and jump back
        return re.match(r"(@!?U?P\w+\s+)?EXIT\b", text)

    loops = []
    for at, text in enumerate(instructions):
        begin = target(text)
        if begin is not None and begin <= at and not any(map(leaves, instructions[begin:at])):
            loops.append((sum(map(products_of, instructions[begin:at + 1])), begin - at, begin, at))
    products, _, begin, at = max(loops, default=(0, 0, 0, 0))
    if not products:
        sys.exit("no loop with products in the machine code of attention")
    ways = {at: 1}  # instructions from each to the end
    for i in range(at - 1, begin - 1, -1):
        to = target(instructions[i])
        ahead = to is not None and i < to <= at
        skips = ahead and not any(products_of(t) or t.startswith("LDGSTS")
                                  for t in instructions[i + 1:to])
        ways[i] = 1 + (min(ways[i + 1], ways[to]) if skips else ways[i + 1])
    return at + 1 - begin, ways[begin], products


def unrolled(tool, cubin):
    done = subprocess.run([*tool, cubin], capture_output=True, text=True, check=True)
    return main_loop(done.stdout)


# Triton's flash attention by head size: (tile, instructions, of them on the shortest way,
# products), the best of what it tries.
def tritons(tool, arch, depths, work):
    work = f"{work}/triton_{arch}"
    os.makedirs(work)
    python = "build/foreign/env/bin/python"
    done = os.path.exists(python) and subprocess.run(
        [python, "tests/foreign/triton_flash.py", work, re.search(r"\d+", arch)[0],
         *map(str, depths)], capture_output=True,
        env={**os.environ, "TRITON_CACHE_DIR": f"{work}/triton", "TRITON_DEFAULT_FP_FUSION": "1"})
    best = {}
    for path in glob.glob(f"{work}/flash_*.cubin") if done and done.returncode == 0 else []:
        depth, tile, warps = re.search(r"flash_(\d+)_(\d+x\d+)_(\d+)", path).groups()
        length, way, products = unrolled(tool, path)
        ratio = way / products
        if int(depth) not in best or ratio < best[int(depth)][0]:
            rows, keys = tile.split("x")
            tile = f"{rows} rows x {keys} keys, {warps} warps"
            best[int(depth)] = ratio, tile, length, way, products
    return {depth: found[1:] for depth, found in best.items()}


def beside_triton(tool, sizes, work):
    rows = []
    for arch in ("sm_80", "sm_90a"):
        peers = tritons(tool, arch, sizes.unrolled_depths, work)
        for depth, (tile, length, way, products) in sorted(peers.items()):
            dump = f"{work}/{arch}_{depth}"
            kernel = next(k for k in compiled("plain", arch, "fp16", depth, sizes, "--dump", dump)
                          if k["template"] == "attend")
            own, own_way, own_products = unrolled(tool, f"{dump}/{kernel['name']}.cubin")
            rows.append((f"{arch}, {depth}", kernel["tile"], f"{own}, {own_way}",
                         f"{own_way / own_products:.2f}", tile, f"{length}, {way}",
                         f"{way / products:.2f}",
                         f"{own_way / own_products / (way / products):.2f}"))
    if not rows:
        part("triton")
        print("Triton's flash attention: its wheel is not in build/foreign (`make test-foreign`).")
        return
    table("triton", "Attention: instructions of the main loop per mma, next to Triton 3.9's flash "
          "attention (tests/foreign/triton_kernels.py, the best of twelve tiles), plain, fp16:",
          ("GPU, head size", "tile", "instructions, shortest path", "per mma",
           "Triton's tile", "instructions, shortest path", "per mma", "ratio"), rows)


def instructions(sizes, work):
    tool, rows = disassembler(), []
    if not tool:
        part("instructions")
        print("Instructions of the main loop: neither nvdisasm nor cuobjdump is installed.")
        return
    for form in ("plain", "causal"):
        for depth in sizes.unrolled_depths:
            dump = f"{work}/{form}{depth}"
            kernel = next(k for k in compiled(form, "sm_90a", "fp16", depth, sizes, "--dump", dump)
                          if k["template"] == "attend")
            length, way, products = unrolled(tool, f"{dump}/{kernel['name']}.cubin")
            rows.append((f"{form}, {depth}", kernel["tile"], length, way, products,
                         f"{way / products:.2f}"))
    table("instructions", "Attention: SASS instructions of the main loop, sm_90a, fp16: static "
          "counts, including rarely executed paths (rescaling; for causal attention both the "
          "masked and the unmasked body). The shortest path leaves these out. An mma is "
          "16 x 8 x 16, one HMMA; an HGMMA of four warps, 64 x N x 16, counts as N / 8 of them for "
          "each warp:",
          ("form, head size", "tile", "instructions", "on the shortest path", "mma",
           "instructions per mma"), rows)
    beside_triton(tool, sizes, work)


def modelled(sizes):
    rows = []
    for batch in sizes.batches:
        costs = nngen_json("show", BLOCK, "--costs", "--json", "--dtype", "fp16",
                           *block_settings(sizes, f"batch={batch}"))
        attention = next(k for k in costs["kernels"] if k["layer"].endswith("attention"))
        for name, of in (("block", costs), ("its attention", attention)):
            rows.append((name, batch, f"{of['modelled_us']:.0f}", f"{of['floor_us']:.0f}",
                         f"{of['modelled_us'] / of['floor_us']:.2f}"))
    table("block_modelled", "The block, modelled for an H200, fp16, not measured (floor: each "
          "kernel's FLOP at 790 TFLOP/s or bytes at 4.3 TB/s):",
          ("what", "batch", "modelled us", "floor us", "ratio"), rows)


def simulated(sizes):
    begin = time.monotonic()
    run = nngen_json(BLOCK, "--json", "--quiet", "--no-check", "--dtype", "fp16",
                     *block_settings(sizes, f"tokens={sizes.simulated}"))
    whole, kernels = time.monotonic() - begin, sum(k["ms"] for k in run["kernels"]) / 1000
    table("block_simulated", f"The block on libcusim, fp16, {sizes.simulated} tokens, unchecked:",
          ("what", "s"),
          [("whole run, empty kernel cache", f"{whole:.2f}"), ("its kernels", f"{kernels:.2f}")])
    generated(sizes)


def generated(sizes):
    """A token is a replay of the entry next: the seconds of many less those of a few, warm."""
    rows = []
    for dtype in ("fp32", "fp16"):
        seconds = []
        for steps in (1, 1, 1 + sizes.generated):  # the first one compiles
            begin = time.monotonic()
            nngen("models/gpt2.lua", "--entry", "next", "--graph", "--steps", str(steps), "--quiet",
                  "--no-check", "--dtype", dtype, "--set", "positions=256")
            seconds.append(time.monotonic() - begin)
        rows.append((dtype, f"{sizes.generated / (seconds[2] - seconds[1]):.0f}"))
    table("tokens", "Tokens that a tiny GPT-2 (2 layers, width 24) generates on libcusim, one "
          "graph replay each:",
          ("precision", "tokens/s"), rows)


def main(arguments):
    sizes = Quick if "--quick" in arguments else Sizes
    parts = {"block": block, "arena": arena, "tiles": tiles, "spills": spills, "error": error,
             "instructions": instructions, "modelled": modelled, "simulated": simulated}
    named = [a for a in arguments if a != "--quick"]
    if unknown := [a for a in named if a not in parts]:
        sys.exit(f"no part {unknown[0]}; parts: {' '.join(parts)}")
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    os.environ.update(NNGEN_DEVICE="sim", NO_COLOR="1")
    nvrtc = has_nvrtc()
    with tempfile.TemporaryDirectory() as work:
        if sizes is Sizes or "XDG_CACHE_HOME" not in os.environ:
            os.environ["XDG_CACHE_HOME"] = f"{work}/cache"
        for name in named or parts:
            if name in ("spills", "instructions") and not nvrtc:
                part("attention_spills" if name == "spills" else name)
                print(f"Attention, {name}: NVRTC is not installed.")
            elif name in ("tiles", "error", "instructions"):
                parts[name](sizes, work)
            else:
                parts[name](sizes)
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
