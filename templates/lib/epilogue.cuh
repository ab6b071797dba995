// epilogue.cuh: the outputs of a tile, once they stand in shared memory.
#pragma once
#include "lib/tile.cuh"

// Calls each(m, n, outputs) for those of the `rows` x kN outputs that are in the tile from (m0, n0)
// on, kLanes neighbours along n at a time; `rows` is a multiple of kM. A thread keeps its columns,
// where there are threads for all of them.
template <int kM, int kN, int kTileM, int kTileN, int kLanes, int kThreads, class Each>
__device__ __forceinline__ void each_output(const float *staged, int m0, int n0, int rows,
                                            Each each) {
  constexpr int kAll = kTileN / kLanes, kAlongN = kAll < kThreads ? kAll : kThreads;  // threads
  static_assert(kThreads % kAlongN == 0 && kAll % kAlongN == 0, "a thread keeps its columns");
#pragma unroll
  for (int first = 0; first < kAll; first += kAlongN) {
    const int column = (first + threadIdx.x % kAlongN) * kLanes, n = n0 + column;
    for (int row = threadIdx.x / kAlongN; row < kTileM; row += kThreads / kAlongN) {
      const int m = m0 + row;
      if ((kM % kTileM && m >= rows) || (kN % kTileN && n >= kN)) break;
      each(m, n, read_staged<kLanes>(staged, kTileN, row, column));
    }
  }
}

// The same where columns of a product stand beside those of its other half: calls each(m, n,
// outputs, others), n a column of half of the product, `others` those of the second half.
template <int kM, int kN, int kTileM, int kTileN, int kLanes, int kThreads, class Each>
__device__ __forceinline__ void each_pair(const float *staged, int m0, int n0, int rows,
                                          Each each) {
  constexpr int kHalf = kTileN / 2, kAlongN = kHalf / kLanes;
  static_assert(kN % kTileN == 0, "whole tiles of columns");
  const int column = threadIdx.x % kAlongN * kLanes;
  for (int row = threadIdx.x / kAlongN; row < kTileM; row += kThreads / kAlongN) {
    const int m = m0 + row;
    if (kM % kTileM && m >= rows) break;
    each(m, n0 / 2 + column, read_staged<kLanes>(staged, kTileN, row, column),
         read_staged<kLanes>(staged, kTileN, row, kHalf + column));
  }
}
