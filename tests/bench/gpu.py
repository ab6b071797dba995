#!/usr/bin/env python3
"""make bench DEVICE=cuda: tests, ceilings, contractions and networks on a GPU, in under 9 minutes.

usage: gpu.py [--results DIR] [--dry-run] [--seconds N] [--only STAGE[,STAGE...]]

Needs a ready-made build/ (`make tests`), python3 and, for the peers, PyTorch; installs nothing.
Every stage has a budget of seconds, the networks have what is left; what would go over is left out and
said so. Writes one JSON file (device, versions, commit, clocks, raw samples) into DIR and prints the
tables the README shows. Stages of one commit may be run one by one (--only): the table joins them.

--dry-run does the same on libcusim and the CPU, tiny and few times: it shows that the program works;
its figures are none of a GPU and are stored nowhere.
"""
import argparse
import json
import os
import queue
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import table  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUDGETS = [("ceilings", 25), ("gemms", 45), ("contractions", 95), ("tests", 120), ("tune", 35), ("networks", None)]
COMPILE_SECONDS = 75  # of torch.compile, for one network and batch

# Of WORKLOADS C's attention block: tokens 2048, width 1024, 32 heads of 32; and large squares.
GEMMS = [("qkv", 2048, 3072, 1024, 0), ("proj", 2048, 1024, 1024, 0), ("mlp up", 2048, 4096, 1024, 0),
         ("mlp down", 2048, 1024, 4096, 0), ("q kT", 2048, 2048, 32, 32), ("p v", 2048, 32, 2048, 32)]
SQUARES = [("square", 4096, 4096, 4096, 0), ("square", 8192, 8192, 8192, 0)]


def note(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def kill_session(leader):
    """Ends the process and all of its session: timeout(1) puts what it runs into groups of their own."""
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat") as f:
                session = int(f.read().rpartition(")")[2].split()[3])
            if session == leader:
                os.kill(int(entry), signal.SIGKILL)
        except (OSError, ValueError, IndexError):
            pass


class OverTime(Exception):
    pass


class Bench:
    def __init__(self, options):
        self.options = options
        self.dry = options.dry_run
        self.begin = time.monotonic()
        self.deadline = self.begin + options.seconds
        self.stage_deadline = self.deadline
        self.result = {"schema_version": 1, "stages": [], "clocks": []}
        if self.dry:
            self.result["dry_run"] = True
        self.env = dict(os.environ, NNGEN_DEVICE="sim" if self.dry else "cuda", NO_COLOR="1")
        self.work = tempfile.mkdtemp()
        self.env["NNGEN_CACHE_DIR"] = os.path.join(self.work, "cache")
        if sys.prefix != sys.base_prefix:  # where NVIDIA's wheels are
            self.env.setdefault("VIRTUAL_ENV", sys.prefix)

    # ---- running things ---------------------------------------------------------------------------

    def left(self):
        return min(self.stage_deadline, self.deadline) - time.monotonic()

    def need(self, seconds):
        if self.left() < seconds:
            raise OverTime(f"{seconds:.0f} s were needed, {max(0, self.left()):.0f} s left")

    def run(self, *command, keep=None):
        """The command's output; it is ended, with all it started, when the stage's time is over. What
        it printed until then goes to `keep`."""
        process = subprocess.Popen(command, cwd=ROOT, env=self.env, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(timeout=max(1, self.left()))
        except subprocess.TimeoutExpired:
            kill_session(process.pid)
            out, err = process.communicate()
            if keep:
                keep(out)
            raise OverTime(f"{' '.join(command)[:90]}") from None
        if keep:
            keep(out)
        if process.returncode:
            last = (err.strip() or out.strip()).splitlines()[-1:] or ["no message"]
            raise RuntimeError(f"{' '.join(command)[:90]}: exit {process.returncode}: {last[0][:200]}")
        return out

    def lines(self, into, command, **facts):
        """Adds the JSON lines that the command prints, with `facts` in each, also when it fails later."""
        def keep(out):
            into.extend(dict(json.loads(line), **facts) for line in out.splitlines()
                        if line.startswith("{") and line.endswith("}"))
        self.run(*command, keep=keep)

    def clocks(self, at):
        if self.dry or not shutil.which("nvidia-smi"):
            return
        fields = ["clocks.sm", "clocks.mem", "power.draw", "temperature.gpu"]
        try:
            text = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"],
                                  capture_output=True, text=True, timeout=10).stdout.splitlines()[0]
            self.result["clocks"].append(dict(zip(["at"] + fields, [at] + [v.strip() for v in text.split(",")])))
        except (OSError, subprocess.SubprocessError, IndexError):
            pass

    def stage(self, name, budget):
        if self.options.only and name not in self.options.only:
            return
        begin, why = time.monotonic(), None
        self.stage_deadline = begin + budget if budget else self.deadline
        self.clocks(f"{name} begins")
        try:
            getattr(self, name)()
        except OverTime as over:
            why = f"stopped at its time: {over}"
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            why = str(error)
        self.clocks(f"{name} ends")
        seconds = time.monotonic() - begin
        self.result["stages"].append({"name": name, "seconds": round(seconds, 1), "budget": budget, "note": why})
        note(f"{name}: {seconds:.0f} s" + (f"; {why}" if why else ""))

    # ---- facts ------------------------------------------------------------------------------------

    def facts(self):
        doctor = json.loads(self.run("build/nngen", "doctor", "--json"))
        text = self.run("build/nngen", "doctor")
        device = re.search(r"^device +(.*)", text, re.M)
        self.result["device"] = device.group(1) if device else "none"
        if not self.dry and "libcusim" in self.result["device"]:
            shutil.rmtree(self.work, ignore_errors=True)
            note("there is no GPU here (nngen doctor says what was searched); --dry-run shows that the program works")
            sys.exit(3)
        self.result["doctor"] = doctor
        self.result["date"] = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
        self.result["commit"] = self.commit()
        if shutil.which("nvidia-smi") and not self.dry:
            rows = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,power.limit",
                                   "--format=csv,noheader"], capture_output=True, text=True).stdout
            self.result["gpu"] = rows.strip().splitlines()[0] if rows.strip() else ""

    @staticmethod
    def commit():
        git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        if git.returncode == 0:
            return git.stdout.strip()
        try:
            with open(os.path.join(ROOT, "build/commit")) as f:
                return f.read().strip()
        except OSError:
            return "unknown"

    # ---- the stages -------------------------------------------------------------------------------

    def tests(self):
        if self.dry:
            self.result["tests"] = "not run"
            return
        said = []
        self.result["tests"] = "not finished"
        try:
            self.run("make", "-s", "check", "DEVICE=cuda", keep=said.append)
        finally:
            found = re.findall(r"\d+ passed, \d+ failed, \d+ skipped", "".join(said))
            if found:
                self.result["tests"] = found[-1]
            self.result["failed_tests"] = re.findall(r"^ *not ok (.*)", "".join(said), re.M)[:20]

    def ceilings(self):
        rows = self.result["ceilings"] = []
        self.lines(rows, ["build/tests/bench/bench_gpu", "ceilings"] + (["quick"] if self.dry else []))

    def measure_model(self, into, model, dtype, settings, **facts):
        begin = time.monotonic()
        command = ["build/tests/bench/bench_gpu", "model", model, dtype] + (["quick"] if self.dry else [])
        self.lines(into, command + settings, dtype=dtype, **facts)
        return time.monotonic() - begin

    def contractions(self):
        """ResNet-34's; ResNet-18 has the same shapes, in fewer layers."""
        rows = self.result["contractions"] = []
        took = 1
        for dtype in ["fp16"] if self.dry else ["fp16", "bf16"]:
            for batch in [1] if self.dry else [1, 32, 256]:
                self.need(1.3 * took)
                settings = [f"batch={batch}"] + (["size=32"] if self.dry else [])
                took = self.measure_model(rows, "models/resnet34.lua", dtype, settings, batch=batch)

    def gemms(self):
        rows = self.result["gemms"] = []
        took = 1
        todo = [(d, b, g) for d in ("fp16", "bf16") for b in (1, 8) for g in GEMMS]
        todo = [(d, 1, g) for d in ("fp16", "bf16") for g in SQUARES] + todo
        for dtype, batch, (name, m, n, k, heads) in todo[4:6] if self.dry else todo:
            self.need(1.3 * took)
            if self.dry:
                m, n, k = 64, 48, 32
            shape = [f"m={m if heads else batch * m}", f"n={n}", f"k={k}"]
            shape += [f"batch={heads * batch}", "weights=0"] if heads else []
            took = self.measure_model(rows, "tests/bench/gemm.lua", dtype, shape, gemm=name, batch=batch)

    def networks(self):
        """What torch.compile is compared with comes first, then what needs less time."""
        self.result["networks"] = []
        peers = Peers(self)
        batches, took, skipped = (1, 32, 256), 8, []
        todo = [(m, d, b, m == "resnet18") for d in ("fp16", "bf16") for m in ("resnet18", "resnet34") for b in batches]
        for model, dtype, batch, compiled in [("resnet18", "fp32", 1, True)] if self.dry else todo:
            if self.left() < 1.2 * took:
                skipped.append(f"{model} {dtype} batch {batch}")
                continue
            compiled = compiled and self.left() > (0 if self.dry else COMPILE_SECONDS + 2 * took)
            begin, spent = time.monotonic(), peers.compile_seconds
            self.measure_network(peers, model, dtype, batch, compiled)
            took = time.monotonic() - begin - (peers.compile_seconds - spent)
        peers.close()
        if skipped:
            raise OverTime("left out: " + ", ".join(skipped))

    def nngen_samples(self, model, dtype, batch, graph):
        command = ["build/nngen", "run", f"models/{model}.lua", "--dtype", dtype, "--json", "--quiet", "--no-check",
                   "--repeat", "2" if self.dry else "100", "--warmup", "20", "--set", f"batch={batch}"]
        command += (["size=32"] if self.dry else []) + (["--graph"] if graph else [])
        return json.loads(self.run(*command))["timing"]["samples_ms"]

    def measure_network(self, peers, model, dtype, batch, compiled):
        """Contenders in turns: nngen, then each variant of PyTorch, three times."""
        samples = {}
        missing = peers.prepare(compiled, model=model, batch=batch, dtype=dtype, size=32 if self.dry else 224)
        for turn in range(1 if self.dry else 3):
            for graph in (True, False) if turn == 0 else (True,):
                who = ("nngen", "graph" if graph else "launched")
                samples.setdefault(who, []).append(self.nngen_samples(model, dtype, batch, graph))
            for line in peers.ask(do="sample", runs=2 if self.dry else 30):
                if "variant" in line:
                    samples.setdefault(("torch", line["variant"]), []).append(line["samples_ms"])
            self.clocks(f"{model} {dtype} batch {batch}, turn {turn}")
        for (who, variant), turns in samples.items():
            self.result["networks"].append({
                "model": model, "dtype": dtype, "batch": batch, "who": who, "variant": variant,
                "ms": statistics.median(s for turn in turns for s in turn), "samples_ms": turns})
        for line in missing:
            if "missing" in line:
                self.result["networks"].append({"model": model, "dtype": dtype, "batch": batch, "who": "torch",
                                                "variant": line["missing"], "missing": line["why"]})
        peers.ask(do="forget")

    def tune(self):
        if self.dry:
            return  # libcusim refuses to tune
        path = os.path.join(self.work, "tuning.json")
        self.result["tune"] = json.loads(self.run("build/nngen", "tune", "models/resnet18.lua", "--dtype", "fp16", "--json",
                                                  "--quiet", "--tuning", path))

    # ---- the whole --------------------------------------------------------------------------------

    def all(self):
        self.facts()
        for name, budget in BUDGETS:
            self.stage(name, budget)
        self.result["seconds"] = round(time.monotonic() - self.begin, 1)
        shutil.rmtree(self.work, ignore_errors=True)
        print(table.text(self.result, whole=True))
        if self.dry:
            return
        name = re.sub(r"[^a-z0-9]+", "-", self.result["device"].split(",")[0].lower()).strip("-")
        stamp = re.sub(r"[^0-9]", "", self.result["date"])
        os.makedirs(self.options.results, exist_ok=True)
        path = os.path.join(self.options.results, f"{name}-{stamp}-{self.result['commit'][:7]}.json")
        with open(path, "w") as f:
            json.dump(self.result, f, indent=1)
            f.write("\n")
        note(f"stored in {path}; tests/bench/table.py --readme README.md puts it into the README")


class Peers:
    """tests/bench/peers.py, kept running: PyTorch takes seconds to start."""

    def __init__(self, bench):
        self.bench, self.process, self.absent, self.answers = bench, None, None, None
        self.compile_seconds = 0
        self.start()

    def start(self):
        self.absent = None
        command = [self.python(), os.path.join(ROOT, "tests/bench/peers.py")]
        command += ["--device", "cpu", "--quick"] if self.bench.dry else ["--device", "cuda"]
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        self.answers = queue.Queue()
        threading.Thread(target=self.read, args=(self.process.stdout, self.answers), daemon=True).start()
        facts = self.ask(do="info")
        self.bench.result["peers"] = next((line for line in facts if "torch" in line), {"missing": self.absent})

    @staticmethod
    def python():
        for candidate in (os.environ.get("NNGEN_PEERS_PYTHON"), sys.executable, "python3", "/usr/bin/python3"):
            if candidate and subprocess.run([candidate, "-c", "import torch, torchvision"],
                                            capture_output=True).returncode == 0:
                return candidate
        return sys.executable

    @staticmethod
    def read(stream, answers):
        for line in stream:
            answers.put(line)
        answers.put(None)

    def ask(self, seconds=None, **request):
        """The answers to one request; none when there is no PyTorch, or it takes too long."""
        lines = []
        if self.absent:
            return lines
        until = time.monotonic() + max(1, min(self.bench.left(), seconds or self.bench.left()))
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            while True:
                line = self.answers.get(timeout=max(0.01, until - time.monotonic()))
                if line is None:
                    raise BrokenPipeError
                lines.append(json.loads(line))
                if "done" in lines[-1]:
                    return lines
        except (BrokenPipeError, OSError):
            said = next((line["error"] for line in lines if "error" in line), "it ended early")
            self.absent = f"PyTorch: {said}"
        except queue.Empty:
            self.absent = f"PyTorch took too long over {request['do']}"
            self.kill()
        note(self.absent)
        return lines

    def prepare(self, compiled, **network):
        """The network's variants. When torch.compile takes too long, it is left out, and said so."""
        lines = self.ask(do="prepare", **network)
        if not compiled or self.absent:
            return lines
        begin = time.monotonic()
        lines += self.ask(do="compile", seconds=COMPILE_SECONDS)
        self.compile_seconds += time.monotonic() - begin
        if self.absent:
            self.start()
            lines = self.ask(do="prepare", **network)
            lines.append({"missing": "compile", "why": f"torch.compile took over {COMPILE_SECONDS} s"})
        return lines

    def kill(self):
        kill_session(self.process.pid)

    def close(self):
        self.ask(do="forget")
        self.kill()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description="benchmarks on a GPU")
    parser.add_argument("--results", default=os.path.join(ROOT, "tests/bench/results"))
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--seconds", type=float, default=525)
    parser.add_argument("--only", type=lambda text: text.split(","), help="stages, by name")
    options = parser.parse_args()
    for needed in ("build/nngen", "build/tests/bench/bench_gpu"):
        if not os.path.exists(os.path.join(ROOT, needed)):
            sys.exit(f"bench: {needed} is missing; `make tests` builds it, on a machine with the packages")
    Bench(options).all()


if __name__ == "__main__":
    main()
