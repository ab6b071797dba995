#!/usr/bin/env python3
"""Small data sets as NumPy arrays, made without NumPy.

usage: data.py FOLDER TRAIN TEST [CLASSES [SIZE [CHANNELS [NOISE]]]]
           random pictures whose brightness tells their class
       data.py --digits FOLDER
           the digits of scikit-learn: every fifth for the test; exit 3: not installed
       data.py --labels FOLDER LABEL
           the first training label becomes LABEL
"""
import csv
import gzip
import importlib.util
import os
import random
import struct
import sys


def save(path, descr, shape, data):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (
        descr, ", ".join(map(str, shape)))
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def make(folder, split, count, classes, size, channels, noise):
    labels = [random.randrange(classes) for _ in range(count)]
    pixels = bytearray()
    for label in labels:
        for c in range(channels):
            for y in range(size):
                for x in range(size):
                    bright = 150 if (y * classes // size == label) else 60
                    pixels.append(max(0, min(255, int(random.gauss(bright, noise)))))
    save(f"{folder}/{split}_images.npy", "|u1", (count, channels, size, size), bytes(pixels))
    save(f"{folder}/{split}_labels.npy", "<i4", (count,), struct.pack("<%di" % count, *labels))


def digits(folder):
    found = importlib.util.find_spec("sklearn")
    if not found:
        sys.exit(3)
    with gzip.open(os.path.dirname(found.origin) + "/datasets/data/digits.csv.gz", "rt") as file:
        rows = [[int(float(v)) for v in row] for row in csv.reader(file)]
    os.makedirs(folder, exist_ok=True)
    for split, part in (("train", [r for i, r in enumerate(rows) if i % 5]), ("test", rows[::5])):
        pixels = bytes(min(255, v * 16) for row in part for v in row[:64])
        save(f"{folder}/{split}_images.npy", "|u1", (len(part), 1, 8, 8), pixels)
        save(f"{folder}/{split}_labels.npy", "<i4", (len(part),),
             struct.pack("<%di" % len(part), *(row[64] for row in part)))


if sys.argv[1] == "--digits":
    digits(sys.argv[2])
elif sys.argv[1] == "--labels":
    path = sys.argv[2] + "/train_labels.npy"
    data = bytearray(open(path, "rb").read())
    at = 10 + struct.unpack("<H", data[8:10])[0]
    data[at:at + 4] = struct.pack("<i", int(sys.argv[3]))
    open(path, "wb").write(data)
else:
    random.seed(1)
    folder, train, test = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    classes, size, channels, noise = (
        int(v) for v in (sys.argv[4:] + ["4", "8", "1", "30"][len(sys.argv) - 4:]))
    os.makedirs(folder, exist_ok=True)
    make(folder, "train", train, classes, size, channels, noise)
    make(folder, "test", test, classes, size, channels, noise)
