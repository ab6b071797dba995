// boxes.cuh: rows of heads that come to shared memory as boxes of a tensor map: one thread asks the
// copy engine for them, which lays them out as HeadRows in panels.
#pragma once
#include "lib/attend.cuh"

// kTile rows of kDepth elements from element `at` of the map on, of which at[0] is set here, to a
// tile; outside of the tensor there are zeros. They land at `bar`, which has one arrival by this.
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
