// tensors.cuh: launches over several tensors.
#pragma once

// The part to which a block belongs: blocks begins[i] to begins[i + 1] - 1 are those of part i. It
// is one of first to final.
__device__ inline int part_of(const int *begins, int first, int final, int block) {
  while (first < final) {
    const int middle = (first + final + 1) / 2;
    if (begins[middle] <= block)
      first = middle;
    else
      final = middle - 1;
  }
  return first;
}
