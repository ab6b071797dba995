#!/usr/bin/env bash
# Models that were wrong or refused once (faults.lua), against the oracle.
. "$(dirname "$0")/../tap.sh"
for case in captured leading macros numbered symbol negative batches reshaped halves beside \
  $(long && echo products); do
  ok "$case" build/nngen tests/models/faults.lua --set case=$case --quiet --check
done
tap_done
