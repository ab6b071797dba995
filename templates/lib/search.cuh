// search.cuh: binary search by a whole warp: each lane tests another place.
#pragma once

// The first i in [low, high) for which holds(i) is false, or high; holds() is true up to there. For
// all lanes of a warp.
template <class Holds> __device__ inline int warp_search(int low, int high, Holds holds) {
  const int lane = threadIdx.x % kWarp;
  while (low < high) {
    const int step = (high - low + kWarp - 1) / kWarp, at = low + lane * step;
    const int count = nn_popc(nn_ballot(at < high && holds(at)));
    if (!count) return low;
    const int beyond = low + count * step;
    low = beyond - step + 1;
    if (beyond < high) high = beyond;
  }
  return low;
}
