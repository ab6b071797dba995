#!/usr/bin/env python3
"""make bench DEVICE=cuda: tests, ceilings, contractions, attention, networks and training on a GPU,
made to end within 9 minutes.

usage: gpu.py [--results DIR] [--dry-run] [--seconds N] [--only STAGE[,STAGE...]] [--turns N]
              [--cache DIR] [--jobs REGEX]

Needs a ready-made build/ (`make tests`), python3 and, for the peers, PyTorch; installs nothing.
Every stage has its share of the seconds that are left; what would go over is left out and said so.
Writes one JSON file (device, versions, commit, clocks, raw samples) into DIR, after each stage
anew, and prints the READMEs' tables. Stages of one commit may be run one by one (--only):
the table joins them. A row's "tiles" tells who chose them: "model", nngen's cost model; "tuned",
what `nngen tune` measured in the same call (--only tune,networks). `python3 tests/bench/gpu.py
--results DIR` is all that `make bench DEVICE=cuda` does.

--turns: how often contenders take turns (3). --cache: a folder of compiled kernels, as `nngen run
--arch` fills it elsewhere, in place of an empty one; it holds no tuning.json. --jobs: of attention,
networks, the block and training only those whose names it matches, as "imagenet bf16".

--dry-run does the same on libcusim and the CPU, tiny and few times: it shows that the program
works; its figures are none of a GPU and are stored nowhere.
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import table  # noqa: E402
from asking import OverTime, kill_session, note  # noqa: E402
from beside import BATCHES, Beside  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# A stage may take its share of what is left: these are seconds when all are run in the usual time.
SHARES = {"ceilings": 20, "gemms": 35, "contractions": 60, "attention": 45, "tests": 75,
          "tune": 35, "networks": 100, "block": 65, "training": 90}

# Of WORKLOADS C's attention block: tokens 2048, width 1024, 32 heads of 32; and large squares.
GEMMS = [("qkv", 2048, 3072, 1024, 0), ("proj", 2048, 1024, 1024, 0),
         ("mlp up", 2048, 4096, 1024, 0), ("mlp down", 2048, 1024, 4096, 0),
         ("q kT", 2048, 2048, 32, 32), ("p v", 2048, 32, 2048, 32)]
SQUARES = [("square", 4096, 4096, 4096, 0), ("square", 8192, 8192, 8192, 0)]

SUMMARY = r"^\d+ passed, \d+ failed, \d+ skipped$"


def test_counts(said, programs):
    """What tests/run.sh said, also when it was ended early."""
    ended = re.findall(r"^(\S+) +(\d+) ok +(\d+) skipped +(\d+) failed", said, re.M)
    whole = re.findall(SUMMARY, said, re.M)
    passed, skipped, failed = (sum(int(line[i]) for line in ended) for i in (1, 2, 3))
    left = [path for path in programs if path not in {line[0] for line in ended}]
    text = (f"{passed} passed, {failed} failed, {skipped} skipped in the {len(ended)} of "
            f"{len(programs)} programs that ended")
    text += f"; not ended: {', '.join(left)}" if left else ""
    return {"tests": whole[-1] if whole else text if ended else "not finished",
            "failed_tests": re.findall(r"^ *not ok (.*)", said, re.M)[:20]}


class Bench(Beside):
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
        self.path = None  # of the JSON
        self.peers = None  # of all stages
        if not self.dry:  # without a tuning.json: the cost model's tiles
            self.env["NNGEN_CACHE_DIR"] = options.cache or os.path.join(self.work, "cache")
        # Tuned: (dtype, batch), in whole or in part.
        self.tuning, self.tuned = os.path.join(self.work, "tuning.json"), set()
        if sys.prefix != sys.base_prefix:  # where NVIDIA's wheels are
            self.env.setdefault("VIRTUAL_ENV", sys.prefix)

    # ---- running things --------------------------------------------------------------------------

    def left(self):
        return min(self.stage_deadline, self.deadline) - time.monotonic()

    def need(self, seconds):
        if self.left() < seconds:
            raise OverTime(f"{seconds:.0f} s were needed, {max(0, self.left()):.0f} s left")

    def run(self, *command, keep=None):
        """The command's output; it is ended, with all it started, when the stage's time is over.
        What it printed until then goes to `keep`."""
        process = subprocess.Popen(command, cwd=ROOT, env=self.env, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
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
            raise RuntimeError(f"{' '.join(command)[:90]}: exit {process.returncode}: "
                               f"{last[0][:200]}")
        return out

    def lines(self, into, command, **facts):
        """Adds the JSON lines that the command prints, with `facts` in each, also when it fails
        later."""
        def keep(out):
            into.extend(dict(json.loads(line), **facts) for line in out.splitlines()
                        if line.startswith("{") and line.endswith("}"))
        self.run(*command, keep=keep)

    def clocks(self, at):
        if self.dry or not shutil.which("nvidia-smi"):
            return
        fields = ["clocks.sm", "clocks.mem", "power.draw", "temperature.gpu"]
        try:
            text = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(fields),
                                   "--format=csv,noheader,nounits"],
                                  capture_output=True, text=True, timeout=10).stdout.splitlines()[0]
            self.result["clocks"].append(
                dict(zip(["at"] + fields, [at] + [v.strip() for v in text.split(",")])))
        except (OSError, subprocess.SubprocessError, IndexError):
            pass

    def budget(self, name):
        later = list(SHARES)[list(SHARES).index(name):]
        weights = [SHARES[n] for n in later if not self.options.only or n in self.options.only]
        return max(0, self.deadline - time.monotonic()) * SHARES[name] / sum(weights)

    def stage(self, name):
        if self.options.only and name not in self.options.only:
            return
        begin, why, budget = time.monotonic(), None, self.budget(name)
        self.stage_deadline = begin + budget
        self.clocks(f"{name} begins")
        try:
            getattr(self, name)()
        except OverTime as over:
            why = f"stopped at its time: {over}"
        except Exception as error:  # the other stages go on, and what there is is stored
            why = str(error) or repr(error)
        self.clocks(f"{name} ends")
        seconds = time.monotonic() - begin
        self.result["stages"].append({"name": name, "seconds": round(seconds, 1),
                                      "budget": round(budget, 1), "note": why})
        note(f"{name}: {seconds:.0f} s" + (f"; {why}" if why else ""))

    def store(self, unfinished=None):
        """Writes what there is: a run that is killed leaves the stages that ended, and the one
        under way as cut short."""
        self.result["seconds"] = round(time.monotonic() - self.begin, 1)
        if self.dry:
            return
        result = self.result
        if unfinished:
            cut = {"name": unfinished, "seconds": None, "budget": None,
                   "note": "the run ended during it"}
            result = dict(result, stages=result["stages"] + [cut])
        try:
            if not self.path:
                name = re.sub(r"[^a-z0-9]+", "-",
                              self.result["device"].split(",")[0].lower()).strip("-")
                stamp = re.sub(r"[^0-9]", "", self.result["date"])
                os.makedirs(self.options.results, exist_ok=True)
                path = os.path.join(self.options.results,
                                    f"{name}-{stamp}-{self.result['commit'][:7]}")
                other = 1  # runs of one minute
                while os.path.exists(f"{path}{f'-{other}' if other > 1 else ''}.json"):
                    other += 1
                self.path = f"{path}{f'-{other}' if other > 1 else ''}.json"
            with open(self.path + ".part", "w") as f:
                json.dump(result, f, indent=1)
                f.write("\n")
            os.replace(self.path + ".part", self.path)
        except OSError as error:
            note(f"cannot be stored: {error}")

    # ---- facts -----------------------------------------------------------------------------------

    def facts(self):
        self.result.update(device="unknown", date=time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
                           commit=self.commit())
        self.stage_deadline = time.monotonic() + 60
        try:
            text = self.run("build/nngen", "doctor")
            device = re.search(r"^device +(.*)", text, re.M)
            self.result["device"] = device.group(1) if device else "none"
            self.result["doctor"] = json.loads(self.run("build/nngen", "doctor", "--json"))
        except (OverTime, RuntimeError, OSError, ValueError) as error:
            note(f"nngen doctor: {error}")
        if not self.dry and "libcusim" in self.result["device"]:
            shutil.rmtree(self.work, ignore_errors=True)
            note("there is no GPU here (nngen doctor says what was searched); "
                 "--dry-run shows that the program works")
            sys.exit(3)
        if shutil.which("nvidia-smi") and not self.dry:
            try:
                rows = subprocess.run(["nvidia-smi",
                                       "--query-gpu=name,driver_version,clocks.max.sm,power.limit",
                                       "--format=csv,noheader"], capture_output=True, text=True,
                                      timeout=20).stdout
                self.result["gpu"] = rows.strip().splitlines()[0] if rows.strip() else ""
            except (OSError, subprocess.SubprocessError) as error:
                note(f"nvidia-smi: {error}")

    @staticmethod
    def commit():
        try:  # what `make tests` built, wherever git stands
            with open(os.path.join(ROOT, "build/commit")) as f:
                return f.read().strip()
        except OSError:
            pass
        try:
            git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True,
                                 text=True, timeout=20)
            return git.stdout.strip() if git.returncode == 0 else "unknown"
        except (OSError, subprocess.SubprocessError):
            return "unknown"

    # ---- the stages ------------------------------------------------------------------------------

    def tests(self):
        if self.dry:
            self.result["tests"] = "not run"
            return
        said = []
        self.result["tests"] = "not finished"
        found = [os.path.relpath(path, ROOT)
                 for path in glob.glob(os.path.join(ROOT, "tests/**/test_*.*"), recursive=True)]
        found = ["build/" + path[:-2] if path.endswith(".c") else path for path in found
                 if path.endswith((".c", ".sh"))]
        found = [path for path in found if os.path.exists(os.path.join(ROOT, path))]
        host = re.compile(r"^(build/)?tests/(gen|errors|bench)/")  # what needs no GPU comes last
        found.sort(key=lambda path: (bool(host.match(path)), path))
        try:
            self.run("tests/run.sh", *found, keep=said.append)
        except RuntimeError:
            if not re.search(SUMMARY, "".join(said), re.M):
                raise
        finally:
            self.result.update(test_counts("".join(said), found))

    def ceilings(self):
        rows = self.result["ceilings"] = []
        self.lines(rows, ["build/tests/bench/bench_gpu", "ceilings"]
                   + (["quick"] if self.dry else []))

    def measure_model(self, into, model, dtype, settings, **facts):
        begin = time.monotonic()
        command = (["build/tests/bench/bench_gpu", "model", model, dtype]
                   + (["quick"] if self.dry else []))
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
                took = self.measure_model(rows, "models/resnet34.lua", dtype, settings, batch=batch,
                                          tiles="model")

    def gemms(self):
        """What the READMEs show comes first; all in one process, which one that fails ends."""
        todo = [(d, b, g) for d in ("bf16", "fp16")
                for b, some in ((1, GEMMS), (1, SQUARES[:1]), (8, GEMMS), (1, SQUARES[1:]))
                for g in some]
        todo, why, done, rows = todo[:2] if self.dry else todo, [], set(), []
        self.result["gemms"] = rows
        while todo:
            command = ["build/tests/bench/bench_gpu", "model"]
            for dtype, batch, (name, m, n, k, heads) in todo:
                m, n, k = (64, 48, 32) if self.dry else (m if heads else batch * m, n, k)
                command += (["--"] * (len(command) > 2)
                            + ["tests/bench/gemm.lua", dtype, f"m={m}", f"n={n}", f"k={k}"])
                command += [f"batch={heads * batch}", "weights=0"] if heads else []
            command[4:4] = ["quick"] if self.dry else []
            command += ["--"] if len(todo) == 1 else []
            lines, ended = [], None
            try:
                self.lines(lines, command)
            except (OverTime, RuntimeError) as error:
                ended = error
            done = {line["job"] for line in lines if "done" in line}
            for line in lines:
                dtype, batch, gemm = todo[line["job"]]
                if "name" in line and line["job"] in done:
                    rows.append(dict(line, dtype=dtype, gemm=gemm[0], batch=batch, tiles="model"))
            todo = [job for i, job in enumerate(todo) if i not in done]
            if isinstance(ended, OverTime):
                break
            if todo:  # the first of these failed
                why.append(f"{self.gemm_name(todo.pop(0))}: {ended}")
        why += ["left out: " + ", ".join(map(self.gemm_name, todo))] if todo else []
        if why:
            raise (OverTime if todo else RuntimeError)("; ".join(why))

    @staticmethod
    def gemm_name(job):
        dtype, batch, gemm = job
        return f"{gemm[0]}{f' {gemm[1]}' if gemm in SQUARES else ''} {dtype} batch {batch}"

    def tune(self):
        """The networks' products in fp16, smallest batch first. What is stopped at its time keeps
        the products that it has measured."""
        if self.dry:
            return  # libcusim refuses to tune
        for batch in BATCHES:
            self.tuned.add(("fp16", batch))
            got = json.loads(self.run("build/nngen", "tune", "models/resnet18.lua", "--dtype",
                                      "fp16", "--json", "--quiet", "--tuning", self.tuning, "--set",
                                      f"batch={batch}"))
            self.result.setdefault("tune", got).setdefault("batches", []).append(batch)

    # ---- the whole -------------------------------------------------------------------------------

    def all(self):
        self.facts()
        for name in SHARES:
            self.stage(name)
            self.store()
        if self.peers:
            self.peers.close()
        shutil.rmtree(self.work, ignore_errors=True)
        try:
            print(table.text(self.result, whole=True))
        except Exception as error:  # a table is made again from the JSON, the samples are not
            note(f"no table: {error!r}")
        if self.path:
            note(f"stored in {self.path}; "
                 f"tests/bench/table.py --readme README.md tests/bench/README.md shows it there")


def main():
    parser = argparse.ArgumentParser(description="benchmarks on a GPU")
    parser.add_argument("--results", default=os.path.join(ROOT, "tests/bench/results"))
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--seconds", type=float, default=525)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--cache")
    parser.add_argument("--jobs", type=re.compile, default=re.compile(""))
    parser.add_argument("--only", type=lambda text: text.split(","), help="stages, by name")
    options = parser.parse_args()
    for needed in ("build/nngen", "build/tests/bench/bench_gpu"):
        if not os.path.exists(os.path.join(ROOT, needed)):
            sys.exit(f"bench: {needed} is missing; `make tests` builds it, "
                     f"on a machine with the packages")
    Bench(options).all()


if __name__ == "__main__":
    main()
