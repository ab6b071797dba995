#!/usr/bin/env python3
"""bench_gradients.py [--rows] [DTYPE...]: how exact derivatives are, rows of the op table by dtypes,
as a Markdown table.

Derivatives that nn.grad makes are compiled, run, and compared with the oracle's in double: the
relative error in the L2 norm. That the oracle's are derivatives, tests hold by central differences
in double (test_ops each row of the table, test_grad each class of ops). Maps are one line, by the
worst of them; --rows: each its own.
"""
import json, re, subprocess, sys

from place import part

CASES = ("sums", "extremes", "norms", "softmax", "prod", "scan", "products", "matmul", "batched",
         "conv", "transposed", "filter", "pooled", "max_pooled", "moved", "gathered", "chosen",
         "top", "batch_norm", "twice", "batch_norm_twice", "custom", "own", "own_reduction",
         "network")
HELD = ("test_ops", "test_grad")


def errors(model, dtype, case=None):
    """The relative error of each derivative that the model gives out, and the gate."""
    words = ["build/nngen", model, "--quiet", "--json", "--check", "--dtype", dtype]
    done = subprocess.run(words + (["--set", "case=" + case] if case else []),
                          capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    outputs = json.loads(done.stdout[done.stdout.index("\n{") + 1:]
                         if not done.stdout.startswith("{") else done.stdout)["outputs"]
    return {o["name"]: o for o in outputs if o["name"].startswith("d")}


def maps(dtype):
    """Of each map: the worst of its operands' derivatives."""
    worst = {}
    for name, output in errors("tests/models/gradients.lua", dtype).items():
        row = re.sub(r"^d_|_\d$", "", name)
        if row not in worst or output["error"] > worst[row]["error"]:
            worst[row] = output
    return worst


def cell(output):
    return f"{output['error']:.1e}" + ("" if output["passed"] else " (too large)")


def line(title, outputs):
    print(f"| {title} | " + " | ".join(cell(o) for o in outputs) + " |")


def held():
    for test in HELD:
        done = subprocess.run(["build/tests/gen/" + test], capture_output=True, text=True,
                              env={"CMOCKA_MESSAGE_OUTPUT": "TAP"})
        passed = len(re.findall(r"^ok", done.stdout, re.M))
        failed = len(re.findall(r"^not ok", done.stdout, re.M))
        print(f"`build/tests/gen/{test}`, central differences in double: {passed} of "
              f"{passed + failed} tests pass." if passed else f"{test}: did not run.")


def main():
    words = sys.argv[1:]
    dtypes = [w for w in words if not w.startswith("--")] or ["fp32", "tf32", "fp16", "bf16"]
    part("gradients")
    print("Gradients, compiled and run: relative error against the oracle in double\n"
          "(`bench_gradients.py --rows` has a row for each map):\n")
    print("| gradient of | " + " | ".join(dtypes) + " |")
    print("|---" * (len(dtypes) + 1) + "|")
    by_dtype = [maps(dtype) for dtype in dtypes]
    if "--rows" in words:
        for row in by_dtype[0]:
            line(row, [worst[row] for worst in by_dtype])
    else:
        line(f"{len(by_dtype[0])} maps, the worst",
             [max(worst.values(), key=lambda o: o["error"]) for worst in by_dtype])
    for case in CASES:
        line(case.replace("_", " "),
             [max(errors("tests/gen/grad.lua", dtype, case).values(), key=lambda o: o["error"])
              for dtype in dtypes])
    print()
    held()


if __name__ == "__main__":
    main()
