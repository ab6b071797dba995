// first.cuh: rows that the blocks of a kernel make together before they read them: each block takes
// jobs while there are any, then waits until all are done. It waits for blocks that run and do not
// wait themselves, however many have room at once and in whatever order they begin.
#pragma once
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"

// Of each kernel's counters: the next job, jobs done, blocks that have gone on; all 0 between runs.
enum { kNextJob, kJobsDone, kGoneOn };

// For all threads of a block: make(run) for the kRuns runs of some of kJobs jobs, then what all
// blocks have made is visible. `job` is the first one, of thread 0; `next` is in shared memory.
template <int kJobs, int kRuns, class Make>
__device__ __forceinline__ void make_first(int *counts, int job, int (&next)[2], Make make) {
  int made = 0, ahead = 0;
  if (threadIdx.x == 0) next[0] = job;
  nn_sync();
  for (int turn = 0; (job = next[turn]) < kJobs; turn ^= 1) {
    if (threadIdx.x == 0) ahead = nn_atomic_add(counts + kNextJob, 1);  // on its way meanwhile
#pragma unroll 1
    for (int run = job * kRuns; run < (job + 1) * kRuns; ++run) make(run);
    ++made;
    if (threadIdx.x == 0) next[turn ^ 1] = ahead;
    nn_sync();  // all know the next job, and have written the rows of this one
  }
  if (threadIdx.x == 0) {
    nn_fence_device();
    if (made) nn_atomic_add(counts + kJobsDone, made);
    while (nn_atomic_add(counts + kJobsDone, 0) < kJobs) {
    }
    nn_fence_device();
  }
  nn_sync();
}

// Afterwards, once in each block: the last one puts the counters back to 0.
__device__ __forceinline__ void go_on(int *counts) {
  if (threadIdx.x == 0 && nn_atomic_add(counts + kGoneOn, 1) == int(gridDim.x) - 1)
    counts[kNextJob] = counts[kJobsDone] = counts[kGoneOn] = 0;
}
