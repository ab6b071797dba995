#!/usr/bin/env python3
"""What test_step.sh does with files of weights.

usage: step_weights.py scale IN VALUE OUT [GOOD]
           the scale of the loss becomes VALUE, behind GOOD steps that did not overflow
       step_weights.py is FILE VALUE          the scale of the loss is VALUE
       step_weights.py skipped BEFORE AFTER   parameters and moments are the same, the scale is half
"""
import json
import struct
import sys


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + size]), bytearray(data[8 + size:]), data[:8 + size]


def tensor(header, body, name):
    begin, end = header[name]["data_offsets"]
    return bytes(body[begin:end])


def main(verb, *args):
    header, body, head = read(args[0])
    at = header["train.loss_scale"]["data_offsets"][0]
    if verb == "is":
        scale, = struct.unpack("<f", tensor(header, body, "train.loss_scale"))
        sys.exit(scale != float(args[1]) and "the scale is %g" % scale)
    if verb == "scale":
        if len(args) > 3:
            good = header["train.good_steps"]["data_offsets"][0]
            body[good:good + 4] = struct.pack("<i", int(args[3]))
        body[at:at + 4] = struct.pack("<f", float(args[1]))
        with open(args[2], "wb") as f:
            f.write(head + body)
        return
    after, changed, _ = read(args[1])
    for name in header:
        moves = (name in ("__metadata__", "train.step", "train.loss_scale", "train.good_steps")
                 or "running_" in name)
        if not moves and tensor(header, body, name) != tensor(after, changed, name):
            sys.exit("%s has changed" % name)
    before, now = (struct.unpack("<f", tensor(h, b, "train.loss_scale"))[0]
                   for h, b in ((header, body), (after, changed)))
    if now != before / 2:
        sys.exit("the scale went from %g to %g" % (before, now))


main(*sys.argv[1:])
