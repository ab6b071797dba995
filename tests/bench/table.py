#!/usr/bin/env python3
"""The README's figures of GPUs, as Markdown, from the stored results of `make bench DEVICE=cuda`.

usage: table.py [FILE.json]              the tables of one result, or of the newest stored
       table.py --readme README.md       puts the newest between <!-- gpu begins --> and <!-- gpu ends -->

Without a stored result there is one line: not measured yet. Nothing here is computed from anything
but the samples in the file.
"""
import argparse
import glob
import json
import math
import os
import re
import sys

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")
NOTHING = "Times on GPUs: not measured yet."


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def number(value, unit="", digits=3):
    return f"{value:.{digits}g}{unit}" if value and value < 10 ** digits else f"{value:.0f}{unit}"


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


# ---- parts ---------------------------------------------------------------------------------------

def opening(result):
    peers, clocks = result.get("peers", {}), [c for c in result.get("clocks", []) if c.get("clocks.sm", "").isdigit()]
    facts = [result.get("device", "no device"), result.get("gpu"), f"PyTorch {peers['torch']}" if "torch" in peers else None,
             f"commit {result.get('commit', 'unknown')[:10]}", result.get("date")]
    if clocks:
        speeds = [int(c["clocks.sm"]) for c in clocks]
        facts.append(f"SM clock between stages {min(speeds)} to {max(speeds)} MHz, as found")
    text = "Measured on " + "; ".join(f for f in facts if f) + "."
    if result.get("dry_run"):
        text = "**Dry run on libcusim and the CPU: these are no figures of a GPU.**"
    if result.get("synthetic"):
        text = "**Synthetic figures, made up for a test: nothing was measured.**"
    return text


def stages(result):
    cut = [f"{s['name']}: {s['note']}" for s in result.get("stages", []) if s.get("note")]
    lines = [f"Tests on the device: {result['tests']}."] if result.get("tests") else []
    lines += [f"Failed: {'; '.join(result['failed_tests'])}."] if result.get("failed_tests") else []
    return "\n".join(lines + [f"Not all was measured: {'; '.join(cut)}." if cut else ""]).strip()


def ceilings(result):
    rows = []
    for line in result.get("ceilings", []):
        if "missing" in line:
            rows.append([line["name"], f"not measured: {line['missing']}"])
        elif line.get("bytes"):
            rows.append([line["name"], f"{line['bytes'] / line['us'] * 1e-6:.2f} TB/s, read and write"])
        elif line.get("flops"):
            rows.append([f"{line['name']}, {line['who']}", f"{line['flops'] / line['us'] * 1e-6:.0f} TFLOP/s"])
        else:
            rows.append([line["name"], f"{line['us']:.2f} us a launch; {line['enqueue_us']:.2f} us of the host"])
    return table(["ceiling", "figure"], rows) if rows else ""


def networks(result):
    groups = {}
    for line in result.get("networks", []):
        groups.setdefault((line["model"], line["dtype"], line["batch"]), []).append(line)
    columns = ["graph", "launched", "eager", "eager channels_last", "eager channels_last, graph", "compile", "compile, graph"]
    rows = []
    for (model, dtype, batch), lines in groups.items():
        ms = {line["variant"]: line["ms"] for line in lines if "ms" in line}
        peers = [line["ms"] for line in lines if line["who"] == "torch" and "ms" in line]
        if "graph" not in ms:
            continue
        ratio = f"{min(peers) / ms['graph']:.2f}x" if peers else "-"
        rows.append([model, dtype, str(batch)] + [number(ms[c]) if c in ms else "-" for c in columns]
                    + [ratio, number(batch / ms["graph"] * 1e3)])
    head = ["network", "dtype", "batch", "nngen, graph", "nngen", "eager", "channels_last", "the same, graph", "max-autotune",
            "the same, graph", "best peer / nngen", "images/s"]
    absent = sorted({f"{line['model']} {line['dtype']} batch {line['batch']}, {line['variant']}: {line['missing']}"
                     for line in result.get("networks", []) if "missing" in line})
    more = f"\n\nNot measured: {'; '.join(absent)}." if absent else ""
    return "Milliseconds a batch, medians:\n\n" + table(head, rows) + more if rows else ""


def pairs(lines):
    """(nngen's line, the library's or None) of each shape, in order."""
    found = {}
    for line in lines:
        key = (line["dtype"], line.get("batch"), line["name"])
        found.setdefault(key, [None, None])[0 if line["who"] == "nngen" else 1] = line
    return [(a, b) for a, b in found.values() if a]


def contraction_rows(lines, label):
    rows = []
    for ours, theirs in pairs(lines):
        rate = ours["flops"] / ours["us"] * 1e-6 if ours["us"] else 0
        measured = theirs and "missing" not in theirs and theirs["us"] > 0 and ours["us"] > 0
        rows.append([label(ours), ours["name"], ours["tile"], f"{ours['us']:.2f}", f"{rate:.0f}", f"{ours['model_us']:.2f}",
                     f"{theirs['us']:.2f}" if measured else "-", f"{theirs['us'] / ours['us']:.2f}x" if measured else "-"])
    return rows


HEAD = ["layer", "shape", "tile", "nngen us", "TFLOP/s", "model us", "library us", "library / nngen"]


def contractions(result, whole):
    lines = result.get("contractions", [])
    if not lines:
        return ""
    out, batches = [], sorted({(line["dtype"], line["batch"]) for line in lines})
    means = []
    for dtype, batch in batches:
        some = [line for line in lines if (line["dtype"], line["batch"]) == (dtype, batch)]
        ratios = [b["us"] / a["us"] for a, b in pairs(some) if b and b["us"] > 0 and a["us"] > 0]
        mean = geomean(ratios)
        means.append([dtype, str(batch), str(len(pairs(some))), f"{mean:.2f}x" if mean else "not measured",
                      f"{min(ratios):.2f}x" if ratios else "-"])
        if whole or (dtype, batch) == ("fp16", 32):
            out.append(f"ResNet contractions, {dtype}, batch {batch} (nngen with its fused epilogue, cuDNN the convolution alone):\n\n"
                       + table(HEAD, contraction_rows(some, lambda line: line["layer"])))
    out.insert(0, table(["contractions", "batch", "shapes", "library / nngen, geometric mean", "worst"], means))
    return "\n\n".join(out)


def gemms(result, whole):
    lines = result.get("gemms", [])
    if not whole:
        lines = [line for line in lines if line["dtype"] == "bf16"]
    rows = contraction_rows(lines, lambda line: f"{line['gemm']}, batch {line['batch']}")
    return "Matrix products (attention block, large squares):\n\n" + table(HEAD, rows) if rows else ""


def tune(result):
    t = result.get("tune")
    if not t:
        return ""
    return (f"Cost model, ResNet-18 fp16 batch 1: its tiles take {t['us_by_model']:.1f} us, the fastest measured "
            f"{t['us_by_best']:.1f} us; modelled / measured {t['modelled_by_measured']:.2f} in the geometric mean, "
            f"{t['worst_modelled_by_measured']:.2f} at worst.")


def text(result, whole=False):
    parts = [opening(result), stages(result), networks(result), contractions(result, whole), gemms(result, whole),
             ceilings(result), tune(result)]
    return "\n\n".join(part for part in parts if part)


# ---- files ---------------------------------------------------------------------------------------

def read(path):
    try:
        with open(path) as f:
            result = json.load(f)
    except (OSError, ValueError) as why:
        sys.exit(f"table: {path}: {why}")
    if not isinstance(result, dict) or result.get("schema_version") != 1:
        sys.exit(f"table: {path}: no result of make bench DEVICE=cuda (schema_version 1)")
    return result


def newest(folder):
    stored = [read(path) for path in glob.glob(os.path.join(folder, "*.json"))]
    for result in stored:
        if result.get("dry_run") or result.get("synthetic"):
            sys.exit("table: a dry run or a synthetic result is among the stored ones; remove it")
    if not stored:
        return None
    stored.sort(key=lambda result: result.get("date", ""))
    last, joined = stored[-1], {}
    for result in stored:  # stages that were run one by one
        if all(result.get(key) == last.get(key) for key in ("device", "commit")):
            stages = joined.get("stages", [])
            names = {stage["name"] for stage in result.get("stages", [])}
            joined.update(result)
            joined["stages"] = [stage for stage in stages if stage["name"] not in names] + result.get("stages", [])
    return joined


def main():
    parser = argparse.ArgumentParser(description="Markdown of GPU results")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--readme")
    parser.add_argument("--results", default=RESULTS)
    parser.add_argument("--whole", action="store_true", help="every shape")
    options = parser.parse_args()
    result = read(options.file) if options.file else newest(options.results)
    out = text(result, options.whole) if result else NOTHING
    if not options.readme:
        print(out)
        return
    if result and (result.get("dry_run") or result.get("synthetic")):
        sys.exit("table: a dry run or a synthetic result does not go into a README")
    with open(options.readme) as f:
        old = f.read()
    new, count = re.subn(r"(<!-- gpu begins -->\n).*?(<!-- gpu ends -->)", lambda m: m[1] + out + "\n" + m[2], old, flags=re.S)
    if not count:
        sys.exit(f"table: {options.readme} has no <!-- gpu begins --> ... <!-- gpu ends -->")
    with open(options.readme, "w") as f:
        f.write(new)


if __name__ == "__main__":
    main()
