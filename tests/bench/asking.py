"""asking.py: PyTorch's times, asked of peers.py, which is kept running."""
import importlib.util
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPILE_SECONDS = 75  # of torch.compile, for one network and batch


def note(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def kill_session(leader):
    """Ends the process and all of its session: timeout(1) puts what it runs into groups of
    their own."""
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


class Peers:
    """tests/bench/peers.py, kept running: PyTorch takes seconds to start."""

    def __init__(self, bench):
        self.bench, self.process, self.absent, self.answers = bench, None, None, None
        self.compile_seconds, self.late = 0, {}  # late: why a mode is not asked for again
        self.failed = None  # what PyTorch said of a request that failed
        self.start()

    def start(self):
        self.absent = None
        command = [self.python(), os.path.join(ROOT, "tests/bench/peers.py")]
        command += ["--device", "cpu", "--quick"] if self.bench.dry else ["--device", "cuda"]
        try:
            self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                            start_new_session=True)
        except OSError as error:
            self.absent, self.process = f"PyTorch: {error}", None
            self.bench.result.setdefault("peers", {"missing": self.absent})
            return
        self.answers = queue.Queue()
        threading.Thread(target=self.read, args=(self.process.stdout, self.answers),
                         daemon=True).start()
        facts = self.ask(do="info")
        told = next((line for line in facts if "torch" in line), None)
        if told or "torch" not in self.bench.result.get("peers", {}):
            self.bench.result["peers"] = told or {"missing": self.absent}

    def python(self):
        for candidate in (os.environ.get("NNGEN_PEERS_PYTHON"), sys.executable, "python3",
                          "/usr/bin/python3"):
            if candidate == sys.executable:  # asked without importing them, which takes seconds
                if all(map(importlib.util.find_spec, ("torch", "torchvision"))):
                    return candidate
                continue
            try:
                if candidate and subprocess.run(
                        [candidate, "-c", "import torch, torchvision"], capture_output=True,
                        timeout=max(1, min(60, self.bench.left()))).returncode == 0:
                    return candidate
            except (OSError, subprocess.SubprocessError) as error:
                note(f"{candidate}: {error}")
        return sys.executable or "python3"

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
                    self.failed = next((l["error"] for l in lines if "error" in l), self.failed)
                    return lines
        except (BrokenPipeError, OSError):
            said = next((line["error"] for line in lines if "error" in line), "it ended early")
            self.absent = f"PyTorch: {said}"
        except queue.Empty:
            self.absent = f"PyTorch took too long over {request['do']}"
            self.kill()
        note(self.absent)
        return lines

    def prepare(self, modes, do="prepare", **what):
        """The variants of what is to be measured: as it is, and by torch.compile in the first of
        `modes` that ends in time. One that did not is not asked for again."""
        lines, missing = self.ask(do=do, **what), []
        for mode in modes:
            if self.absent:
                break
            if mode not in self.late:
                begin, cap = time.monotonic(), min(COMPILE_SECONDS, self.bench.left() / 2)
                lines += self.ask(do="compile", seconds=cap, mode=mode)
                self.compile_seconds += time.monotonic() - begin
                if not self.absent:
                    break
                slow = "took too long" in self.absent
                self.late[mode] = f"torch.compile mode={mode}" + (
                    f" took over {cap:.0f} s" if slow else f": {self.absent}")
                self.start()
                lines = self.ask(do=do, **what)
            missing.append({"missing": mode if mode == "reduce-overhead" else "compile",
                            "why": self.late[mode]})
        return lines + missing

    def renew(self):
        """Where PyTorch has failed, as when a graph's capture broke off, it may fail from then on:
        another process takes its place."""
        if self.failed and not self.absent:
            note(f"PyTorch starts again: {self.failed}")
            self.close()
            self.start()
        self.failed = None

    def kill(self):
        if self.process:
            kill_session(self.process.pid)

    def close(self):
        self.kill()
        if self.process:
            self.process.wait()
