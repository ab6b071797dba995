// attend_sums.cuh: sums over tiles of probabilities, in registers and then along rows or keys.
#pragma once
#include "lib/attend.cuh"

template <class Tile> __device__ __forceinline__ void clear_scores(typename Tile::Scores &sums) {
#pragma unroll
  for (int r = 0; r < Tile::kRowsOfLane; ++r)
#pragma unroll
    for (int c = 0; c < Tile::kKeysOfLane; ++c) Tile::at(sums, r, c) = 0.f;
}

// sums += scores, for rows below `rows` and keys below `keys` of the tile; the warp's rows begin at
// row0.
template <class Tile>
__device__ __forceinline__ void add_scores(typename Tile::Scores &sums,
                                           typename Tile::Scores &scores, int row0, int rows,
                                           int keys) {
#pragma unroll
  for (int r = 0; r < Tile::kRowsOfLane; ++r)
#pragma unroll
    for (int c = 0; c < Tile::kKeysOfLane; ++c) {
      const bool counts = row0 + Tile::row(r) < rows && Tile::key(c) < keys;
      Tile::at(sums, r, c) += counts ? Tile::at(scores, r, c) : 0.f;
    }
}

// out[row * kKeys + key] = sums, for the warp's rows from row0 on.
template <class Tile, int kKeys>
__device__ __forceinline__ void store_scores(float *out, int row0, typename Tile::Scores &sums) {
#pragma unroll
  for (int r = 0; r < Tile::kRowsOfLane; ++r)
#pragma unroll
    for (int c = 0; c < Tile::kKeysOfLane; ++c)
      out[(row0 + Tile::row(r)) * kKeys + Tile::key(c)] = Tile::at(sums, r, c);
}

// out[key] = sum over rows of out[row][key], in order; out is [kRows][kKeys].
template <int kRows, int kKeys, int kThreads> __device__ inline void sum_rows(float *out) {
  for (int key = threadIdx.x; key < kKeys; key += kThreads) {
    float sum = 0.f;
    for (int row = 0; row < kRows; ++row) sum += out[row * kKeys + key];
    out[key] = sum;  // no other thread reads this column
  }
  nn_sync();
}

// out[row] = sum over keys of out[row][key]; each row starts at another key, so that threads read
// different banks.
template <int kRows, int kKeys, int kThreads> __device__ inline void sum_keys(float *out) {
  constexpr int kOwn = (kRows + kThreads - 1) / kThreads;
  float sums[kOwn] = {};
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int row = i * kThreads + threadIdx.x;
    if (row >= kRows) continue;
    for (int key = 0; key < kKeys; ++key) sums[i] += out[row * kKeys + (key + row) % kKeys];
  }
  nn_sync();
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int row = i * kThreads + threadIdx.x;
    if (row < kRows) out[row] = sums[i];
  }
  nn_sync();
}
