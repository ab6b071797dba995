"""beside.py: the stages of gpu.py that measure attention and whole models beside PyTorch.

A stage has jobs, the most important first; one that does not fit into what is left of its time is
left out. Contenders of a job take turns, three times unless --turns says otherwise. nngen's times
lie between device events around a replayed graph; PyTorch's too where a variant says "graph".
"""
import json
import os
import statistics
import time

from asking import OverTime, Peers

BATCHES = (1, 32, 256)
HALVES = ("bf16", "fp16")
FALLING_BACK = ("max-autotune", "reduce-overhead")

# Batch, heads, tokens, size of a head: WORKLOADS C's block at batch 8; then 16 384 tokens of width
# 2048, as published figures have them.
ATTENTION = [(8, 32, 2048, 32), (8, 32, 2048, 64), (8, 16, 2048, 128), (4, 32, 4096, 64),
             (4, 16, 4096, 128), (1, 32, 16384, 64), (1, 16, 16384, 128), (4, 64, 4096, 32),
             (1, 64, 16384, 32)]

# A learning rate so small that values stay as they began, however often a step is made: times
# depend on the data, by the power that it takes.
STILL = 1e-9


def block_jobs():
    """(what, dtype, batch, modes of torch.compile). Inference is compiled after the rest of a
    dtype: max-autotune takes long."""
    jobs = []
    for dtype in HALVES:
        jobs += [(what, dtype, batch, modes) for batch in (1, 8, 2, 4)
                 for what, modes in (("inference", ()), ("training", ("default",)))]
        jobs += [("inference", dtype, batch, FALLING_BACK) for batch in (1, 8, 2, 4)]
    return jobs


def training_jobs():
    """(model, stem, dtype, batch, modes of torch.compile)."""
    dtypes, compiled = ("tf32", "bf16", "fp16"), ("default",)
    first, second = ([(model, "cifar", dtype, 128) for dtype in dtypes]
                     for model in ("resnet18", "resnet34"))
    others = [("resnet18", "cifar", dtype, batch) for batch in (32, 256) for dtype in dtypes]
    others += [("resnet34", "cifar", dtype, batch) for batch in (32, 256) for dtype in dtypes]
    others += [(model, "imagenet", dtype, batch) for model in ("resnet18", "resnet34")
               for batch in (128, 32, 256) for dtype in dtypes]
    return ([(*job, ()) for job in first] + [(*job, compiled) for job in first]
            + [(*job, ()) for job in second + others]
            + [(*job, compiled) for job in second + others])


class Beside:
    """Methods of gpu.py's Bench."""

    # ---- one contender, and all in turns ---------------------------------------------------------

    def nngen_run(self, model, dtype, settings, *options, runs=100):
        """Milliseconds of each of `runs` runs of the model's entry."""
        command = ["build/nngen", "run", model, "--dtype", dtype, "--json", "--quiet", "--no-check",
                   "--repeat", "2" if self.dry else str(runs), "--warmup", str(runs // 5), *options,
                   "--set", *(f"{name}={value}" for name, value in settings.items())]
        return json.loads(self.run(*command))["timing"]["samples_ms"]

    def nngen_samples(self, model, dtype, batch, graph, tuned=False):
        settings = dict(batch=batch, **({"size": 32} if self.dry else {}))
        options = (["--graph"] if graph else []) + (["--tuning", self.tuning] if tuned else [])
        return self.nngen_run(f"models/{model}.lua", dtype, settings, *options)

    def in_turns(self, ours, peers, runs=30):
        """The samples of each contender: `ours` says of each of nngen's a function that gives
        samples, and whether it is asked for in each turn, or in the first alone."""
        samples = {}
        for turn in range(1 if self.dry else self.options.turns):
            for variant, (measure, each_turn) in ours.items():
                if each_turn or turn == 0:
                    samples.setdefault(("nngen", variant), []).append(measure())
            for line in peers.ask(do="sample", runs=2 if self.dry else runs):
                if "variant" in line:
                    samples.setdefault(("torch", line["variant"]), []).append(line["samples_ms"])
        return samples

    def keep(self, stage, of, samples, prepared):
        """Rows of the stage's result, in place of earlier ones of the same contender."""
        rows = [dict(of, who=who, variant=variant,
                     ms=statistics.median(s for turn in turns for s in turn), samples_ms=turns)
                for (who, variant), turns in samples.items()]
        for row in rows:
            if row["who"] == "nngen":
                row["tiles"] = "tuned" if row["variant"].endswith("tuned") else "model"
        rows += [dict(of, who="torch", variant=line["missing"], missing=line["why"])
                 for line in prepared if "missing" in line]
        again = {(row["who"], row["variant"]) for row in rows if "ms" in row}
        kept = [row for row in self.result[stage] if any(row[key] != of[key] for key in of)
                or ((row["who"], row["variant"]) not in again and "ms" in row)]
        self.result[stage] = kept + rows

    def measure_jobs(self, stage, jobs, name, measure):
        """Each job that there is time for; those that came to nothing are told. The last of a job's
        fields: whether, or how, it asks for torch.compile."""
        self.result[stage] = []
        if not self.peers or self.peers.absent:
            self.peers = Peers(self)
        peers = self.peers
        took, missed, left_out = 8, [], []
        for job in (j for j in jobs if self.options.jobs.search(name(j))):
            begin, spent = time.monotonic(), peers.compile_seconds
            if self.left() < 1.2 * took + (20 if job[-1] and not self.dry else 0):
                left_out.append(name(job))
                continue
            try:
                measure(peers, *job)
                took = time.monotonic() - begin - (peers.compile_seconds - spent)
            except (OverTime, RuntimeError, OSError, ValueError, KeyError) as error:
                missed.append(f"{name(job)}: {error}")
            peers.ask(do="forget")
            peers.renew()
            self.clocks(name(job))
            self.store(unfinished=stage)
        if left_out:
            more = f" and {len(left_out) - 4} more" if len(left_out) > 4 else ""
            missed.append(f"left out: {', '.join(left_out[:4])}{more}")
        if missed:
            raise OverTime("; ".join(missed))

    # ---- the stages ------------------------------------------------------------------------------

    def networks(self):
        """First nngen beside PyTorch as it is, for ResNet-18 in fp16; then the same with
        torch.compile, in place of the first figures; then the other networks, without it."""
        key = [("resnet18", "fp16", b) for b in BATCHES]
        jobs = [(*k, False) for k in key] + [(*k, True) for k in key]
        jobs += [(m, d, b, False)
                 for m, d in (("resnet34", "fp16"), ("resnet18", "bf16"), ("resnet34", "bf16"))
                 for b in BATCHES]
        self.measure_jobs("networks", [("resnet18", "fp32", 1, True)] if self.dry else jobs,
                          lambda job: "{} {} batch {}".format(*job)
                          + (" with torch.compile" if job[-1] else ""), self.measure_network)

    def measure_network(self, peers, model, dtype, batch, compiled):
        """nngen with the cost model's tiles, with the tuned ones (ResNet-34 has ResNet-18's
        shapes), then each variant of PyTorch."""
        prepared = peers.prepare(FALLING_BACK if compiled else (), model=model, batch=batch,
                                 dtype=dtype, size=32 if self.dry else 224)

        def ours(*how):
            return lambda: self.nngen_samples(model, dtype, batch, *how)
        contenders = {"graph": (ours(True), True), "launched": (ours(False), False)}
        if (dtype, batch) in self.tuned and os.path.exists(self.tuning):
            contenders["graph, tuned"] = (ours(True, True), True)
        self.keep("networks", {"model": model, "dtype": dtype, "batch": batch},
                  self.in_turns(contenders, peers), prepared)

    def attention(self):
        """Forward, plain and causal, beside the two fused kernels that PyTorch calls."""
        jobs = [(shape, causal, dtype, False) for dtype in HALVES for shape in ATTENTION
                for causal in (False, True)]
        dry = [((1, 1, 32, 32), True, "fp16", False)]
        self.measure_jobs("attention", dry if self.dry else jobs,
                          lambda job: "{} {}{}".format(
                              "x".join(map(str, job[0])), job[2], " causal" if job[1] else ""),
                          self.measure_attention)

    def measure_attention(self, peers, shape, causal, dtype, _):
        batch, heads, tokens, size = shape
        prepared = peers.prepare((), do="attention", shape=shape, causal=causal, dtype=dtype)
        settings = {"form": "causal" if causal else "plain", "B": batch, "H": heads, "G": heads,
                    "N": tokens, "M": tokens, "D": size, "W": size, "stored": dtype}
        flops = 4 * batch * heads * tokens * tokens * size // (2 if causal else 1)
        samples = self.in_turns(
            {"graph": (lambda: self.nngen_run("tests/models/attend.lua", dtype, settings,
                                              "--graph"), True)}, peers)
        self.keep("attention", {"shape": list(shape), "causal": causal, "dtype": dtype,
                                "flops": flops}, samples, prepared)

    def block(self):
        """The attention block of WORKLOADS C in 16 bits: inference, and a step of training."""
        jobs = [("inference", "bf16", 1, FALLING_BACK), ("training", "bf16", 1, ("default",))]
        self.measure_jobs("block", jobs if self.dry else block_jobs(),
                          lambda job: "{} {} batch {}".format(*job)
                          + (" with torch.compile" if job[-1] else ""), self.measure_block)

    def measure_block(self, peers, what, dtype, batch, modes):
        sizes = ({"tokens": 32, "width": 32, "heads": 1} if self.dry else
                 {"tokens": 2048, "width": 1024, "heads": 32})
        settings = dict(sizes, batch=batch)
        entry = "infer"
        if what == "training":
            entry = "train"
            settings.update(lr=STILL, loss_scaling="true" if dtype == "fp16" else "false")
        prepared = peers.prepare(modes, do="block", training=what == "training", batch=batch,
                                 dtype=dtype, lr=STILL, **sizes)
        samples = self.in_turns(
            {"graph": (lambda: self.nngen_run("models/block.lua", dtype, settings, "--graph",
                                              "--entry", entry, runs=50), True)}, peers)
        self.keep("block", {"what": what, "dtype": dtype, "batch": batch}, samples, prepared)

    def training(self):
        """One step of a ResNet, forward to update, first without torch.compile."""
        dry = [("resnet18", "cifar", "bf16", 2, ("default",))]
        self.measure_jobs("training", dry if self.dry else training_jobs(),
                          lambda job: "{} {} {} batch {}".format(*job)
                          + (" with torch.compile" if job[-1] else ""), self.measure_training)

    def measure_training(self, peers, model, stem, dtype, batch, modes):
        size, classes = (32, 10) if stem == "cifar" else (224, 1000)
        size = 8 if self.dry else size
        prepared = peers.prepare(modes, do="training", model=model, stem=stem, batch=batch,
                                 dtype=dtype, size=size, classes=classes, lr=STILL)
        settings = dict(batch=batch, stem=stem, size=size, classes=classes, augment="false",
                        lr=STILL, loss_scaling="true" if dtype == "fp16" else "false",
                        **({"width": 8} if self.dry else {}))
        samples = self.in_turns(
            {"graph": (lambda: self.nngen_run(f"models/{model}.lua", dtype, settings, "--graph",
                                              "--entry", "train", runs=25), True)}, peers, runs=15)
        self.keep("training", {"model": model, "stem": stem, "dtype": dtype, "batch": batch},
                  samples, prepared)
