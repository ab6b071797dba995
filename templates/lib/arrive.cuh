// arrive.cuh: last-block reductions through global memory: no block waits; the last one finishes.
#pragma once

// Called by all threads of a block: true in the last of `blocks` blocks that call it with `count`.
// The writes of the other blocks before their calls are then visible, and the count is 0 again.
// `last` is in shared memory. Barriers make one thread's fences sufficient for the block.
__device__ inline bool last_to_arrive(int *count, int blocks, bool *last) {
  nn_sync();
  if (threadIdx.x == 0) {
    nn_fence_device();
    *last = nn_atomic_add(count, 1) == blocks - 1;
    nn_fence_device();
  }
  nn_sync();
  if (!*last) return false;
  if (threadIdx.x == 0) *count = 0;
  return true;
}

// Integer sums wrap.
__device__ inline void add_to(float &sum, float value) { sum += value; }
__device__ inline void add_to(int &sum, int value) { sum = int(unsigned(sum) + unsigned(value)); }

// Split-K: adds the tiles of kValues values that kParts blocks have staged, in the order of their
// parts: first within groups of kGroup blocks, then over groups, each time by the last block to
// arrive. True in the last block of all, whose `staged` then holds the sum. `parts` has room for
// all tiles. counts: one counter, plus one per group if there are several groups. kInFlight: most
// loads of four values that a thread has in flight.
template <int kThreads, int kValues, int kParts, int kGroup, int kInFlight = 28, class PartSum>
__device__ inline bool sum_parts(PartSum *staged, PartSum *parts, int part, int *counts,
                                 bool *last) {
  constexpr int kGroups = (kParts + kGroup - 1) / kGroup;
  const int group = part / kGroup, begin = group * kGroup;
  const int size = begin + kGroup < kParts ? kGroup : kParts - begin;
  constexpr int kTurn = kThreads * 4;  // values
  constexpr int kAtOnce = kValues % kTurn == 0 ? nn_at_once(kValues / kTurn) : 1;
  // Stores the tile as part `to`; the last of `count` blocks adds parts first + i * step.
  auto meet = [&](int to, int *counter, int count, int first, int step) {
    for (int at = threadIdx.x * 4; at < kValues; at += kTurn)
      nn_store<4>(parts + to * kValues + at, nn_load<4>(staged + at));
    if (!last_to_arrive(counter, count, last)) return false;
#pragma unroll 1
    for (int at = threadIdx.x * 4; at < kValues; at += kAtOnce * kTurn) {
      Vec<PartSum, 4> sum[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        sum[i] = nn_load<4>(parts + first * kValues + at + i * kTurn);
#pragma unroll kInFlight / kAtOnce < 4 ? kInFlight / kAtOnce : 4
      for (int p = 1; p < count; ++p)
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const PartSum *part_p = parts + (first + p * step) * kValues;
          const Vec<PartSum, 4> next = nn_load<4>(part_p + at + i * kTurn);
          for (int j = 0; j < 4; ++j) add_to(sum[i][j], next[j]);
        }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) nn_store<4>(staged + at + i * kTurn, sum[i]);
    }
    nn_sync();
    return true;
  };
  if constexpr (kGroups == 1) return meet(part, counts, kParts, 0, 1);
  return meet(part, counts + 1 + group, size, begin, 1) && meet(begin, counts, kGroups, 0, kGroup);
}
