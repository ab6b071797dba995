#!/usr/bin/env python3
"""Relative L2 error of npy files against others: compare_npy.py WANT GOT GATE, of two files, or of
every file in folder GOT beside the one of its name in WANT; exit 1 when one is over."""
import os
import sys

import numpy

want, got, gate = sys.argv[1:]
pairs = [(want, got)]
if os.path.isdir(got):
    pairs = [(f"{want}/{name}", f"{got}/{name}") for name in sorted(os.listdir(got))]
bad = not pairs
for want, got in pairs:
    a, b = numpy.load(want).astype("f8"), numpy.load(got).astype("f8")
    error = (numpy.linalg.norm(b - a) / numpy.linalg.norm(a)
             if a.shape == b.shape else float("inf"))
    print(f"{got}: relative error {error:.3g}, gate {gate}")
    bad = bad or not error <= float(gate)
sys.exit(bad)
