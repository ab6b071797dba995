// attend_sums.cuh: tiles of weights added up, in registers and then along rows or keys.
#pragma once
#include "lib/attend.cuh"

template <class Tile> __device__ __forceinline__ void clear_scores(typename Tile::Scores &sums) {
#pragma unroll
  for (int r = 0; r < Tile::kRowsOfLane; ++r)
#pragma unroll
    for (int c = 0; c < Tile::kKeysOfLane; ++c) Tile::at(sums, r, c) = 0.f;
}

// sums += scores of rows before `rows` and keys before `keys` of the tile, where the warp's begin
// at row0.
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

// To out[row * kKeys + key], the warp's rows from row0 on.
template <class Tile, int kKeys>
__device__ __forceinline__ void store_scores(float *out, int row0, typename Tile::Scores &sums) {
#pragma unroll
  for (int r = 0; r < Tile::kRowsOfLane; ++r)
#pragma unroll
    for (int c = 0; c < Tile::kKeysOfLane; ++c)
      out[(row0 + Tile::row(r)) * kKeys + Tile::key(c)] = Tile::at(sums, r, c);
}

// out[key] becomes the sum of column `key` of out[kRows][kKeys], in the order of the rows.
template <int kRows, int kKeys, int kThreads> __device__ inline void sum_rows(float *out) {
  for (int key = threadIdx.x; key < kKeys; key += kThreads) {
    float sum = 0.f;
    for (int row = 0; row < kRows; ++row) sum += out[row * kKeys + key];
    out[key] = sum;  // a thread's columns are its own
  }
  nn_sync();
}

// out[row] becomes the sum of row `row`, each row's from a key of its own on, so that threads read
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
