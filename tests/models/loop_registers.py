#!/usr/bin/env python3
"""loop_registers.py DIR...: do products of warp groups read registers that hold on some ways what
was loaded for them, and on others what something else has left there? libcusim cannot see that:
ptxas 13.0 gave registers of queries that attention keeps to weights of the same round of a loop
(lib/attend_wgmma.cuh, keep). Of every cubin in the folders, by cuobjdump."""
import glob
import re
import subprocess
import sys


def instructions(cubin):
    """(address, whether it may not be executed, text) of each."""
    said = subprocess.run(["cuobjdump", "-sass", cubin], capture_output=True, text=True,
                          check=True).stdout
    found = re.findall(r"^\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+ )?\s*(.*?)\s*;", said, re.M)
    return [(int(at, 16), bool(predicate), text) for at, predicate, text in found]


def operands(text):
    """Of an instruction: its registers, or what else it has, without predicates."""
    return [x.strip() for x in text.partition(" ")[2].split(",") if not re.match(r"\s*U?P\w", x)]


def written(text):
    """The registers that an instruction writes: its first operand and those that follow it."""
    operation = text.partition(" ")[0]
    register = re.match(r"R(\d+)", next(iter(operands(text)), ""))
    if re.match(r"ST|RED|BRA|BAR|LDGSTS|DEPBAR|ISETP|FSETP", operation) or not register:
        return range(0)
    product = re.match(r"HGMMA\.64x(\d+)x", operation)
    count = (int(product.group(1)) // 2 if product else
             4 if re.search(r"\.128|\.M88\.4", operation) else
             2 if re.search(r"\.64|WIDE|^CS2R$", operation) else 1)
    return range(int(register.group(1)), int(register.group(1)) + count)


def ways(code):
    """Of each instruction: those that may follow it."""
    index = {at: i for i, (at, _, _) in enumerate(code)}
    follow = []
    for i, (_, predicated, text) in enumerate(code):
        to = re.match(r"BRA\b.*?0x([0-9a-f]+)", text)
        may = predicated or re.match(r"BRA(\.(U|DIV|CONV)\b|\s+!?U?P\d)", text)
        ends = re.match(r"(BRA|EXIT|RET)\b", text) and not may
        follow.append(([] if ends or i + 1 == len(code) else [i + 1])
                      + ([index[int(to.group(1), 16)]] if to else []))
    return follow


def mixed(code):
    """(address, register, what wrote it) of products' operands that several kinds of instructions
    may have written."""
    follow = ways(code)
    before = [None] * len(code)  # what may have written each register: {register: operations}
    before[0] = {}
    todo = [0]
    while todo:
        i = todo.pop()
        _, predicated, text = code[i]
        after = before[i]
        targets = written(text)
        if targets:
            after = dict(after)
            operation = text.partition(" ")[0].partition(".")[0]
            source = re.match(r"R(\d+)", operands(text)[-1]) if "MOV" in text else None
            wrote = frozenset((operation,))
            if source:
                wrote = after.get(int(source.group(1)), wrote)
            for register in targets:
                after[register] = wrote | (after.get(register, wrote) if predicated else wrote)
        for j in follow[i]:
            joined = after if before[j] is None else {
                r: before[j].get(r, frozenset()) | after.get(r, frozenset())
                for r in before[j].keys() | after.keys()}
            if joined != before[j]:
                before[j] = joined
                todo.append(j)
    found = []
    for i, (at, _, text) in enumerate(code):
        product = re.match(r"HGMMA\S*\s+R\d+, R(\d+),", text)
        if product and before[i] is None:
            found.append((at, int(product.group(1)), ["nothing: no way leads there"]))
        for register in range(4) if product and before[i] else ():
            wrote = before[i].get(int(product.group(1)) + register, frozenset())
            if len(wrote) > 1:
                found.append((at, int(product.group(1)) + register, sorted(wrote)))
    return found


def main():
    products = 0
    wrong = []
    for folder in sys.argv[1:]:
        for cubin in sorted(glob.glob(f"{folder}/*.cubin")):
            code = instructions(cubin)
            products += sum(text.startswith("HGMMA") for _, _, text in code)
            wrong += [f"{cubin} at {at:#x}: register {register} of a product was written by "
                      + " or ".join(wrote) for at, register, wrote in mixed(code)]
    if not products:
        wrong.append("no product of warp groups in " + " ".join(sys.argv[1:]))
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
