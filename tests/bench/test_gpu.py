#!/usr/bin/env python3
"""test_gpu.py CASE FOLDER: one case of test_bench.sh, about gpu.py or table.py; asserts."""
import glob
import json
import os
import re
import signal
import subprocess
import sys
import time
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import asking  # noqa: E402
import gpu  # noqa: E402
import table  # noqa: E402

CASE, WORK = sys.argv[1:3]
NNGEN = {"name": "n", "who": "nngen", "us": 1, "dtype": "bf16", "batch": 1}


def bench(only=None, seconds=100, dry=False, jobs=""):
    b = gpu.Bench(types.SimpleNamespace(results=WORK + "/results", dry_run=dry, turns=3, cache=None,
                                        seconds=seconds, only=only, jobs=re.compile(jobs)))
    if not dry:
        b.result.update(device="Made-up GPU, sm_00", date="2000-01-01 00:00", commit="0123456789")
        for stage in ("facts", *gpu.SHARES):
            setattr(b, stage, lambda: None)
    return b


def stored(runs=1):  # of the last run; of one minute the first has the shortest name
    paths = sorted(glob.glob(WORK + "/results/*.json"), key=lambda path: (len(path), path))
    assert len(paths) == runs, paths
    with open(paths[-1]) as f:
        return json.load(f)


def each_stage_is_stored():  # also when a later one is killed, and when the table breaks
    b = bench()
    b.ceilings = lambda: b.result.update(ceilings=[{"name": "copy", "us": 0, "bytes": 1}])

    def dies():
        assert stored()["ceilings"], "not stored before the next stage"
        os.kill(os.getpid(), signal.SIGKILL)
    b.contractions = dies
    child = os.fork()
    if not child:
        b.all()
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert stored()["ceilings"] and not glob.glob(WORK + "/results/*.part")

    def breaks(*_, **__):
        raise ZeroDivisionError
    b.contractions, table.text = breaks, breaks
    b.all()
    assert [s["note"] for s in stored(2)["stages"]
            if s["name"] == "contractions"] == ["ZeroDivisionError()"]


def holes():  # any field may be missing, any time may be 0
    with open("tests/bench/fixture_synthetic.json") as f:
        whole = json.load(f)
    stages = [k for k, v in whole.items() if isinstance(v, list) and k != "failed_tests"]
    for stage in stages:
        for i, line in enumerate(whole[stage]):
            for key in line:
                for value in (None, 0):
                    lines = [dict(x) for x in whole[stage]]
                    if value is None:
                        del lines[i][key]
                    elif key in ("us", "ms", "model_us", "flops", "bytes"):
                        lines[i][key] = 0
                    table.text(dict(whole, **{stage: lines}), whole=True)
    for key in whole:
        table.text({k: v for k, v in whole.items() if k != key}, whole=True)
    assert "its tiles take - us, the fastest measured 100.0 us" in table.text(
        dict(whole, tune={"us_by_best": 100}))
    assert table.text({"schema_version": 1})


def bare_machine():  # neither git nor make, and a wrong interpreter for PyTorch
    os.environ.update(PATH=WORK, NNGEN_PEERS_PYTHON=WORK + "/no-such-python")
    root, gpu.ROOT = gpu.ROOT, WORK
    os.makedirs(WORK + "/build", exist_ok=True)
    with open(WORK + "/build/commit", "w") as f:
        f.write("abcdef\n")
    assert gpu.Bench.commit() == "abcdef"
    gpu.ROOT = root
    b = bench(dry=True)
    sys.executable = WORK + "/nor-this"
    asking.Peers.python = lambda _: WORK + "/no-such-python"
    peers = asking.Peers(b)
    assert "no-such-python" in peers.absent and peers.prepare(["default"], model="m") == []
    peers.close()


def wrong_interpreter():
    os.environ["NNGEN_PEERS_PYTHON"] = WORK + "/no-such-python"
    b = bench(dry=True, only=["networks"])
    b.all()
    assert {"graph", "launched"} <= {line["variant"] for line in b.result["networks"]}, b.result


def partial_tests():
    b = bench(only=["tests"], seconds=8)
    del b.tests
    os.makedirs(WORK + "/tests/a")
    os.makedirs(WORK + "/tests/gen")
    for name, text in (("a/test_bad", "echo 'not ok 1 - b c'; echo 1..1"),
                       ("a/test_good", "echo 'ok 1 - b'; echo 1..1"),
                       ("gen/test_slow", "sleep 60")):
        with open(f"{WORK}/tests/{name}.sh", "w") as f:
            f.write("#!/bin/sh\n" + text + "\n")
        os.chmod(f"{WORK}/tests/{name}.sh", 0o755)
    os.symlink(gpu.ROOT + "/tests/run.sh", WORK + "/tests/run.sh")
    gpu.ROOT = WORK
    b.env["NNGEN_TEST"] = ""
    b.all()
    got = stored()
    assert got["tests"] == ("1 passed, 1 failed, 0 skipped in the 2 of 3 programs that ended; "
                            "not ended: tests/gen/test_slow.sh"), got
    assert got["failed_tests"] == ["1 - b c"], got


# bf16 first; a failing product is named and the others go on; what had no time is named.
def gemm_order():
    b, calls = bench(only=["gemms"]), []
    del b.gemms

    def lines(into, command):
        calls.append(command)
        into.extend([dict(NNGEN, job=0), {"job": 0, "done": True}])
        if len(calls) == 1:
            raise RuntimeError("broken")
        into.extend([dict(NNGEN, job=1), {"job": 1, "done": True}, dict(NNGEN, job=2)])
        raise gpu.OverTime("time")
    b.lines = lines
    b.all()
    got = stored()
    assert [(r["gemm"], r["dtype"]) for r in got["gemms"]] == [("qkv", "bf16"), ("mlp up", "bf16"),
                                                               ("mlp down", "bf16")], got
    why = got["stages"][0]["note"]
    assert ("proj bf16 batch 1: broken" in why and "left out: q kT bf16 batch 1" in why
            and "square 8192 fp16 batch 1" in why), why
    assert ("bf16" in calls[0] and "fp16" in calls[0]
            and calls[0].index("bf16") < calls[0].index("fp16"))


def shares():  # of what is left: a stage that ends early leaves its time to the others
    b = bench(seconds=525)
    assert sum(gpu.SHARES.values()) == 525 and 19 < b.budget("ceilings") < 21
    assert b.budget(list(gpu.SHARES)[-1]) > 500
    b = bench(only=["gemms"], seconds=60)
    assert 59 < b.budget("gemms") <= 60


def joined():
    def result(date, note=None, **data):
        stages = [{"name": name, "seconds": 1, "budget": 1, "note": note} for name in data
                  if name != "peers"]
        return dict(data, schema_version=1, device="d", commit="c", date=date, stages=stages)
    os.makedirs(WORK + "/r")
    rows = [{"model": "m", "dtype": "fp16", "batch": b, "who": "nngen", "variant": "graph", "ms": b}
            for b in (1, 2)]
    runs = [result("1", networks=rows, gemms=[NNGEN], tests="1 passed, 0 failed, 0 skipped",
                   peers={"torch": "1"}),
            result("2", "cut", networks=[], ceilings=[], gemms=[NNGEN, NNGEN], tests="not finished",
                   peers={"missing": "x"}),
            result("3", "cut", networks=rows[:1]), result("4", tune={"us_by_best": 1})]
    for i, run in enumerate(runs):
        with open(f"{WORK}/r/{i}.json", "w") as f:
            json.dump(run, f)
    got, rows = table.newest(WORK + "/r"), [dict(row, commit="c") for row in rows]
    assert (got["networks"] == rows and got["gemms"] == [NNGEN] and got["peers"] == {"torch": "1"}
            and got["tune"]), got
    assert got["tests"].startswith("1 passed") and got["date"] == "4", got
    assert {s["name"]: s["note"] for s in got["stages"]}["networks"] is None, got
    later = dict(result("5", training=rows), commit="e")  # its lines say the commit that it has
    with open(f"{WORK}/r/5.json", "w") as f:
        json.dump(later, f)
    got = table.newest(WORK + "/r")  # what a later commit lacks is of the earlier one, and named
    assert got["training"] == [dict(row, commit="e") for row in rows], got
    assert got["networks"] == rows and got["commit"] == "e", got
    assert "networks" in got["earlier"]["c"] and "Of commit c: " in table.origins(got), got


# The networks are measured with both, and each row tells which; a tune that is cut short is used
# too.
def tuned_tiles():
    os.environ["NNGEN_PEERS_PYTHON"] = WORK + "/no-such-python"
    asking.Peers.python = lambda _: WORK + "/no-such-python"
    b, calls = bench(only=["tune", "networks"], seconds=100), []
    del b.tune, b.networks

    def run(*command, keep=None):
        calls.append(command)
        if command[1] == "tune":
            if command[-1] == "batch=32":
                with open(command[command.index("--tuning") + 1], "w") as f:
                    f.write("{}")
                raise gpu.OverTime("batch=32")
            return json.dumps({"us_by_best": 1})
        return json.dumps({"timing": {"samples_ms": [0.25 if "--tuning" in command else 0.5]}})
    b.run = run
    b.all()
    got = stored()
    rows = {(r["model"], r["dtype"], r["batch"], r["variant"]): (r["tiles"], r["ms"])
            for r in got["networks"] if r["who"] == "nngen"}
    for network in (("resnet18", "fp16", 1), ("resnet34", "fp16", 32)):
        assert (rows[(*network, "graph")] == ("model", 0.5)
                and rows[(*network, "graph, tuned")] == ("tuned", 0.25)), rows
    assert (("resnet18", "fp16", 256, "graph, tuned") not in rows
            and ("resnet18", "bf16", 1, "graph, tuned") not in rows), rows
    assert got["tune"]["batches"] == [1] and "batch=32" in got["stages"][0]["note"], got
    named = {command[command.index("--tuning") + 1] for command in calls if "--tuning" in command}
    assert (len(named) == 1 and not named.pop().startswith(b.env["NNGEN_CACHE_DIR"])
            ), "the model's tiles would be the tuned ones"
    assert "| resnet18 | fp16 | 1 | 0.5 | 0.25 | 0.5 |" in table.text(got), table.text(got)


FAKE_BESIDE = """import json, sys
for line in sys.stdin:
    r = json.loads(line)
    with open(sys.argv[0] + ".asked", "a") as f: f.write(line)
    if r["do"] == "info": print(json.dumps({"torch": "0"}))
    if r["do"] == "attention": names = ["flash", "cuDNN"]
    if r["do"] in ("block", "training"): names = ["eager", "eager, graph"]
    if r["do"] == "compile": names += ["compile", "compile, graph"]
    if r["do"] == "sample":
        for n in names: print(json.dumps({"variant": n, "samples_ms": [1.0, 3.0, 2.0]}))
    print(json.dumps({"done": r["do"]}), flush=True)
"""


def fake_peers(program):
    with open(WORK + "/fake.py", "w") as f:
        f.write(program)
    with open(WORK + "/python", "w") as f:
        f.write(f'#!/bin/sh\n[ "$1" = -c ] && exit 0\nexec {sys.executable} {WORK}/fake.py\n')
    os.chmod(WORK + "/python", 0o755)
    os.environ["NNGEN_PEERS_PYTHON"] = WORK + "/python"


# What nngen and PyTorch are asked for at full size, in which order; each figure in the table.
def beside_pytorch():
    fake_peers(FAKE_BESIDE)
    b, calls = bench(only=["attention", "block", "training"], seconds=400), []
    for stage in b.options.only:
        delattr(b, stage)

    def run(*command, keep=None):
        calls.append(" ".join(command))
        if "models/resnet34.lua" in command:
            raise gpu.OverTime("resnet34")
        return json.dumps({"timing": {"samples_ms": [4.0]}})
    b.run = run
    b.all()
    got = stored()
    assert [len(got[stage]) for stage in b.options.only] == [36 * 3, 16 * 5, 18 * 5], got["stages"]
    assert {row["ms"] for stage in b.options.only for row in got[stage]} == {2.0, 4.0}
    assert ["resnet34 imagenet fp16 batch 256 with torch.compile: resnet34" in (s["note"] or "")
            for s in got["stages"]] == [False, False, True], got["stages"]
    assert calls[0].endswith("tests/models/attend.lua --dtype bf16 --json --quiet --no-check "
                             "--repeat 100 --warmup 20 --graph --set form=plain B=8 H=32 G=32 "
                             "N=2048 M=2048 D=32 W=32 stored=bf16"), calls[0]
    for end in ("models/block.lua --dtype fp16 --json --quiet --no-check --repeat 50 --warmup 10 "
                "--graph --entry train --set tokens=2048 width=1024 heads=32 batch=8 lr=1e-09 "
                "loss_scaling=true",
                "models/resnet18.lua --dtype tf32 --json --quiet --no-check --repeat 25 --warmup 5 "
                "--graph --entry train --set batch=32 stem=imagenet size=224 classes=1000 "
                "augment=false lr=1e-09 loss_scaling=false"):
        assert any(call.endswith(end) for call in calls), end
    with open(WORK + "/fake.py.asked") as f:
        asked = [json.loads(line) for line in f]
    steps = [r for r in asked if r["do"] == "training"]
    assert [(r["model"], r["stem"], r["batch"]) for r in steps[:6]] == [("resnet18", "cifar", 128)
                                                                        ] * 6, steps[:6]
    assert {r["mode"] for r in asked if r["do"] == "compile"} == {"default", "max-autotune"}
    said = table.text(got)
    assert "| 32 | 2048 | 8 | 32 | causal | bf16 | 4 | 17 | 34 | 34 | 0.50x |" in said, said
    assert "| inference | fp16 | 4 | 4 | 2 | 2 | 2 | 2 | 0.50x | 1000 |" in said, said
    assert "| resnet18 | cifar | bf16 | 256 | 4 | 2 | 2 | 2 | 2 | 0.50x | 64000 |" in said, said


def some_jobs():  # those whose names the pattern matches
    fake_peers(FAKE_BESIDE)
    b, calls = bench(only=["training"], jobs="imagenet bf16 batch [13].*[28]$", seconds=400), []
    del b.training

    def run(*command, keep=None):
        calls.append(" ".join(command))
        return json.dumps({"timing": {"samples_ms": [4.0]}})
    b.run = run
    b.all()
    assert {(r["model"], r["stem"], r["dtype"], r["batch"]) for r in stored()["training"]} == {
        (model, "imagenet", "bf16", batch) for model in ("resnet18", "resnet34")
        for batch in (32, 128)}, calls


def jobs_left_out():  # what has no time is named, and no process is started for it
    fake_peers(FAKE_BESIDE)
    b = bench(only=["block"], seconds=9)
    del b.block
    b.run = lambda *command, keep=None: 1 / 0
    b.all()
    note = stored()["stages"][0]["note"]
    assert note.endswith("left out: inference bf16 batch 1, training bf16 batch 1 with "
                         "torch.compile, inference bf16 batch 8, training bf16 batch 8 with "
                         "torch.compile and 20 more"), note


FAKE = """import json, sys, time
for line in sys.stdin:
    r = json.loads(line)
    if r["do"] == "prepare" and r["model"] == "resnet34": sys.exit(1)
    if r["do"] == "info": print(json.dumps({"torch": "0"}))
    if r["do"] == "compile" and r["mode"] == "max-autotune": time.sleep(60)
    if r["do"] == "compile": names.append(r["mode"])
    if r["do"] == "prepare": names = ["eager channels_last", "eager channels_last, graph"]
    if r["do"] == "sample":
        for n in names: print(json.dumps({"variant": n, "samples_ms": [1.0]}))
    print(json.dumps({"done": r["do"]}), flush=True)
"""


BREAKS = r"""
import json, sys
broken, batch = False, 0
for line in sys.stdin:
    r = json.loads(line)
    batch = r.get("batch", batch)
    broken = broken or (r["do"] == "sample" and batch == 32)
    if broken: print(json.dumps({"error": "a capture broke off"}))
    elif r["do"] == "info": print(json.dumps({"torch": "0"}))
    elif r["do"] == "sample": print(json.dumps({"variant": "eager", "samples_ms": [1.0]}))
    print(json.dumps({"done": r["do"]}), flush=True)
"""


def starts_again():  # what fails leaves other jobs their figures
    fake_peers(BREAKS)
    b = bench(only=["networks"], seconds=100)
    del b.networks
    b.nngen_samples = lambda *a: [0.5]
    b.all()
    timed = {(r["model"], r["batch"]) for r in stored()["networks"] if r["who"] == "torch"
             and r["dtype"] == "fp16" and "ms" in r}
    assert timed == {(m, n) for m in ("resnet18", "resnet34") for n in (1, 256)}, timed


def peers_filled():
    ours = {"what": "training", "dtype": "bf16", "batch": 1, "who": "nngen", "variant": "graph"}
    theirs = dict(ours, who="torch", variant="eager, graph", ms=4.0)
    folder = WORK + "/results"
    os.makedirs(folder)
    base = {"schema_version": 1, "device": "d", "stages": []}
    for name, more in (("a", {"commit": "aaaaaaaaaaaa", "date": "1", "peers": {"torch": "2"},
                              "block": [dict(ours, ms=3.0), theirs]}),
                       ("b", {"commit": "bbbbbbbbbbbb", "date": "2", "peers": {"torch": "2"},
                              "block": [dict(ours, ms=2.0)]})):
        with open(f"{folder}/{name}.json", "w") as f:
            json.dump(dict(base, **more), f)
    said = table.text(table.newest(folder))
    assert "| training | bf16 | 1 | 2 | - | 4 | - | - | 2.00x |" in said, said
    assert "where missing, as with commit aaaaaaaaaa: block." in said, said
    with open(f"{folder}/a.json") as f:
        other = json.load(f)
    with open(f"{folder}/a.json", "w") as f:
        json.dump(dict(other, peers={"torch": "1"}), f)
    assert "where missing" not in table.text(table.newest(folder))


def jobs_filled():  # and rows of one commit from several runs of it
    ours = {"what": "training", "dtype": "bf16", "batch": 1, "who": "nngen", "variant": "graph"}
    folder = WORK + "/results"
    os.makedirs(folder)
    base = {"schema_version": 1, "device": "d", "stages": []}
    for name, commit, date, times in (("a", "aaaaaaaaaaaa", "1", {1: 3.0, 2: 4.0, 8: 5.0}),
                                      ("b", "bbbbbbbbbbbb", "2", {8: 6.0}),
                                      ("c", "bbbbbbbbbbbb", "3", {2: 7.0})):
        with open(f"{folder}/{name}.json", "w") as f:
            json.dump(dict(base, commit=commit, date=date,
                           block=[dict(ours, batch=batch, ms=ms) for batch, ms in times.items()]),
                      f)
    result = table.newest(folder)
    assert [(line["batch"], line["ms"]) for line in result["block"]] == [
        (1, 3.0), (2, 7.0), (8, 6.0)], result["block"]
    said = table.text(result)
    assert "Rows that this commit was not measured for are of commit aaaaaaaaaa: block (1)." in said
    assert "| training | bf16 | 1 | 3 | - | - | - | - | - | 333 | aaaaaaaaaa |" in said, said


def compile_falls_back():  # the key comparison is there before torch.compile is tried
    fake_peers(FAKE)
    asking.COMPILE_SECONDS = 2
    b, order, gone = bench(only=["networks"], seconds=100), [], []
    del b.networks
    b.nngen_samples = lambda *a: [0.5]
    measure = b.measure_network

    def measured(peers, *what):
        order.append(what)
        gone[:] = [peers]
        measure(peers, *what)
    b.measure_network = measured
    b.all()
    assert [o[2:] for o in order[:6]] == [(1, False), (32, False), (256, False), (1, True),
                                          (32, True), (256, True)], order
    assert {o[:2] for o in order[:6]} == {("resnet18", "fp16")}
    got = stored()
    said = table.text(got)
    assert ("| resnet18 | fp16 | 256 | 0.5 | - | 0.5 | - | 1 | 1 | - | 1 (ro) | 2.00x | - | "
            "512000 |" in said), said
    assert ("mode=reduce-overhead" in said
            and "compile: torch.compile mode=max-autotune took over 2 s" in said), said
    assert len([r for r in got["networks"] if r["batch"] == 1 and r["model"] == "resnet18"
                and r["dtype"] == "fp16" and r["variant"] == "graph"]) == 1
    assert gone[0].absent
    measure(gone[0], "resnet18", "fp16", 1, False)  # PyTorch is gone: its earlier figures stay
    assert any(r["variant"] == "eager channels_last" and r["batch"] == 1
               for r in b.result["networks"])


globals()[CASE]()
