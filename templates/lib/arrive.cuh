// arrive.cuh: blocks that meet through global memory, without waiting: the last one does the rest.
#pragma once

// For all threads of a block: is it the last of `blocks` to call this with `count`? What the others
// have written before is then visible, and the count is back at 0. `last` is in shared memory. One
// thread's fences order what the barriers have ordered for the block.
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

// Adds the tiles that kParts blocks have staged, kValues floats each, in the order of their parts:
// those of kGroup blocks first, by the last of these to arrive, then of all groups. True for the
// last of all, whose `staged` then holds the sum. `parts` has room for all; of `counts` there is
// one and, where there are several groups, one more for each.
template <int kThreads, int kValues, int kParts, int kGroup>
__device__ inline bool sum_parts(float *staged, float *parts, int part, int *counts, bool *last) {
  constexpr int kGroups = (kParts + kGroup - 1) / kGroup;
  const int group = part / kGroup, begin = group * kGroup;
  const int size = begin + kGroup < kParts ? kGroup : kParts - begin;
  constexpr int kTurn = kThreads * 4;  // values
  constexpr int kAtOnce = kValues % kTurn == 0 ? nn_at_once(kValues / kTurn) : 1;
  // Keeps the tile as part `to`; the last of `count` blocks adds as many parts, `step` apart.
  auto meet = [&](int to, int *counter, int count, int first, int step) {
    for (int at = threadIdx.x * 4; at < kValues; at += kTurn)
      nn_store<4>(parts + to * kValues + at, nn_load<4>(staged + at));
    if (!last_to_arrive(counter, count, last)) return false;
#pragma unroll 1
    for (int at = threadIdx.x * 4; at < kValues; at += kAtOnce * kTurn) {
      Vec<float, 4> sum[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        sum[i] = nn_load<4>(parts + first * kValues + at + i * kTurn);
#pragma unroll 4
      for (int p = 1; p < count; ++p)
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const float *part_p = parts + (first + p * step) * kValues;
          const Vec<float, 4> next = nn_load<4>(part_p + at + i * kTurn);
          for (int j = 0; j < 4; ++j) sum[i][j] += next[j];
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

// Adds up what lanes of a warp have of the same columns: kLanes of them from `column` on, the same
// in lanes of the same lane % kApart. `sums` takes them; kAdds: they are added to what is there,
// those of a column always by the same lane. Lanes whose columns are 128 bytes apart take other halves of
// theirs, so that all store to other banks.
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

// Clears the sums of all warps. These add to them after the next barrier.
template <int kThreads, int kSums, int kWarps, int kColumns>
__device__ inline void clear_sums(float (&sums)[kSums][kWarps][kColumns]) {
  for (int at = threadIdx.x; at < kSums * kWarps * kColumns; at += kThreads) sums[0][0][at] = 0.f;
}

// Adds the sums of a column that warps have, in order.
template <int kWarps, int kColumns>
__device__ inline float sum_warps(const float (&sums)[kWarps][kColumns], int column) {
  float sum = 0.f;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += sums[w][column];
  return sum;
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
