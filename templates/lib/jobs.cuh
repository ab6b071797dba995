// jobs.cuh: dynamic scheduling of persistent blocks: a block that is done claims the next job.
#pragma once
#include "lib/prim.cuh"

// Called by one thread, once per job of its block: returns the block's next job, or kJobs or more
// if there is none. The first job is blockIdx.x. `taken` is 0 between launches.
template <int kJobs> __device__ __forceinline__ int next_job(int *taken) {
  const int before = nn_atomic_add(taken, 1);  // jobs claimed so far, by all blocks
  if (before == kJobs - 1) *taken = 0;
  return int(gridDim.x) + before;
}
