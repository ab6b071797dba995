"""table_beside.py: the tables of what is measured beside PyTorch: networks, attention, the block,
steps of training."""
from cells import known, number, ratio, table


def grouped(lines, *keys):
    """The lines of each job, in order."""
    groups = {}
    for line in lines:
        job = tuple(str(line.get(key, "-")) for key in keys)
        groups.setdefault(job, []).append(line)
    return groups


def times(lines):
    """Of one job: milliseconds by variant, and PyTorch's best (None: there is none)."""
    ms = {line.get("variant"): line["ms"] for line in lines if known(line.get("ms"))}
    return ms, min((line["ms"] for line in lines
                    if line.get("who") == "torch" and known(line.get("ms"))), default=None)


def not_measured(groups):
    """What is missing, and why: for each reason the jobs."""
    why = {}
    for job, lines in groups.items():
        for line in lines:
            if "missing" in line:
                why.setdefault((line.get("variant"), line["missing"]), []).append(" ".join(job))
    told = sorted(f"{variant} ({', '.join(jobs)}): {text}" for (variant, text), jobs in why.items())
    return f"\n\nNot measured: {'; '.join(told)}." if told else ""


def with_commits(text, head, rows, commits):
    """A table with its caption, which says which commit of nngen was measured: one for all rows, or
    a column of them. Of results that are not stored none is known."""
    if len(set(commits)) > 1:
        head, rows = head + ["commit"], [row + [commit] for row, commit in zip(rows, commits)]
    elif commits[0] != "-":
        text += f"; commit {commits[0]}"
    return f"{text}:\n\n{table(head, rows)}"


def commit_of(lines):
    return next((line.get("commit", "-") for line in lines if line.get("variant") == "graph"), "-")


def networks(result):
    groups = {}
    for line in result.get("networks", []):
        groups.setdefault((line.get("model", "-"), line.get("dtype", "-"), line.get("batch")),
                          []).append(line)
    columns = ["graph", "graph, tuned", "launched", "eager", "eager channels_last",
               "eager channels_last, graph", "compile", "compile, graph"]
    rows, commits, instead = [], [], False
    for (model, dtype, batch), lines in groups.items():
        ms, best = times(lines)
        if "graph" not in ms:
            continue
        cells = [number(ms.get(c)) for c in columns]
        if "reduce-overhead" in ms and "compile, graph" not in ms:
            cells[-1], instead = number(ms["reduce-overhead"]) + " (ro)", True
        ratios = [ratio(best, ms["graph"], 2, "x"), ratio(best, ms.get("graph, tuned"), 2, "x")]
        rows.append([model, dtype, str(batch)] + cells + ratios
                    + [number(batch / ms["graph"] * 1e3 if known(batch) else None)])
        commits.append(commit_of(lines))
    head = ["network", "dtype", "batch", "nngen, graph", "nngen tuned, graph", "nngen", "eager",
            "channels_last", "the same, graph", "max-autotune", "the same, graph",
            "best peer / nngen", "best peer / tuned", "images/s"]
    absent = sorted({f"{line.get('model')} {line.get('dtype')} batch {line.get('batch')}, "
                     f"{line.get('variant')}: {line['missing']}"
                     for line in result.get("networks", []) if "missing" in line})
    more = ("\n\n(ro): `torch.compile` mode=reduce-overhead, with its own CUDA graphs, where "
            "max-autotune did not end in time.") if instead else ""
    more += f"\n\nNot measured: {'; '.join(absent)}." if absent else ""
    text = ("Inference, milliseconds per batch, medians; nngen with the tiles of its cost model; "
            "`tuned`: with the fastest that `nngen tune` measured")
    return (with_commits(text, head, rows, commits) if rows else "") + more


def attention(result):
    """TFLOP/s; a causal form counts half of the products."""
    groups = grouped(result.get("attention", []), "shape", "causal", "dtype")
    rows, commits, jobs = [], [], {}
    for lines in groups.values():
        ms, best = times(lines)
        shape, flops = lines[0].get("shape") or ["-"] * 4, lines[0].get("flops")
        batch, heads, tokens, size = map(str, shape)
        dtype, form = lines[0].get("dtype", "-"), "causal" if lines[0].get("causal") else "plain"
        jobs[(dtype, form, f"{batch}x{heads}x{tokens}x{size}")] = lines
        if "graph" in ms:
            rows.append([size, tokens, batch, heads, form, dtype, number(ms["graph"])]
                        + [ratio(flops, ms.get(who), 0, "", 1e-9)
                           for who in ("graph", "flash", "cuDNN")]
                        + [ratio(best, ms["graph"], 2, "x")])
            commits.append(commit_of(lines))
    head = ["head", "tokens", "batch", "heads", "form", "dtype", "nngen ms", "nngen TFLOP/s",
            "flash", "cuDNN", "best peer / nngen"]
    text = ("Attention forward next to the kernels of PyTorch's `scaled_dot_product_attention`, in "
            "replayed graphs; TFLOP/s (causal: half of the FLOP)")
    return (with_commits(text, head, rows, commits) if rows else "") + not_measured(jobs)


VARIANTS = ["graph", "eager", "eager, graph", "compile", "compile, graph"]
PEERS = ["nngen", "eager", "the same, graph", "torch.compile", "the same, graph",
         "best peer / nngen"]


def steps(lines, keys, head, text, per_second):
    groups, rows, commits, instead = grouped(lines, *keys), [], [], False
    for job, some in groups.items():
        ms, best = times(some)
        if "graph" not in ms:
            continue
        cells = [number(ms.get(variant)) for variant in VARIANTS]
        if "reduce-overhead" in ms and "compile, graph" not in ms:
            cells[-1], instead = number(ms["reduce-overhead"]) + " (ro)", True
        batch = some[0].get("batch")
        rows.append([*job, *cells, ratio(best, ms["graph"], 2, "x"),
                     ratio(batch, ms["graph"], 0, "", 1e3)])
        commits.append(commit_of(some))
    more = "\n\n(ro): mode=reduce-overhead, with its own CUDA graphs." if instead else ""
    return ((with_commits(text, [*head, *PEERS, per_second], rows, commits) if rows else "") + more
            + not_measured(groups))


def block(result):
    return steps(result.get("block", []), ("what", "dtype", "batch"), ["block", "dtype", "batch"],
                 "The transformer block (2048 tokens of width 1024, 32 heads of 32), milliseconds "
                 "per run; nngen: a replayed graph; PyTorch: training under autocast, fp16 with a "
                 "dynamic loss scale; torch.compile: max-autotune in inference, the default mode "
                 "in training", "examples/s")


def training(result):
    return steps(result.get("training", []), ("model", "stem", "dtype", "batch"),
                 ["network", "stem", "dtype", "batch"],
                 "One training step, forward to update, milliseconds; nngen: a replayed graph; "
                 "PyTorch: channels_last, 16 bits under autocast, fp16 with a dynamic loss scale",
                 "images/s")


def parts(result):
    return {"networks": networks(result), "attention": attention(result), "block": block(result),
            "training": training(result)}
