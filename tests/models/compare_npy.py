#!/usr/bin/env python3
"""Relative L2 error of one npy file against another: compare_npy.py WANT GOT GATE; exit 1 when
over."""
import sys

import numpy

want, got = numpy.load(sys.argv[1]).astype("f8"), numpy.load(sys.argv[2]).astype("f8")
error = (numpy.linalg.norm(got - want) / numpy.linalg.norm(want)
         if want.shape == got.shape else float("inf"))
print(f"relative error {error:.3g}, gate {sys.argv[3]}")
sys.exit(not error <= float(sys.argv[3]))
