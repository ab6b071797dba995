#!/usr/bin/env python3
"""loop_registers.py DIR...: do products of warp groups, in a loop, read registers that the loop
inherits from before it and overwrites? libcusim cannot see that: ptxas 13.0 did so to queries that
attention keeps (lib/attend_wgmma.cuh, keep). Of every cubin in the folders, by cuobjdump."""
import glob
import re
import subprocess
import sys


def instructions(cubin):
    said = subprocess.run(["cuobjdump", "-sass", cubin], capture_output=True, text=True,
                          check=True).stdout
    found = re.findall(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+ )?\s*(.*?)\s*;", said, re.M)
    return [(int(at, 16), text) for at, text in found]


def written(text):
    """The registers that an instruction writes: its first operand and those that follow it."""
    operation, _, rest = text.partition(" ")
    if re.match(r"ST|RED|BRA|BAR|LDGSTS|DEPBAR|ISETP|FSETP", operation):
        return set()
    first = next((x.strip() for x in rest.split(",") if not re.match(r"\s*U?P\w", x)), "")
    register = re.match(r"R(\d+)", first)
    if not register:
        return set()
    product = re.match(r"HGMMA\.64x(\d+)x", operation)
    count = (int(product.group(1)) // 2 if product else
             4 if re.search(r"\.128|\.M88\.4", operation) else
             2 if re.search(r"\.64|WIDE", operation) else 1)
    return set(range(int(register.group(1)), int(register.group(1)) + count))


def overwritten(code):
    """(address, registers) of products that read what a loop's earlier round has overwritten."""
    index = {at: i for i, (at, _) in enumerate(code)}
    found = []
    for i, (at, text) in enumerate(code):
        to = re.match(r"BRA\b.*?0x([0-9a-f]+)", text)
        if not to or int(to.group(1), 16) >= at or int(to.group(1), 16) not in index:
            continue
        body = code[index[int(to.group(1), 16)]:i + 1]
        all_written = set().union(*(written(line) for _, line in body))
        before = set()
        for where, line in body:
            product = re.match(r"HGMMA\S*\s+R\d+, R(\d+),", line)
            if product:
                read = set(range(int(product.group(1)), int(product.group(1)) + 4))
                if (read - before) & all_written:
                    found.append((where, sorted((read - before) & all_written)))
            before |= written(line)
    return found


def main():
    products = 0
    wrong = []
    for folder in sys.argv[1:]:
        for cubin in sorted(glob.glob(f"{folder}/*.cubin")):
            code = instructions(cubin)
            products += sum(text.startswith("HGMMA") for _, text in code)
            wrong += [f"{cubin} at {at:#x}: registers {registers} are overwritten in the loop"
                      for at, registers in overwritten(code)]
    if not products:
        wrong.append("no product of warp groups in " + " ".join(sys.argv[1:]))
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
