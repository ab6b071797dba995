#!/usr/bin/env python3
"""Figures of GPUs, as Markdown tables, from the stored results of `make bench DEVICE=cuda`.

usage: table.py [FILE.json]              the tables of one result, or of the newest stored
       table.py --readme FILE...         puts each of the newest into the file that has its place,
                                         <!-- gpu NAME begins -->, <!-- gpu NAME ends --> (place.py)

Without a stored result there is one line: not measured yet. Nothing here is computed from anything
but the samples in the file.
"""
import argparse
import glob
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import place  # noqa: E402
import table_beside  # noqa: E402
from cells import fixed, geomean, known, ratio, table  # noqa: E402

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")
NOTHING = "Times on GPUs: not measured yet."


# ---- parts ---------------------------------------------------------------------------------------

def opening(result):
    peers = result.get("peers") or {}
    clocks = [c for c in result.get("clocks", []) if str(c.get("clocks.sm", "")).isdigit()]
    facts = [result.get("device", "no device"), result.get("gpu"),
             f"PyTorch {peers['torch']}" if "torch" in peers else None,
             f"commit {(result.get('commit') or 'unknown')[:10]}", result.get("date")]
    if clocks:
        speeds = [int(c["clocks.sm"]) for c in clocks]
        facts.append(f"SM clock between stages {min(speeds)} to {max(speeds)} MHz, not locked")
    text = "Measured on " + "; ".join(f for f in facts if f) + "."
    if result.get("dry_run"):
        text = "**Dry run on libcusim and the CPU: these are no figures of a GPU.**"
    if result.get("synthetic"):
        text = "**Synthetic figures, made up for a test: nothing was measured.**"
    return text


def origins(result):
    """What was measured with other commits than the newest."""
    text = ""
    for commit, names in result.get("earlier", {}).items():
        text += f" Of commit {(commit or 'unknown')[:10]}: {', '.join(names)}."
    for commit, added in result.get("jobs_of", {}).items():
        text += (f" Rows that this commit was not measured for are of commit {commit[:10]}: "
                 f"{', '.join(f'{name} ({count})' for name, count in added.items())}.")
    for commit, names in result.get("peers_of", {}).items():
        text += (f" PyTorch's times, where missing, as with commit {commit[:10]}: "
                 f"{', '.join(names)}.")
    return text.strip()


def stages(result):
    cut = [f"{s.get('name', '-')}: {s['note']}" for s in result.get("stages", []) if s.get("note")]
    lines = [f"Tests on the device: {result['tests']}."] if result.get("tests") else []
    lines += [f"Failed: {'; '.join(result['failed_tests'])}."] if result.get("failed_tests") else []
    return "\n".join(lines + [f"Not all was measured: {'; '.join(cut)}." if cut else ""]).strip()


def ceilings(result):
    rows = []
    for line in result.get("ceilings", []):
        name, us = line.get("name", "-"), line.get("us")
        if "missing" in line:
            rows.append([name, f"not measured: {line['missing']}"])
        elif line.get("bytes"):
            rows.append([name, ratio(line["bytes"], us, 2, " TB/s, read and write", 1e-6)])
        elif line.get("flops"):
            rows.append([f"{name}, {line.get('who', '-')}",
                         ratio(line["flops"], us, 0, " TFLOP/s", 1e-6)])
        else:
            rows.append([name, f"{fixed(us)} us a launch; "
                               f"{fixed(line.get('enqueue_us'))} us of the host"])
    return table(["ceiling", "figure"], rows) if rows else ""


def pairs(lines):
    """(nngen's line, the library's or None) of each shape, in order."""
    found = {}
    for line in lines:
        key = (line.get("dtype"), line.get("batch"), line.get("gemm"), line.get("name"))
        found.setdefault(key, [None, None])[0 if line.get("who") == "nngen" else 1] = line
    return [(a, b) for a, b in found.values() if a]


def contraction_rows(lines, label):
    rows = []
    for ours, theirs in pairs(lines):
        if ours.get("missing"):
            continue
        us, library = ours.get("us"), (theirs or {}).get("us")
        rows.append([label(ours), ours.get("name") or "-", ours.get("tile") or "-", fixed(us),
                     ratio(ours.get("flops"), us, 0, "", 1e-6), fixed(ours.get("model_us")),
                     fixed(library) if known(library) else "-", ratio(library, us, 2, "x")])
    return rows


HEAD = ["layer", "shape", "tile", "nngen us", "TFLOP/s", "model us", "library us",
        "library / nngen"]


def contractions(result, whole):
    lines = result.get("contractions", [])
    if not lines:
        return "", ""
    out, batches = [], sorted({(line.get("dtype", "-"), line.get("batch", 0)) for line in lines})
    means = []
    left_out = [line for line in lines if "missing" in line and line.get("who") == "nngen"]
    lines = [line for line in lines if line not in left_out]
    for dtype, batch in batches:
        some = [line for line in lines
                if (line.get("dtype", "-"), line.get("batch", 0)) == (dtype, batch)]
        ratios = [b["us"] / a["us"] for a, b in pairs(some)
                  if b and known(b.get("us")) and known(a.get("us"))]
        close = geomean([b["us"] / a["us"] for a, b in pairs(some)
                         if b and known(b.get("us")) and known(a.get("us"))
                         and "stride 1x1" in (a.get("name") or "")])
        mean = geomean(ratios)
        means.append([dtype, str(batch), str(len(pairs(some))),
                      f"{mean:.2f}x" if mean else "not measured",
                      f"{close:.2f}x" if close else "-",
                      f"{min(ratios):.2f}x" if ratios else "-"])
        if whole or (dtype, batch) == ("fp16", 32):
            out.append(f"ResNet contractions, {dtype}, "
                       f"batch {batch} (nngen with its cost model's tiles and the fused epilogue, "
                       "cuDNN the convolution only, by its v7 API, whose strided 16-bit "
                       "convolutions are slow: ratios of strided layers overstate nngen):\n\n"
                       + table(HEAD, contraction_rows(some, lambda line: line.get("layer") or "-")))
    if left_out:
        missing = sorted({f"{line.get('name')} at batch {line.get('batch')}: {line['missing']}"
                          for line in left_out})
        out.append(f"Not among them: {'; '.join(missing)}.")
    return (table(["contractions", "batch", "shapes", "library / nngen, geometric mean",
                   "of convolutions with stride 1", "worst"], means), "\n\n".join(out))


def gemms(result, whole):
    lines = result.get("gemms", [])
    if not whole:
        lines = [line for line in lines if line.get("dtype") == "bf16"]
    rows = contraction_rows(lines,
                            lambda line: f"{line.get('gemm', '-')}, batch {line.get('batch', '-')}")
    return ("Matrix products (attention block, large squares):\n\n" + table(HEAD, rows)
            if rows else "")


def tune(result):
    t = result.get("tune")
    if not t:
        return ""
    us = [fixed(t.get(key), 1) for key in ("us_by_model", "us_by_best")]
    by = [fixed(t.get(key)) for key in ("modelled_by_measured", "worst_modelled_by_measured")]
    return (f"Cost model, ResNet-18 fp16 batch 1: its tiles take {us[0]} us, "
            f"the fastest measured {us[1]} us; modelled / measured "
            f"{by[0]} in the geometric mean, {by[1]} at worst.")


def parts(result, whole=False):
    """The tables by name, some of them empty; "machine" says what was measured on."""
    if not result:
        return {"machine": NOTHING}
    means, shapes = contractions(result, whole)
    return {"machine": opening(result), "origins": origins(result), "stages": stages(result),
            **table_beside.parts(result), "contractions": means, "shapes": shapes,
            "gemms": gemms(result, whole), "ceilings": ceilings(result), "tune": tune(result)}


def text(result, whole=False):
    return "\n\n".join(part for part in parts(result, whole).values() if part)


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


STAGES = {"tests": ["tests", "failed_tests"], "ceilings": ["ceilings"], "gemms": ["gemms"],
          "contractions": ["contractions"],
          "tune": ["tune"],
          **{name: [name, "peers"] for name in ("networks", "attention", "block", "training")}}


def worth(result, name):
    """How much of a stage a result has: (0, 0) nothing; (1, lines) cut short or failed; (2, 0) all
    of it."""
    data = result.get(STAGES[name][0])
    if not data or data in ("not run", "not finished"):
        return 0, 0
    stage = next((s for s in result.get("stages", []) if s.get("name") == name), {})
    return (1, len(data)) if stage.get("note") else (2, 0)


def join(results):
    """One result of several of the same device and commit, oldest first: of each stage the last
    whole one, or the longest that was cut short, and jobs that others have besides. An empty or
    failed stage replaces nothing."""
    joined, of = {"stages": [], "clocks": []}, {}
    kept = {key for keys in STAGES.values() for key in keys} | {"stages", "clocks"}
    for result in results:
        joined.update({key: value for key, value in result.items() if key not in kept and value})
        joined["clocks"] += result.get("clocks", [])
        for name in STAGES:
            new, old = worth(result, name), worth(of.get(name, {}), name)
            if name not in of or new[0] == 2 or new > old:
                if new[0] or any(s.get("name") == name for s in result.get("stages", [])):
                    of[name] = result
    for name, result in of.items():
        joined.update({key: result[key] for key in STAGES[name] if key in result
                       and not (key == "peers" and "torch" in joined.get("peers", {}))})
        joined["stages"] += [s for s in result.get("stages", []) if s.get("name") == name]
    for result in results:
        fill_jobs(joined, result)
    return joined


BESIDE = ("networks", "attention", "block", "training")
JOB = ("what", "model", "stem", "dtype", "batch", "shape", "causal")


def job_of(line):
    return json.dumps([line.get(key) for key in JOB])


def fill_jobs(result, other):
    """Adds the jobs that only the other result has; rows then follow each other as there. Returns
    how many jobs were added to each stage."""
    added = {}
    for name in BESIDE:
        lines, others = result.get(name) or [], other.get(name) or []
        mine = {job_of(line) for line in lines}
        found = [line for line in others if job_of(line) not in mine]
        if lines and found:
            order = list(dict.fromkeys(map(job_of, others + lines)))
            result[name] = sorted(lines + found, key=lambda line: order.index(job_of(line)))
            added[name] = len({job_of(line) for line in found})
    return added


def fill_peers(result, earlier):
    """PyTorch's times, which are not of our commits, of jobs that have none in the newest result:
    those of the same PyTorch, measured with an earlier commit."""
    if (result.get("peers") or {}).get("torch") != (earlier.get("peers") or {}).get("torch"):
        return
    for name in BESIDE:
        lines = result.get(name) or []
        timed = {job_of(line) for line in lines if line.get("who") == "torch" and "ms" in line}
        ours = {job_of(line) for line in lines if line.get("who") == "nngen"} - timed
        found = [line for line in earlier.get(name) or []
                 if line.get("who") == "torch" and "ms" in line and job_of(line) in ours]
        if found:
            result[name] = lines + found
            result.setdefault("peers_of", {}).setdefault(earlier["commit"], []).append(name)


def newest(folder):
    stored = [read(path) for path in glob.glob(os.path.join(folder, "*.json"))]
    for result in stored:
        if result.get("dry_run") or result.get("synthetic"):
            sys.exit("table: a dry run or a synthetic result is among the stored ones; remove it")
    stored = [result for result in stored if any(worth(result, name)[0] for name in STAGES)]
    if not stored:
        return None
    stored.sort(key=lambda result: result.get("date") or "")
    commits = []  # the newest first; each with its results
    for last in reversed(stored):
        if last.get("commit") not in commits:
            commits.append(last.get("commit"))
    device = stored[-1].get("device")
    for result in stored:
        for line in (line for name in BESIDE for line in result.get(name) or []):
            line["commit"] = (result.get("commit") or "unknown")[:10]
    of = [join([r for r in stored if r.get("device") == device and r.get("commit") == commit])
          for commit in commits]
    result = of[0]
    for commit, earlier in zip(commits[1:], of[1:]):  # what the newest did not measure
        for name, keys in STAGES.items():
            if worth(earlier, name)[0] and not worth(result, name)[0]:
                result.update({key: earlier[key] for key in keys
                               if key in earlier and key != "peers"})
                result["stages"] = [s for s in result["stages"] if s.get("name") != name]
                result["stages"] += [s for s in earlier["stages"] if s.get("name") == name]
                result.setdefault("earlier", {}).setdefault(commit, []).append(name)
        fill_peers(result, earlier)
        added = fill_jobs(result, earlier)
        if added:
            result.setdefault("jobs_of", {})[commit] = added
    return result


def main():
    parser = argparse.ArgumentParser(description="Markdown of GPU results")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--readme", nargs="+")
    parser.add_argument("--results", default=RESULTS)
    parser.add_argument("--whole", action="store_true", help="every shape")
    options = parser.parse_args()
    result = read(options.file) if options.file else newest(options.results)
    if not options.readme:
        print(text(result, options.whole))
        return
    if result and (result.get("dry_run") or result.get("synthetic")):
        sys.exit("table: a dry run or a synthetic result does not go into a README")
    left = place.place("gpu", parts(result, options.whole), options.readme)
    if left:
        sys.exit(f"table: {', '.join(left)}: no place in {', '.join(options.readme)}")


if __name__ == "__main__":
    main()
