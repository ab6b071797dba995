// attend_mma.cuh: attention's contractions on tensor cores (mma), for 16-bit elements.
#pragma once
#include "lib/attend.cuh"

// A warp's scores of kWarpRows rows, a multiple of 16, and kKeys keys, as mma accumulators: of each
// 16 x 8 scores a lane has two neighbours in rows lane / 4 and lane / 4 + 8.
template <int kWarpRows, int kKeys> struct MmaScoreTile {
  static constexpr int kTiles = kWarpRows / 16, kScores = kKeys / 8;
  static constexpr int kRowsOfLane = kTiles * 2, kKeysOfLane = kScores * 2;
  static constexpr int kSharing = 4;
  struct Scores {
    float at[kTiles][kScores][4];
  };
  __device__ static int row(int r) { return r * 8 + threadIdx.x % kWarp / 4; }
  __device__ static int key(int c) { return c / 2 * 8 + threadIdx.x % 4 * 2 + c % 2; }
  __device__ __forceinline__ static float &at(Scores &scores, int r, int c) {
    return scores.at[r / 2][c / 2][r % 2 * 2 + c % 2];
  }
};

// kWarpRows query rows of kDepth elements. kHeld: they stay in registers, at most 32 per lane; else
// they are read again for each tile of keys.
template <class T, int kDepth, int kWarpRows, int kKeys, bool kHeld = (kWarpRows * kDepth <= 2048)>
struct MmaScoreRows {
  using Tile = MmaScoreTile<kWarpRows, kKeys>;
  using Depth = HeadRows<T, kDepth>;
  unsigned query[Tile::kTiles][kHeld ? Depth::kSteps : 1][4];
  const char *queries;
  int row0;

  __device__ __forceinline__ void load_query(unsigned (&fragment)[4], int i, int step) const {
    const int lane = threadIdx.x % kWarp, at = Depth::at(row0 + lane % 16, lane / 16);
    nn_ldmatrix_x4(fragment, queries + Depth::further(at, step * 2) + i * 16 * Depth::kBytes);
  }

  __device__ __forceinline__ MmaScoreRows(const char *queries, int row0)
      : queries(queries), row0(row0) {
#pragma unroll
    for (int i = 0; i < Tile::kTiles; ++i)
#pragma unroll
      for (int step = 0; kHeld && step < Depth::kSteps; ++step)
        load_query(query[i][kHeld ? step : 0], i, step);
  }

  __device__ __forceinline__ void multiply(typename Tile::Scores &scores, const char *keys) const {
    constexpr int kTiles = Tile::kTiles, kScores = Tile::kScores;
    const int lane = threadIdx.x % kWarp;
    const int at = Depth::at(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
      for (int j = 0; j < kScores; ++j)
        for (int e = 0; e < 4; ++e) scores.at[i][j][e] = 0.f;
#pragma unroll
    for (int step = 0; step < Depth::kSteps; ++step) {
      unsigned rows[kTiles][4], columns[kScores][2];
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        if constexpr (!kHeld)
          load_query(rows[i], i, step);
        else
          for (int e = 0; e < 4; ++e) rows[i][e] = query[i][step][e];
      }
      const char *from = keys + Depth::further(at, step * 2);
#pragma unroll
      for (int j = 0; j < kScores; j += 2) {
        unsigned both[4];
        nn_ldmatrix_x4(both, from + j * 8 * Depth::kBytes);
        for (int e = 0; e < 2; ++e) columns[j][e] = both[e], columns[j + 1][e] = both[2 + e];
      }
      nn_mma_tile(scores.at, rows, columns, T());
    }
  }
};

// The outputs of kWarpRows rows of kWidth elements, in the accumulator layout of the scores.
template <class T, int kWidth, int kWarpRows, int kKeys> struct MmaValueSums {
  using Tile = MmaScoreTile<kWarpRows, kKeys>;
  using Width = HeadRows<T, kWidth>;
  static constexpr int kOuts = Width::kSteps * 2, kOutsOfLane = kOuts * 2;
  static constexpr int kPart =  // of kOuts, multiplied at once
      kOuts % 8 == 0 ? 8 : kOuts % 6 == 0 ? 6 : kOuts % 4 == 0 ? 4 : 2;
  float outs[kOuts / kPart][Tile::kTiles][kPart][4];

  __device__ __forceinline__ float &out(int r, int c) {
    return outs[c / 2 / kPart][r / 2][c / 2 % kPart][r % 2 * 2 + c % 2];
  }

  __device__ __forceinline__ void weigh(const typename Tile::Scores &scores, const char *values) {
    const int lane = threadIdx.x % kWarp, at = Width::at(lane % 16, lane / 16);
    // Two accumulator columns form one register of an operand fragment.
    unsigned rows[kKeys / 16][Tile::kTiles][4];
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step)
#pragma unroll
      for (int i = 0; i < Tile::kTiles; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float(&two)[4] = scores.at[i][step * 2 + e / 2];
          rows[step][i][e] = nn_pack<T>(two[e % 2 * 2], two[e % 2 * 2 + 1]);
        }
#pragma unroll
    for (int part = 0; part < kOuts / kPart; ++part) {
      const char *from[kPart / 2];
#pragma unroll
      for (int j = 0; j < kPart / 2; ++j)
        from[j] = values + Width::further(at, part * kPart + j * 2);
#pragma unroll
      for (int step = 0; step < kKeys / 16; ++step) {
        unsigned columns[kPart][2];
#pragma unroll
        for (int j = 0; j < kPart; j += 2) {
          unsigned both[4];
          nn_ldmatrix_x4_trans(both, from[j / 2] + step * 16 * Width::kBytes);
          for (int e = 0; e < 2; ++e) columns[j][e] = both[e], columns[j + 1][e] = both[2 + e];
        }
        nn_mma_tile(outs[part], rows[step], columns, T());
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
    stage_pairs<Tile, kStaged, kOutsOfLane>(*this, to, to_row);
  }
};

template <int kTileM, int kTileKeys> struct MmaUnit : WarpUnit {
  template <int kWarpRows, int kKeys> using ScoreTile = MmaScoreTile<kWarpRows, kKeys>;
  template <class T, int kDepth, int kWarpRows, int kKeys>
  using ScoreRows = MmaScoreRows<T, kDepth, kWarpRows, kKeys>;
  template <class T, int kDepth, int kWarpRows, int kKeys>
  using RowsReadAgain = MmaScoreRows<T, kDepth, kWarpRows, kKeys, false>;
  template <class T, int kWidth, int kWarpRows, int kKeys>
  using ValueSums = MmaValueSums<T, kWidth, kWarpRows, kKeys>;
};
