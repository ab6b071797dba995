// first.cuh: a grid-wide prologue: blocks claim jobs (rows of an operand) with an atomic counter,
// then wait until all jobs are done. Free of deadlock for any grid and any order of blocks, because
// a block finishes its jobs before it waits.
#pragma once
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"

// Counters of a kernel: next job; jobs done; blocks past the prologue. All 0 between launches.
enum { kNextJob, kJobsDone, kGoneOn };

// Called by all threads of a block: make(run) for the kRuns runs of each job it claims of kJobs; on
// return the rows of all blocks are visible. `job`: the first claim, in thread 0; `next`: shared.
template <int kJobs, int kRuns, class Make>
__device__ __forceinline__ void make_first(int *counts, int job, int (&next)[2], Make make) {
  int made = 0, ahead = 0;
  if (threadIdx.x == 0) next[0] = job;
  nn_sync();
  for (int turn = 0; (job = next[turn]) < kJobs; turn ^= 1) {
    if (threadIdx.x == 0) ahead = nn_atomic_add(counts + kNextJob, 1);  // overlaps
#pragma unroll 1
    for (int run = job * kRuns; run < (job + 1) * kRuns; ++run) make(run);
    ++made;
    if (threadIdx.x == 0) next[turn ^ 1] = ahead;
    nn_sync();  // next[] is visible, and the rows of this job are written
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

// To be called once per block after make_first: the last block resets the counters.
__device__ __forceinline__ void go_on(int *counts) {
  if (threadIdx.x == 0 && nn_atomic_add(counts + kGoneOn, 1) == int(gridDim.x) - 1)
    counts[kNextJob] = counts[kJobsDone] = counts[kGoneOn] = 0;
}
