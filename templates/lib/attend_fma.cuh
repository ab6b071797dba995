// attend_fma.cuh: attention's contractions on the fp32 units.
#pragma once
#include "lib/attend.cuh"

// A warp's scores of kWarpRows rows, a multiple of 4, and kKeys keys, a multiple of 8: a lane has
// rows lane / 8 + 4 r and keys lane % 8 + 8 c.
template <int kWarpRows, int kKeys> struct FmaScoreTile {
  static constexpr int kRowsOfLane = kWarpRows / 4, kKeysOfLane = kKeys / 8;
  static constexpr int kSharing = 8;
  struct Scores {
    float at[kRowsOfLane][kKeysOfLane];
  };
  __device__ static int row(int r) { return r * 4 + threadIdx.x % kWarp / 8; }
  __device__ static int key(int c) { return c * 8 + threadIdx.x % 8; }
  __device__ __forceinline__ static float &at(Scores &scores, int r, int c) {
    return scores.at[r][c];
  }
};

// kWarpRows query rows of kDepth elements, read from shared memory for each tile of keys.
template <class T, int kDepth, int kWarpRows, int kKeys, bool kHeld = false> struct FmaScoreRows {
  using Tile = FmaScoreTile<kWarpRows, kKeys>;
  using Depth = HeadRows<T, kDepth>;
  const char *queries;
  int row0;

  __device__ __forceinline__ FmaScoreRows(const char *queries, int row0)
      : queries(queries), row0(row0) {}

  __device__ __forceinline__ void multiply(typename Tile::Scores &scores, const char *keys) const {
#pragma unroll
    for (int r = 0; r < Tile::kRowsOfLane; ++r)
      for (int c = 0; c < Tile::kKeysOfLane; ++c) scores.at[r][c] = 0.f;
#pragma unroll 2
    for (int chunk = 0; chunk < (kDepth + 3) / 4; ++chunk) {
      Vec<float, 4> a[Tile::kRowsOfLane], b[Tile::kKeysOfLane];
#pragma unroll
      for (int r = 0; r < Tile::kRowsOfLane; ++r)
        a[r] = nn_load<4>((const float *)(queries + Depth::at(row0 + Tile::row(r), chunk)));
#pragma unroll
      for (int c = 0; c < Tile::kKeysOfLane; ++c)
        b[c] = nn_load<4>((const float *)(keys + Depth::at(Tile::key(c), chunk)));
      nn_fma_tile(scores.at, a, b);
    }
  }
};

// The outputs of kWarpRows rows of kWidth elements. A lane has every eighth group of four elements
// of each of its rows.
template <class T, int kWidth, int kWarpRows, int kKeys> struct FmaValueSums {
  using Tile = FmaScoreTile<kWarpRows, kKeys>;
  using Width = HeadRows<T, kWidth>;
  static constexpr int kGroups = (Width::kRowChunks + 7) / 8, kOutsOfLane = kGroups * 4;
  float outs[Tile::kRowsOfLane][kOutsOfLane];

  __device__ __forceinline__ float &out(int r, int c) { return outs[r][c]; }

  // Key by key: probabilities are broadcast from the lanes that hold them.
  __device__ __forceinline__ void weigh(const typename Tile::Scores &scores, const char *values) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int c = 0; c < Tile::kKeysOfLane; ++c)
#pragma unroll 2
      for (int of = 0; of < 8; ++of) {
        float weights[Tile::kRowsOfLane];
#pragma unroll
        for (int r = 0; r < Tile::kRowsOfLane; ++r)
          weights[r] = nn_shfl(scores.at[r][c], lane / 8 * 8 + of);
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          const int chunk = group * 8 + lane % 8;
          if (Width::kRowChunks % 8 && chunk >= Width::kRowChunks) continue;
          const Vec<float, 4> four =
              nn_load<4>((const float *)(values + Width::at(c * 8 + of, chunk)));
#pragma unroll
          for (int r = 0; r < Tile::kRowsOfLane; ++r)
#pragma unroll
            for (int e = 0; e < 4; ++e)
              outs[r][group * 4 + e] = nn_fma(weights[r], four[e], outs[r][group * 4 + e]);
        }
      }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < Tile::kRowsOfLane; ++r)
#pragma unroll
      for (int c = 0; c < kOutsOfLane; ++c) out(r, c) = 0.f;
  }

  template <int kStaged> __device__ __forceinline__ void stage(float *to, int to_row) {
#pragma unroll
    for (int r = 0; r < Tile::kRowsOfLane; ++r)
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        const int column = (group * 8 + threadIdx.x % 8) * 4;
        if (column >= kStaged) continue;
        Vec<float, 4> four;
        for (int e = 0; e < 4; ++e) four[e] = outs[r][group * 4 + e];
        nn_store<4>(to + staged(kStaged, to_row + Tile::row(r), column), four);
      }
  }
};

template <int kTileM, int kTileKeys> struct FmaUnit : WarpUnit {
  template <int kWarpRows, int kKeys> using ScoreTile = FmaScoreTile<kWarpRows, kKeys>;
  template <class T, int kDepth, int kWarpRows, int kKeys>
  using ScoreRows = FmaScoreRows<T, kDepth, kWarpRows, kKeys>;
  template <class T, int kDepth, int kWarpRows, int kKeys>
  using RowsReadAgain = FmaScoreRows<T, kDepth, kWarpRows, kKeys, false>;
  template <class T, int kWidth, int kWarpRows, int kKeys>
  using ValueSums = FmaValueSums<T, kWidth, kWarpRows, kKeys>;
};
