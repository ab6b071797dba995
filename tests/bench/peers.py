#!/usr/bin/env python3
"""PyTorch's times for the networks, steps of training, attention and contractions that nngen runs,
to be measured beside it.

usage: peers.py [--device cuda|cpu] [--quick]
           (one request a line on stdin, as JSON; one or more JSON objects a line on stdout)

Requests:  {"do": "info"}
           {"do": "prepare", "model": "resnet18", "batch": 1, "dtype": "fp16"}
                                             inference of one of torchvision's networks
           {"do": "training", "model": "resnet18", "stem": "cifar", "batch": 128, "dtype": "bf16",
            "lr": 1e-9}
                                             a step of training of one, or of an attention block:
           {"do": "block", "training": true, "batch": 1, "dtype": "bf16", "tokens": 2048,
            "width": 1024, "heads": 32, "lr": 1e-9}
           {"do": "attention", "shape": [B,H,N,D], "causal": true, "dtype": "bf16"}
           {"do": "compile", "mode": "max-autotune"}
                                             torch.compile of what is prepared, which can take
                                             minutes; or "default", or "reduce-overhead", which
                                             take less; the latter has its own graphs
           {"do": "sample", "runs": 50}      times every prepared variant once more, in turns
           {"do": "forget"}                  frees the model
           {"do": "conv", "x": [n,c,h,w], "w": [k,c,r,s], "stride": .., "pad": .., "dtype": ..}
           {"do": "quit"}

Variants of a network: eager, eager channels_last, torch.compile, each launched and, on a GPU,
replayed as one CUDA graph; of a step of training (channels_last; 16 bits: autocast) and of a block:
eager and torch.compile, each launched and replayed; of attention: its fused kernels, replayed.
Times are between device events, milliseconds a run. Weights and inputs are random. A variant that
this PyTorch does not have is reported, not guessed.
"""
import argparse
import copy
import gc
import json
import os
import sys
import time

try:
    import torch
except ImportError:
    print(json.dumps({"error": "PyTorch is not installed"}))
    sys.exit(77)

from peer_models import Block, normalised, resnet, training_step  # noqa: E402

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def say(**fields):
    print(json.dumps(fields), flush=True)


def note(text):
    print(f"peers: {text}", file=sys.stderr, flush=True)


def same(network):
    return network


def no_grad(network, image):  # for torch.compile and CUDA graphs, rather than inference_mode
    def run():
        with torch.no_grad():
            return network(image)
    return run


class Peers:
    def __init__(self, device, quick):
        self.device, self.quick = device, quick
        self.gpu = device == "cuda"
        self.make = None  # given what wraps a network: a function that runs it, wrapped, once
        self.variants = {}  # name -> a function that runs the network once
        torch.manual_seed(0)
        if self.gpu:
            torch.backends.cudnn.benchmark = True  # cuDNN may time its algorithms
            self.allow_tf32(False)

    @staticmethod
    def allow_tf32(allowed):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed

    # ---- time -----------------------------------------------------------------------------------

    def sync(self):
        if self.gpu:
            torch.cuda.synchronize()

    def time_runs(self, run, runs):
        """Milliseconds of each of `runs` runs."""
        samples = []
        for _ in range(runs):
            if self.gpu:
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                run()
                end.record()
                end.synchronize()
                samples.append(begin.elapsed_time(end))
            else:
                begin = time.perf_counter()
                run()
                samples.append((time.perf_counter() - begin) * 1e3)
        return samples

    def as_graph(self, run):
        """`run` captured as a CUDA graph: a function that replays it."""
        if not getattr(run, "captures", True):
            raise RuntimeError("its update waits for the GPU")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return graph.replay

    # ---- networks -------------------------------------------------------------------------------

    def add(self, name, make):
        """Makes a variant, runs it a few times, keeps it; a failure is reported."""
        begin = time.perf_counter()
        try:
            run = make()
            for _ in range(1 if self.quick else 5):
                run()
            self.sync()
            self.variants[name] = run
            say(prepared=name, seconds=time.perf_counter() - begin)
        except Exception as why:  # an operator, a backend, memory: the others go on
            say(missing=name,
                why=str(why).strip().splitlines()[0][:200] if str(why).strip() else repr(why))

    def prepare(self, model, batch, dtype, size=224):
        import torchvision
        self.variants = {}
        self.allow_tf32(dtype == "tf32")
        net = (getattr(torchvision.models, model)(weights=None)
               if hasattr(torchvision.models, "get_model")
               else getattr(torchvision.models, model)(pretrained=False))
        net = net.eval().to(self.device, DTYPES[dtype])
        last = getattr(torchvision.models, model)().eval()
        last.load_state_dict(net.state_dict())
        last = last.to(self.device, DTYPES[dtype]).to(memory_format=torch.channels_last)
        x = torch.randn(batch, 3, size, size, device=self.device).to(DTYPES[dtype])
        x_last = x.contiguous(memory_format=torch.channels_last)

        def forward(network, image):
            def run():
                with torch.inference_mode():
                    return network(image)
            return run

        self.add("eager", lambda: forward(net, x))
        self.add("eager channels_last", lambda: forward(last, x_last))
        if self.gpu:
            self.add("eager channels_last, graph", lambda: self.as_graph(no_grad(last, x_last)))
        self.make = lambda wrap: no_grad(wrap(last), x_last)

    # ---- attention, steps of training ------------------------------------------------------------

    def both(self, make):
        """The variants "eager" and "eager, graph" of make(wrap), and what compile() compiles."""
        self.make = make
        self.add("eager", lambda: make(same))
        if self.gpu:
            self.add("eager, graph", lambda: self.as_graph(make(same)))

    def attention(self, shape, causal, dtype):
        self.variants = {}
        q, k, v = (torch.randn(shape, device=self.device).to(DTYPES[dtype]) for _ in range(3))

        def kernel(backend):
            from torch.nn.attention import SDPBackend, sdpa_kernel
            chosen = getattr(SDPBackend, backend)

            def run():
                with torch.no_grad(), sdpa_kernel([chosen]):
                    return torch.nn.functional.scaled_dot_product_attention(q, k, v,
                                                                            is_causal=causal)
            return self.as_graph(run) if self.gpu else run
        self.add("flash", lambda: kernel("FLASH_ATTENTION"))
        self.add("cuDNN", lambda: kernel("CUDNN_ATTENTION"))

    def train(self, net, loss_of, dtype, how):
        """A step of training of a copy of `net`; dtype of 16 bits: autocast."""
        self.allow_tf32(dtype == "tf32")
        half = DTYPES[dtype] if dtype in ("fp16", "bf16") else None

        def make(wrap):
            own = copy.deepcopy(net).train()
            return training_step(wrap(own), loss_of, self.device, half, how)
        self.both(make)

    def training(self, model, stem, batch, dtype, size=32, classes=10, lr=0.0):
        self.variants = {}
        net = resnet(model, stem, classes).to(self.device, memory_format=torch.channels_last)
        images = torch.randint(0, 256, (batch, 3, size, size), dtype=torch.uint8,
                               device=self.device).contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, classes, (batch,), device=self.device)
        pixels = normalised(images)

        def loss_of(network):
            return torch.nn.functional.cross_entropy(network(pixels()), labels)
        self.train(net, loss_of, dtype,
                   {"lr": lr, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4})

    def block(self, training, batch, dtype, tokens, width, heads, lr):
        self.variants = {}
        shape = (batch, tokens, width)
        net = Block(width, heads).to(self.device)
        if training:  # new random tokens in each step, as models/block.lua draws them

            def loss_of(network):
                y = network(torch.randn(shape, device=self.device))
                return y.float().square().sum((1, 2)).mean()
            self.train(net, loss_of, dtype, {"lr": lr, "momentum": 0.9})
            return
        net = net.eval().to(DTYPES[dtype])
        x = torch.randn(shape, device=self.device).to(DTYPES[dtype])
        self.both(lambda wrap: no_grad(wrap(net), x))

    # ---- torch.compile, times --------------------------------------------------------------------

    def compile(self, mode="max-autotune"):
        if not hasattr(torch, "compile"):
            say(missing="compile", why=f"torch {torch.__version__} has no torch.compile")
            return
        how = {"mode": mode if mode != "max-autotune" else mode + "-no-cudagraphs"}
        how = how if self.gpu else {"backend": "eager"}  # CPU: only that it runs
        name, compiled = mode if mode == "reduce-overhead" else "compile", []

        def make():
            compiled.append(self.make(lambda net: torch.compile(net, dynamic=False, **how)))
            return compiled[0]
        self.add(name, make)
        if self.gpu and name == "compile" and name in self.variants:
            self.add("compile, graph", lambda: self.as_graph(compiled[0]))

    def sample(self, runs):
        for name, run in self.variants.items():
            say(variant=name, samples_ms=self.time_runs(run, runs))

    def forget(self):
        """NOTE: torch.compile counts how often a network's code was compiled, whichever the
        instance, and after 8 times runs it as it is; the count begins anew here."""
        self.variants, self.make = {}, None
        if hasattr(torch, "compile"):
            torch._dynamo.reset()
        gc.collect()
        if self.gpu:
            torch.cuda.empty_cache()

    # ---- one convolution ------------------------------------------------------------------------

    def conv(self, x, w, stride, pad, dtype, runs=50):
        image = torch.randn(*x, device=self.device).to(DTYPES[dtype]).contiguous(
            memory_format=torch.channels_last)
        weight = torch.randn(*w, device=self.device).to(DTYPES[dtype]).contiguous(
            memory_format=torch.channels_last)

        def run():
            with torch.no_grad():
                return torch.nn.functional.conv2d(image, weight, None, stride, pad)
        for _ in range(3):
            run()
        self.sync()
        inner = 10 if self.gpu else 1

        def many():
            for _ in range(inner):
                run()
        timed = self.as_graph(many) if self.gpu else many
        say(variant="conv2d",
            samples_us=[ms * 1e3 / inner
                        for ms in self.time_runs(timed, 2 if self.quick else runs)])

    def info(self):
        facts = {"torch": torch.__version__, "device": self.device,
                 "threads": torch.get_num_threads()}
        if self.gpu:
            facts.update(name=torch.cuda.get_device_name(), cuda=torch.version.cuda,
                         cudnn=torch.backends.cudnn.version())
        say(**facts)


def serve(peers):
    for line in sys.stdin:
        if not line.strip():
            continue
        request = json.loads(line)
        do = request.pop("do")
        if do == "quit":
            break
        try:
            if do == "forget":
                peers.forget()
            else:
                {"info": peers.info, "prepare": peers.prepare, "compile": peers.compile,
                 "sample": peers.sample, "attention": peers.attention, "block": peers.block,
                 "training": peers.training,
                 "conv": peers.conv}[do](**request)
        except Exception as why:
            say(error=f"{do}: {why}"[:300])
        say(done=do)


def main():
    parser = argparse.ArgumentParser(description="PyTorch's times, measured beside nngen")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu",
                        choices=["cuda", "cpu"])
    parser.add_argument("--quick", action="store_true", help="as few runs as show that it works")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        say(error="this PyTorch sees no GPU")
        sys.exit(3)
    if options.device == "cpu":  # on all cores, as libcusim
        torch.set_num_threads(len(os.sched_getaffinity(0)))
    if not options.quick:
        note(f"torch {torch.__version__} on {options.device}")
    serve(Peers(options.device, options.quick))


main()
