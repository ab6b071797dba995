// columns.cuh: column reductions of a contraction's outputs: over the rows of a block's tile, then
// over all blocks with these columns, then over groups of columns, in a fixed order. The kernel
// defines the state of a column (lib/reduce.cuh).
#pragma once
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"

// first ? a : b, word by word: on structs ?: would select addresses, and force them into memory.
template <class State> __device__ inline State choose(bool first, const State &a, const State &b) {
  State one;
#pragma unroll
  for (int w = 0; w < int(sizeof(State) / 4); ++w) {
    const float of_a = reinterpret_cast<const float *>(&a)[w];
    const float of_b = reinterpret_cast<const float *>(&b)[w];
    reinterpret_cast<float *>(&one)[w] = first ? of_a : of_b;
  }
  return one;
}

// Butterfly transpose-reduce: lanes kBit apart share kCount columns; each joins half of them, the
// upper lane the upper half (a single column is joined by both). Recurses with kBit / 2 down to
// kApart. Joined states are in part[0...]; `column` becomes the first column of this lane.
template <int kApart, int kCount, int kBit, int kLanes, class State>
__device__ __forceinline__ void join_shared(State (&part)[kLanes], int &column, bool turned) {
  if constexpr (kBit >= kApart) {
    constexpr int kHalf = kCount > 1 ? kCount / 2 : 1;
    if constexpr (kCount > 1) {
      const bool upper = bool(threadIdx.x & kBit) != (turned && kBit == kWarp / 2);
      if (upper) column += kHalf;
#pragma unroll
      for (int j = 0; j < kHalf; ++j) {
        const State mine = choose(upper, part[kHalf + j], part[j]);
        const State given = choose(upper, part[j], part[kHalf + j]);
        part[j] = combine(mine, shuffle_state(given, kBit));
      }
    } else {
      part[0] = combine(part[0], shuffle_state(part[0], kBit));
    }
    join_shared<kApart, kHalf, kBit / 2>(part, column, turned);
  }
}

// Joins the column states of a warp's lanes, which each have kLanes columns from `column` on (the
// same for equal lane % kApart), and stores word w of column c at words[w * stride + c]; kAdds:
// joined to the state stored there, always by the same lane. Lanes whose columns are 128 bytes
// apart keep opposite halves, so that stores are free of bank conflicts.
template <class State, bool kAdds, int kApart, int kLanes, class Run>
__device__ inline void join_warp(float *words, int stride, int column, Run (&part)[kLanes]) {
  constexpr int kMost = kLanes * kApart / kWarp;
  constexpr int kLeft = kMost < 1 ? 1 : kMost < kLanes ? kMost : kLanes;  // columns of a lane
  constexpr int kSpread = kWarp / kLanes, kTurned = kSpread < kApart ? kSpread : 0;
  constexpr int kChunk = kLeft < 4 ? kLeft : 4;
  const int lane = threadIdx.x % kWarp;
  const bool turned = lane & kTurned;
  join_shared<kApart, kLanes, kWarp / 2>(part, column, turned);
  if (kSpread > kApart && lane & (kSpread - kApart)) return;  // another lane has the same states
#pragma unroll
  for (int h = 0; h < kLeft; h += kChunk) {
    const int other = kLeft - kChunk - h, at = column + (turned && kLeft > 4 ? other : h);
    State chunk[kChunk];
#pragma unroll
    for (int j = 0; j < kChunk; ++j) {
      chunk[j] = whole(choose(turned && kLeft > 4, part[other + j], part[h + j]));
      if (kAdds) chunk[j] = combine(kept_state<State>(words + at + j, stride), chunk[j]);
    }
#pragma unroll
    for (int w = 0; w < int(sizeof(State) / 4); ++w) {
      Vec<float, kChunk> word;
#pragma unroll
      for (int j = 0; j < kChunk; ++j) word[j] = reinterpret_cast<const float *>(&chunk[j])[w];
      nn_store<kChunk>(words + w * stride + at, word);
    }
  }
}

// Joins the states of kBlocks blocks, in order: first within groups of kGroup blocks, then over
// groups, each time by the last block to arrive (one step if kGroup is kBlocks). True in the last
// block of all, whose `state` then covers all blocks. A thread that owns a column stores its state
// at `place`: [words][blocks, then groups][kStride] floats. counts: one per group, and one more.
template <int kBlocks, int kGroup, int kStride, class State>
__device__ inline bool join_blocks(State &state, bool owns, float *place, int block, int *counts,
                                   bool *last) {
  constexpr int kGroups = kGroup < kBlocks ? (kBlocks + kGroup - 1) / kGroup : 0;
  constexpr int kRows = kBlocks + kGroups, kAtOnce = sizeof(State) / 4 < 3 ? 16 : 8;
  const int group = block / kGroup, begin = group * kGroup;
  const int size = begin + kGroup < kBlocks ? kGroup : kBlocks - begin;
  // Stores the state in row `to`; the last of `count` blocks joins the rows from `first` on.
  auto meet = [&](int to, int *counter, int count, int first) {
    if (owns) keep_state(place + to * kStride, kRows * kStride, state);
    if (!last_to_arrive(counter, count, last)) return false;
    clear(state);
#pragma unroll 1
    for (int b = 0; owns && b < count; b += kAtOnce) {
      State part[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (b + i < count)
          part[i] = kept_state<State>(place + (first + b + i) * kStride, kRows * kStride);
        else
          clear(part[i]);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) state = combine(state, part[i]);
    }
    return true;
  };
  if constexpr (kGroups == 0) return meet(block, counts, kBlocks, 0);
  return meet(block, counts + group, size, begin) &&
         meet(kBlocks + group, counts + kGroups, kGroups, kBlocks);
}

// Number of lanes, a power of two, that join the states of one group of `together` columns.
__device__ constexpr int lanes_of_group(int threads, int groups, int together) {
  int lanes = 1;
  while (2 * lanes <= kWarp && 2 * lanes * groups <= threads && 2 * lanes <= together) lanes *= 2;
  return lanes;
}

// Calls each(group, state) for each group of kTogether neighbouring columns of kN; the last of the
// kTiles blocks that own columns joins their states. `kept` has room for all: [words][kN].
template <int kN, int kTogether, int kTiles, int kThreads, class State, class Each>
__device__ inline void each_group(const State &state, bool owns, int column, float *kept,
                                  int *arrived, bool *last, Each each) {
  if (owns) keep_state(kept + column, kN, state);
  if constexpr (kTiles > 1) {
    if (!last_to_arrive(arrived, kTiles, last)) return;
  } else {
    nn_sync();
  }
  constexpr int kGroups = kN / kTogether, kShare = lanes_of_group(kThreads, kGroups, kTogether);
  for (int first = 0; first < kGroups * kShare; first += kThreads) {
    const int group = (first + int(threadIdx.x)) / kShare, lane = threadIdx.x % kShare;
    State all;
    clear(all);
#pragma unroll 4
    for (int i = lane; group < kGroups && i < kTogether; i += kShare)
      all = combine(all, kept_state<State>(kept + group * kTogether + i, kN));
    all = warp_join<kShare>(all);
    if (lane == 0 && group < kGroups) each(group, all);
  }
}

// Column states of a block, in shared memory. Threads kApart from each other have the same columns.
// kMeeting blocks have states of the same columns; groups of kGroup of them are joined first
// (kMeeting: all at once).
template <class State, int kThreads, int kColumns, int kApart, int kMeeting, int kGroup>
struct ColumnStates {
  static constexpr int kWhole = kApart < kWarp ? kWarp : kApart;  // threads that cover all columns
  static constexpr int kWarps = kThreads / kWhole;                // such sets of threads
  static constexpr int kGroups = kGroup < kMeeting ? (kMeeting + kGroup - 1) / kGroup : 0;
  static constexpr int kCounts = kGroups + 1;                     // counters of these columns
  static constexpr int kWords = int(sizeof(State) / 4), kStride = kWarps * kColumns;
  static constexpr int kKept = kWords * (kMeeting + kGroups);     // scratch floats per column
  static_assert(kColumns <= kThreads, "a thread for every column");
  float words[kWords][kWarps][kColumns];

  // Clears all states, for `add_part` after the next barrier.
  __device__ void clear_all() {
    State none;
    clear(none);
    for (int at = threadIdx.x; at < kStride; at += kThreads)
      keep_state(&words[0][0][at], kStride, none);
  }

  // Stores this thread's states of kLanes columns from `column` on; kAdds: joins them to the stored
  // ones.
  template <bool kAdds, int kLanes, class Run>
  __device__ void add_part(int column, Run (&part)[kLanes]) {
    join_warp<State, kAdds, kApart>(words[0][threadIdx.x / kWhole], kStride, column, part);
  }

  // The state of a column over the block's rows, in the order of its warps.
  __device__ State of_block(int column) const {
    State all = kept_state<State>(&words[0][0][column], kStride);
#pragma unroll
    for (int w = 1; w < kWarps; ++w)
      all = combine(all, kept_state<State>(&words[0][w][column], kStride));
    return all;
  }
};
