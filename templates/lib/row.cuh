// row.cuh: a value combined over the threads that share a row.
#pragma once

// Combines `v` of the kThreads threads of a row (one warp, or a whole block of several warps) and
// gives the result to all of them. `part` is one float per warp of the row, in shared memory.
template <int kThreads, class Combine, int kParts>
__device__ inline float row_reduce(float v, float (*part)[kParts], Combine combine) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) v = combine(v, nn_shfl_xor(v, offset));
  if constexpr (kThreads > kWarp) {  // then the block has one row
    const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    nn_sync();  // the last result has been read
    if (lane == 0) part[0][warp] = v;
    nn_sync();
    v = part[0][0];
#pragma unroll
    for (int w = 1; w < kThreads / kWarp; ++w) v = combine(v, part[0][w]);
  }
  return v;
}
