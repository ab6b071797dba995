// jobs.cuh: blocks that go on from job to job: whoever is done takes the next one.
#pragma once
#include "lib/prim.cuh"

// By one thread, once for each of a block's jobs: the number of its next one; kJobs or more: none.
// The first is the block's own number. `taken` is 0 between launches.
template <int kJobs> __device__ __forceinline__ int next_job(int *taken) {
  const int before = nn_atomic_add(taken, 1);  // as many as jobs are done, over all blocks
  if (before == kJobs - 1) *taken = 0;
  return int(gridDim.x) + before;
}
