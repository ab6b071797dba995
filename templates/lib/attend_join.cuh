// attend_join.cuh: split-KV attention: combines the partial results of blocks.
#pragma once
#include "lib/arrive.cuh"
#include "lib/attend_softmax.cuh"

// Calls each(row, offset) for groups of four neighbours of kRows staged rows, of which the first
// kColumns floats are used.
template <int kThreads, int kRows, int kStaged, int kColumns, class Each>
__device__ __forceinline__ void each_four(Each each) {
  constexpr int kFours = (kColumns + 3) / 4;
  for (int i = threadIdx.x; i < kRows * kFours; i += kThreads) {
    const int row = i / kFours;
    each(row, staged(kStaged, row, i % kFours * 4));
  }
}

// Joins the outputs (kRows rows of kColumns floats) and softmax states of kParts blocks, in the
// order of their parts: first within groups of kGroup blocks, then over groups, each time by the
// last block to arrive. True in the last block of all, whose `out` and `rows` then cover all keys.
// `outs` and `states` have room for all parts, `share` for kRows floats per part joined at once.
// counts: one counter, plus one per group if there are several groups.
template <int kThreads, int kRows, int kStaged, int kColumns, int kParts, int kGroup>
__device__ inline bool join_rows(float *out, ScoreRow *rows, float *share, float *outs,
                                 float *states, int part, int *counts, bool *last, float scale) {
  constexpr int kValues = kRows * kStaged, kAtOnce = 12;  // loads in flight per thread
  constexpr int kGroups = (kParts + kGroup - 1) / kGroup;
  const int group = part / kGroup, begin = group * kGroup;
  const int size = begin + kGroup < kParts ? kGroup : kParts - begin;
  // Stores the rows as part `to`; the last of `count` blocks joins parts first + i * step.
  auto meet = [&](int to, int *counter, int count, int first, int step) {
    each_four<kThreads, kRows, kStaged, kColumns>([&](int, int at) {
      nn_store<4>(outs + to * kValues + at, nn_load<4>(out + at));
    });
    for (int r = threadIdx.x; r < kRows; r += kThreads)
      nn_store<2>(states + (to * kRows + r) * 2, Vec<float, 2>{{rows[r].most, rows[r].sum}});
    if (!last_to_arrive(counter, count, last)) return false;
    for (int r = threadIdx.x; r < kRows; r += kThreads) {
      auto state = [&](int p) { return nn_load<2>(states + ((first + p * step) * kRows + r) * 2); };
      ScoreRow all = {-nn_inf(), 0.f};
#pragma unroll kAtOnce
      for (int p = 0; p < count; ++p) all.most = nn_max(all.most, state(p)[0]);
#pragma unroll kAtOnce
      for (int p = 0; p < count; ++p) {
        const Vec<float, 2> of_part = state(p);
        share[p * kRows + r] = power_between(of_part[0], all.most, scale);
        all.sum = nn_fma(of_part[1], share[p * kRows + r], all.sum);
      }
      rows[r] = all;
    }
    nn_sync();
    each_four<kThreads, kRows, kStaged, kColumns>([&](int row, int at) {
      Vec<float, 4> sum = {};
#pragma unroll kAtOnce
      for (int p = 0; p < count; ++p) {
        const Vec<float, 4> next = nn_load<4>(outs + (first + p * step) * kValues + at);
        for (int j = 0; j < 4; ++j) sum[j] = nn_fma(next[j], share[p * kRows + row], sum[j]);
      }
      nn_store<4>(out + at, sum);
    });
    nn_sync();
    return true;
  };
  if constexpr (kGroups == 1) return meet(part, counts, kParts, 0, 1);
  return meet(part, counts + 1 + group, size, begin, 1) && meet(begin, counts, kGroups, 0, kGroup);
}

// Multiplies each row of outputs by factor(row).
template <int kThreads, int kRows, int kStaged, int kColumns, class Factor>
__device__ inline void scale_rows(float *out, float *share, Factor factor) {
  for (int r = threadIdx.x; r < kRows; r += kThreads) share[r] = factor(r);
  nn_sync();
  each_four<kThreads, kRows, kStaged, kColumns>([&](int row, int at) {
    Vec<float, 4> values = nn_load<4>(out + at);
    for (int j = 0; j < 4; ++j) values[j] = weighed_row(values[j], share[row]);
    nn_store<4>(out + at, values);
  });
  nn_sync();
}
