#!/usr/bin/env python3
"""bench_training.py [--quick] [PART...]: the figures of whole steps of training, as Markdown
tables.

bench.sh puts them into README.md and tests/bench/README.md. Parts: plans memory tokens spills cpu
learning; none named: all. --quick: small sizes, for tests. Nothing here gates anything. Needs no
GPU: figures are planned, modelled for an H200, of machine code that NVRTC makes, or what tests of training measure.
"""
import json, os, subprocess, sys, tempfile, time

from place import part

STEPS = (("ResNet-18, 32x32, batch 128", "resnet18", (), ("fp32", "bf16")),
         ("ResNet-34, 32x32, batch 128", "resnet34", (), ("fp32", "bf16")),
         ("ResNet-18, 224x224, batch 256", "resnet18",
          ("stem=imagenet", "size=224", "batch=256"), ("bf16",)),
         ("ResNeXt-50, 224x224, batch 128", "resnext50_32x4d",
          ("stem=imagenet", "batch=128"), ("bf16",)),
         ("EfficientNet-B0, 224x224, batch 128", "efficientnet_b0", ("size=224", "batch=128"),
          ("bf16",)),
         ("ConvNeXt-T, 224x224, batch 128", "convnext_tiny", ("size=224", "batch=128"), ("bf16",)),
         ("ViT-B/16, 224x224, batch 128", "vit", ("size=b_16", "batch=128"), ("bf16",)),
         ("autoencoder, batch 128", "autoencoder", (), ("fp32", "bf16")),
         ("transformer block, batch 8", "block", ("batch=8",), ("bf16",)),
         ("GPT of 2 layers, 8 x 1024 tokens of 50304", "tests/models/gpt_step",
          ("batch=8", "tokens=1024", "width=768", "heads=12", "layers=2", "vocabulary=50304"),
          ("bf16",)))
QUICK = (("ResNet-18, 8x8, batch 2", "resnet18", ("size=8", "width=8", "batch=2"), ("fp32",)),)
ARCHS, TIMED = ("sm_80", "sm_90a", "sm_100a"), "sm_90a"


def nngen(*arguments):
    done = subprocess.run(["build/nngen", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"nngen {' '.join(arguments)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def arguments(model, dtype, settings):
    path = model if "/" in model else f"models/{model}"
    return [f"{path}.lua", "--entry", "train", "--dtype", dtype,
            *(["--set", *settings] if settings else [])]


def plan(model, dtype, settings, lowering, options=()):
    """Launches, planned bytes and the arena of the entry train."""
    made = json.loads(nngen("show", *arguments(model, dtype, settings), "--lowering",
                            lowering, "--plan", *options))
    steps = next(e for e in made["entries"] if e["name"] == "train")["steps"]
    kernels = [made["kernels"][s["kernel"]] for s in steps if s["kind"] == "launch"]
    return kernels, sum(k["bytes_read"] + k["bytes_written"] for k in kernels), made


def modelled(model, dtype, settings, names, options=()):
    costs = json.loads(nngen("show", *arguments(model, dtype, settings), "--costs", "--json",
                             *options))
    mine = [k for k in costs["kernels"] if k["name"] in names]
    return sum(k["modelled_us"] for k in mine) / 1e3, sum(k["floor_us"] for k in mine) / 1e3


def plans(steps):
    part("steps")
    print("Whole training steps (entry `train`); times and floors of all kernels are the cost "
          "model's for an H200, not measured:\n")
    print("| step | precision | kernels | unfused | GB moved | unfused | fewer | arena MB | "
          "of its bound | modelled ms | floor ms |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for title, model, settings, dtypes in steps:
        for dtype in dtypes:
            kernels, moved, made = plan(model, dtype, settings, "fused")
            single, once, _ = plan(model, dtype, settings, "unfused")
            ms, floor = modelled(model, dtype, settings, {k["name"] for k in kernels})
            print(f"| {title} | {dtype} | {len(kernels)} | {len(single)} | {moved / 1e9:.2f} | "
                  f"{once / 1e9:.2f} | {once / moved:.2f}x | {made['arena_bytes'] / 1e6:.0f} | "
                  f"{made['arena_bytes'] / made['arena_bound']:.3f} | {ms:.2f} | {floor:.2f} |")


def memory(steps):
    """The arena of a step under a limit of half of it, and the operations that this adds."""
    part("steps_memory")
    print("Training steps whose values between kernels may take half their memory (`--memory`):\n")
    print("| step | precision | arena MB | with half of it | operations | modelled ms | "
          "with half of it |")
    print("|---|---|---|---|---|---|---|")
    for title, model, settings, dtype in ((*step[:3], d) for step in steps[:2] for d in step[3]):
        kernels, _, made = plan(model, dtype, settings, "fused")
        ms, _ = modelled(model, dtype, settings, {k["name"] for k in kernels})
        limit = ("--memory", str(made["arena_bytes"] // 2))
        try:
            again, _, half = plan(model, dtype, settings, "fused", limit)
        except SystemExit: # the least that recomputation reaches is more
            print(f"| {title} | {dtype} | {made['arena_bytes'] / 1e6:.2g} | not reached | | "
                  f"{ms:.2f} | |")
            continue
        slower, _ = modelled(model, dtype, settings, {k["name"] for k in again}, limit)
        flops = sum(k["flops"] for k in again) / sum(k["flops"] for k in kernels)
        print(f"| {title} | {dtype} | {made['arena_bytes'] / 1e6:.0f} | "
              f"{half['arena_bytes'] / 1e6:.0f} | {flops:.2f}x | {ms:.2f} | {slower:.2f} |")


def measured_by(test, **settings):
    """The lines of figures that a test writes which passes, as words."""
    with tempfile.NamedTemporaryFile("r") as figures:
        done = subprocess.run(["bash", f"tests/train/{test}"], capture_output=True, text=True,
                              env={**os.environ, "NNGEN_FIGURES": figures.name,
                                   "NNGEN_TEST_LONG": "1", "NNGEN_TEST_TURN": "all", **settings})
        failed = [line for line in done.stdout.splitlines() if line.startswith("not ok")]
        if failed or done.returncode:
            sys.exit(f"{test}: " + "; ".join(failed or [done.stderr]))
        return [line.rstrip("\n").split("\t") for line in figures]


def learning(steps):
    """Losses beside PyTorch's, of one batch that is overfitted, and of runs that are killed."""
    figures = measured_by("test_accuracy.sh") + measured_by("test_resume.sh",
                                                            NNGEN_TEST_KILLS="100")
    part("beside_pytorch")
    print("A small ResNet-18 compared with PyTorch in double precision, from the same weights and "
          "batches:\n")
    print("| precision | pictures | steps | max. relative error of the loss | of all weights after "
          "the last step |\n|---|---|---|---|---|")
    beside = [f for f in figures if f[0] == "beside"]
    if not beside:
        print("| not measured: there is no torch | | | | |")
    for _, precision, size, count, loss, weights in beside:
        name = f"`{precision}`" if precision.startswith("-") else precision
        print(f"| {name} | {size} | {count} | {loss} | {weights} |")
    part("overfitted")
    print("One batch, overfitted on libcusim (target: a loss below 0.01):\n")
    print("| model | steps | loss |\n|---|---|---|")
    for _, model, loss, count in (f for f in figures if f[0] == "overfitted"):
        print(f"| `{model}.lua` | {count} | {float(loss):.4f} |")
    part("killed")
    _, killed, runs = next(f for f in figures if f[0] == "killed")
    print(f"{runs} training runs were killed (`kill -9`) {killed} times at random moments and "
          "resumed; each ended bit-identical to an uninterrupted run.")


def tokens(steps):
    """Scores in memory or not, in a step of the block: its arena and time, by tokens."""
    part("step_tokens")
    print("A training step of the transformer block, bf16, batch 1: fused attention forward and "
          "backward, and scores in memory (`--no-flash`):\n")
    print("| tokens | arena MB | `--no-flash` | modelled ms | `--no-flash` |")
    print("|---|---|---|---|---|")
    for count in (512, 1024) if steps is QUICK else (512, 1024, 2048, 4096):
        row = []
        for flags in ((), ("--no-flash",)):
            model = [*arguments("block", "bf16", [f"tokens={count}"]), *flags]
            made = json.loads(nngen("show", *model, "--plan"))
            mine = next(e for e in made["entries"] if e["name"] == "train")["steps"]
            names = {made["kernels"][s["kernel"]]["name"] for s in mine if s["kind"] == "launch"}
            costs = json.loads(nngen("show", *model, "--costs", "--json"))
            row.append((made["arena_bytes"] / 1e6,
                        sum(k["modelled_us"] for k in costs["kernels"]
                            if k["name"] in names) / 1e3))
        print(f"| {count} | {row[0][0]:.0f} | {row[1][0]:.0f} ({row[1][0] / row[0][0]:.1f}x) | "
              f"{row[0][1]:.2f} | {row[1][1]:.2f} ({row[1][1] / row[0][1]:.1f}x) |")


def compiled(model, dtype, settings, arch):
    """The kernels of a step, the seconds that compiling them takes with an empty cache and with a
    full one, and how many distinct ones there are."""
    seconds, made = [], []
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(2):
            begin = time.monotonic()
            made.append(json.loads(nngen("run", *arguments(model, dtype, settings), "--arch", arch,
                                         "--json", "--quiet", "--cache-dir", cache)))
            seconds.append(time.monotonic() - begin)
            if arch != TIMED:
                break
    return made[0]["kernels"], seconds, made[0]["compiled"]


def spills(steps):
    """Of the kernels of a step: how many spill registers, and how long compiling them all takes."""
    part("steps_compiled")
    print("Kernels of a step that spill registers, and seconds to compile all of them with an "
          f"empty and with a full cache, for {TIMED} (targets: 15 s, 0.3 s):\n")
    print("| step | precision | " + " | ".join(f"spills, {arch}" for arch in ARCHS) +
          " | distinct kernels | empty cache, s | full cache, s |")
    print("|---|---|" + "---|" * (len(ARCHS) + 3))
    for title, model, settings, dtypes in steps[:1]:
        for dtype in dtypes:
            found, timed, distinct = [], [0, 0], 0
            for arch in ARCHS:
                kernels, seconds, count = compiled(model, dtype, settings, arch)
                if arch == TIMED:
                    timed, distinct = seconds, count
                found.append(f"{sum(k.get('spill_bytes', 0) > 0 for k in kernels)} of "
                             f"{len(kernels)}")
            print(f"| {title} | {dtype} | " + " | ".join(found) + f" | {distinct} | "
                  f"{timed[0]:.1f} | {timed[1]:.2f} |")


def on_cpu(steps):
    """Images a second of a step on libcusim, beside PyTorch eager on the same cores, where Debian's
    torch is installed."""
    _, model, settings, _ = steps[0]
    small = dict(s.split("=") for s in settings)
    size, batch = int(small.get("size", 32)), int(small.get("batch", 8))
    with tempfile.TemporaryDirectory() as folder:
        made = nngen("train", f"models/{model}.lua", "--data", "synthetic", "--batch", str(batch),
                     "--steps", "2", "--out-dir", folder + "/run", "--quiet", "--json",
                     *(["--set", f"size={size}"] if size != 32 else []))
    ours = json.loads(made[made.index("{"):])["summary"]["ms_step"]
    part("step_on_cpu")
    print(f"A training step of ResNet-18 at {size}x{size}, fp32, batch {batch}, on the CPU "
          "(libcusim runs every thread of the GPU's kernels: this is test time, not GPU "
          "performance):\n")
    print("| on | images/s |\n|---|---|")
    print(f"| libcusim | {batch / ours * 1e3:.2f} |")
    asked = [{"do": "info"}, {"do": "training", "model": model, "stem": "cifar", "batch": batch,
                              "dtype": "tf32", "size": size}, {"do": "sample", "runs": 3},
             {"do": "quit"}]
    peer = subprocess.run(["/usr/bin/python3", "tests/bench/peers.py", "--device", "cpu"],
                          input="\n".join(map(json.dumps, asked)), capture_output=True, text=True)
    said = [json.loads(line) for line in peer.stdout.splitlines() if line.startswith("{")]
    times = {s["variant"]: min(s["samples_ms"]) for s in said if s.get("samples_ms")}
    if not times:
        print("| PyTorch eager | not measured: there is no torch |")
        return
    ms = min(times.values())
    info = next(s for s in said if "torch" in s)
    print(f"| PyTorch {info['torch']} eager, threads: {info['threads']} | {batch / ms * 1e3:.1f} "
          f"({ours / ms:.0f}x) |")


def main():
    words = sys.argv[1:]
    steps = QUICK if "--quick" in words else STEPS
    parts = [w for w in words if w != "--quick"] or [
        "plans", "memory", "tokens", "spills", "cpu", "learning"]
    for name in parts:
        {"plans": plans, "memory": memory, "tokens": tokens, "spills": spills, "cpu": on_cpu,
         "learning": learning}[name](steps)


if __name__ == "__main__":
    main()
