#!/usr/bin/env bash
# First and second derivatives beside exact values, where formulas easily lose them
# (derivatives.lua), and each kernel against the oracle.
. "$(dirname "$0")/../tap.sh"
exact() { # exact CASE
  build/nngen tests/models/derivatives.lua --quiet --check --set case=$1 --output "$work/$1" &&
    python3 tests/models/attention_reference.py equal "$work/$1/one.npy" "$work/$1/other.npy" 1e-6
}
for case in $(sed -n 's/^function cases\.\([a-z_0-9]*\).*/\1/p' tests/models/derivatives.lua); do
  ok "derivatives: $case" exact $case
done
tap_done
