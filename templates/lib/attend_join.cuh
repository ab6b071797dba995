// attend_join.cuh: rows of attention whose keys several blocks have gone through, a part each.
#pragma once
#include "lib/arrive.cuh"
#include "lib/attend_softmax.cuh"

// Calls each(row, where) for four neighbours at a time of kRows staged rows, of which kColumns
// floats count; there may be nothing behind them.
template <int kThreads, int kRows, int kStaged, int kColumns, class Each>
__device__ __forceinline__ void each_four(Each each) {
  constexpr int kFours = (kColumns + 3) / 4;
  for (int i = threadIdx.x; i < kRows * kFours; i += kThreads) {
    const int row = i / kFours;
    each(row, staged(kStaged, row, i % kFours * 4));
  }
}

// Outputs of kRows rows of kColumns floats, and the state of each row's softmax, are left in memory
// by kParts blocks. True for the last of them to arrive, whose `out` and `rows` then are those of
// all keys, joined in the order of the parts. `share` has room for kParts x kRows.
template <int kThreads, int kRows, int kStaged, int kColumns, int kParts>
__device__ inline bool join_rows(float *out, ScoreRow *rows, float *share, float *outs,
                                 float *states, int part, int *count, bool *last, float scale) {
  constexpr int kValues = kRows * kStaged;
  each_four<kThreads, kRows, kStaged, kColumns>([&](int, int at) {
    nn_store<4>(outs + part * kValues + at, nn_load<4>(out + at));
  });
  for (int r = threadIdx.x; r < kRows; r += kThreads)
    nn_store<2>(states + (part * kRows + r) * 2, Vec<float, 2>{{rows[r].most, rows[r].sum}});
  if (!last_to_arrive(count, kParts, last)) return false;
  for (int r = threadIdx.x; r < kRows; r += kThreads) {
    ScoreRow all = {-nn_inf(), 0.f};
    for (int p = 0; p < kParts; ++p) all.most = nn_max(all.most, states[(p * kRows + r) * 2]);
    for (int p = 0; p < kParts; ++p) {
      const Vec<float, 2> state = nn_load<2>(states + (p * kRows + r) * 2);
      share[p * kRows + r] = power_between(state[0], all.most, scale);
      all.sum = nn_fma(state[1], share[p * kRows + r], all.sum);
    }
    rows[r] = all;
  }
  nn_sync();
  each_four<kThreads, kRows, kStaged, kColumns>([&](int row, int at) {
    Vec<float, 4> sum = {};
#pragma unroll 4
    for (int p = 0; p < kParts; ++p) {
      const Vec<float, 4> next = nn_load<4>(outs + p * kValues + at);
      for (int j = 0; j < 4; ++j) sum[j] = nn_fma(next[j], share[p * kRows + row], sum[j]);
    }
    nn_store<4>(out + at, sum);
  });
  nn_sync();
  return true;
}

// Each row of outputs times factor(row).
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
