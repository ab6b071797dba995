// columns.cuh: sums of the columns of a product's outputs: over the rows of a block's tile, then
// over all blocks that have these columns, in an order that does not change.
#pragma once
#include "lib/arrive.cuh"

// Adds up what lanes of a warp have of the same columns: kLanes of them from `column` on, the same
// in lanes of the same lane % kApart. `sums` takes them; kAdds: they are added to what is there,
// those of a column always by the same lane. Lanes whose columns are 128 bytes apart take other
// halves of theirs, so that all store to other banks.
template <bool kAdds, int kApart, int kLanes>
__device__ inline void sum_rows(float *sums, int column, Vec<float, kLanes> part) {
  constexpr int kMost = kLanes * kApart / kWarp;
  constexpr int kLeft = kMost < 1 ? 1 : kMost < kLanes ? kMost : kLanes;  // columns of a lane
  constexpr int kSpread = kWarp / kLanes, kTurned = kSpread < kApart ? kSpread : 0;
  constexpr int kChunk = kLeft < 4 ? kLeft : 4;
  const int lane = threadIdx.x % kWarp;
  const bool turned = lane & kTurned;
#pragma unroll
  for (int bit = kWarp / 2, count = kLanes; bit >= kApart; bit /= 2) {
    if (count > 1) {  // two lanes share their columns
      const bool upper = bool(lane & bit) != (turned && bit == kWarp / 2);
      count /= 2;
      if (upper) column += count;
#pragma unroll
      for (int j = 0; j < count; ++j) {
        const float mine = upper ? part[count + j] : part[j];
        part[j] = mine + nn_shfl_xor(upper ? part[j] : part[count + j], bit);
      }
    } else {
      part[0] += nn_shfl_xor(part[0], bit);
    }
  }
  if (kSpread > kApart && lane & (kSpread - kApart)) return;  // another lane has the same
#pragma unroll
  for (int h = 0; h < kLeft; h += kChunk) {
    const int other = kLeft - kChunk - h, at = column + (turned && kLeft > 4 ? other : h);
    Vec<float, kChunk> chunk;
    for (int j = 0; j < kChunk; ++j)
      chunk[j] = turned && kLeft > 4 ? part[other + j] : part[h + j];
    for (int j = 0; kAdds && j < kChunk; ++j) chunk[j] += sums[at + j];
    nn_store<kChunk>(sums + at, chunk);
  }
}

// Adds the values of kBlocks blocks, in order: of groups of kGroup first, each by the last block of
// the group to arrive, then of all groups by the last of those; kGroup is kBlocks: of all, by the
// last of all. True for that one, with the sums in `sum`. A thread that owns a value keeps it at
// `place`: [sums][blocks, then groups] rows of kStride floats. There is a count for each group, and
// one more.
template <int kBlocks, int kGroup, int kStride, int kSums>
__device__ inline bool sum_blocks(float (&sum)[kSums], bool owns, float *place, int block,
                                  int *counts, bool *last) {
  constexpr int kGroups = kGroup < kBlocks ? (kBlocks + kGroup - 1) / kGroup : 0;
  constexpr int kRows = kBlocks + kGroups, kAtOnce = kSums < 3 ? 16 : 8;
  const int group = block / kGroup, begin = group * kGroup;
  const int size = begin + kGroup < kBlocks ? kGroup : kBlocks - begin;
  // Keeps the sums in row `to`; the last of `count` blocks adds the rows from `first` on.
  auto meet = [&](int to, int *counter, int count, int first) {
    for (int s = 0; owns && s < kSums; ++s) place[(s * kRows + to) * kStride] = sum[s];
    if (!last_to_arrive(counter, count, last)) return false;
    for (int s = 0; s < kSums; ++s) sum[s] = 0.f;
#pragma unroll 1
    for (int b = 0; owns && b < count; b += kAtOnce) {
      float part[kSums][kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
        for (int s = 0; s < kSums; ++s)
          part[s][i] = b + i < count ? place[(s * kRows + first + b + i) * kStride] : 0.f;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
        for (int s = 0; s < kSums; ++s) sum[s] += part[s][i];
    }
    return true;
  };
  if constexpr (kGroups == 0) return meet(block, counts, kBlocks, 0);
  return meet(block, counts + group, size, begin) &&
         meet(kBlocks + group, counts + kGroups, kGroups, kBlocks);
}

// kSums sums of each of kColumns columns, in shared memory. Threads that are kApart from each other
// have the same columns. kMeeting blocks have sums of them; groups of kGroup blocks are added first
// (kMeeting: all at once).
template <int kSums, int kThreads, int kColumns, int kApart, int kMeeting, int kGroup>
struct ColumnSums {
  static constexpr int kWhole = kApart < kWarp ? kWarp : kApart;  // threads that have all columns
  static constexpr int kWarps = kThreads / kWhole;                // as many warps together
  static constexpr int kGroups = kGroup < kMeeting ? (kMeeting + kGroup - 1) / kGroup : 0;
  static constexpr int kCounts = kGroups + 1;                     // counters of these columns
  static constexpr int kKept = kSums * (kMeeting + kGroups);      // floats of a column in memory
  static_assert(kColumns <= kThreads, "a thread for every column");
  float sums[kSums][kWarps][kColumns];

  // These begin at 0 for `add_part` behind the next barrier.
  __device__ void clear() {
    for (int at = threadIdx.x; at < kSums * kWarps * kColumns; at += kThreads) sums[0][0][at] = 0.f;
  }

  // Takes what this thread has of kLanes columns from `column` on; kAdds: adds it to what is there.
  template <bool kAdds, int kLanes>
  __device__ void add_part(int sum, int column, Vec<float, kLanes> part) {
    sum_rows<kAdds, kApart>(sums[sum][threadIdx.x / kWhole], column, part);
  }

  // The sum of a column over the block's rows, in the order of its warps.
  __device__ float of_block(int sum, int column) const {
    float total = 0.f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += sums[sum][w][column];
    return total;
  }
};
