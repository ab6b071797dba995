#!/usr/bin/env python3
"""What is in safetensors files.

usage: tensors.py same FILE FILE NAME...   these tensors have the same bytes
       tensors.py list FILE                names and shapes
       tensors.py values FILE NAME...      numbers of F32 tensors, one a line
"""
import json
import struct
import sys


def read(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (t["shape"],
                   data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]])
            for name, t in header.items()}


def main(mode, path, *rest):
    tensors = read(path)
    if mode == "list":
        for name, (shape, _) in tensors.items():
            print(name, *shape)
    elif mode == "values":
        data = b"".join(tensors[name][1] for name in rest)
        print(*struct.unpack("<%df" % (len(data) // 4), data), sep="\n")
    else:
        other = read(rest[0])
        for name in rest[1:]:
            if tensors[name] != other[name]:
                sys.exit(name + " differs")


if __name__ == "__main__":
    main(*sys.argv[1:])
