// boxes.cuh: rows of heads loaded by TMA: one thread issues the copies, which land as HeadRows in
// panels.
#pragma once
#include "lib/attend.cuh"

// Loads kTile rows of kDepth elements from element `at` of the map on into a tile (at[0] is set
// here; zeros outside of the tensor). Arrives once at `bar`, which also expects the bytes.
template <class T, int kDepth, int kTile, int kDims>
__device__ __forceinline__ void load_boxes(char *tile, const TensorMap &map, int (&at)[kDims],
                                           Mbar *bar) {
  using Rows = HeadRows<T, kDepth, kTile>;
  nn_mbar_arrive_expect_tx(bar, kTile * Rows::kBytes);
#pragma unroll
  for (int chunk = 0; chunk < Rows::kRowChunks; chunk += Rows::kTurns) {
    at[0] = chunk * (kChunkBytes / int(sizeof(T)));
    nn_tensor_load(tile + Rows::at(0, chunk), &map, at, bar);
  }
}
