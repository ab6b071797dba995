// attend_softmax.cuh: attention by a warp: rows of queries against tiles of keys and values, with a
// softmax that is corrected as larger scores come (Milakov and Gimelshein, 2018; Dao, 2023). Behind
// the unit's file.
#pragma once

// What the softmax of a row is made of: its largest score, and the sum of exp(score - largest).
struct ScoreRow {
  float most, sum;
};

template <class T, int kDepth, int kWidth, int kWarpRows, int kTileKeys>
struct SoftmaxWarp : ScoreRows<T, kDepth, kWarpRows, kTileKeys>,
                     ValueSums<T, kWidth, kWarpRows, kTileKeys> {
  using Tile = ScoreTile<kWarpRows, kTileKeys>;
  using Queries = ScoreRows<T, kDepth, kWarpRows, kTileKeys>;
  using Sums = ValueSums<T, kWidth, kWarpRows, kTileKeys>;
  static constexpr int kRows = Tile::kRowsOfLane, kKeys = Tile::kKeysOfLane,
                       kOuts = Sums::kOutsOfLane;
  using Scores = typename Tile::Scores;
  float most[kRows], sum[kRows];  // of a row's scores, of its powers (this lane's part)

  // `queries`: a tile, of which the warp's rows begin at row0.
  __device__ __forceinline__ SoftmaxWarp(const char *queries, int row0) : Queries(queries, row0) {
    Sums::clear();
#pragma unroll
    for (int r = 0; r < kRows; ++r) most[r] = -nn_inf(), sum[r] = 0.f;
  }

  __device__ __forceinline__ float total_of(int r) const {
    float total = sum[r];
#pragma unroll
    for (int mask = 1; mask < Tile::kSharing; mask *= 2) total += nn_shfl_xor(total, mask);
    return total;
  }

  // Scores become 2^(scale * (score - the largest so far)); what has been summed up to now follows.
  __device__ __forceinline__ void power(Scores &scores, float scale) {
    float correction[kRows];
    bool changed = false;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float largest = most[r];
#pragma unroll
      for (int c = 0; c < kKeys; ++c) largest = nn_max(largest, Tile::at(scores, r, c));
#pragma unroll
      for (int mask = 1; mask < Tile::kSharing; mask *= 2)
        largest = nn_max(largest, nn_shfl_xor(largest, mask));
      // While all keys are masked there is nothing to subtract. Products are rounded (nn_fma)
      // before they are subtracted, so that the correction is 1 where the largest stays.
      const float base = largest == -nn_inf() ? 0.f : nn_fma(largest, scale, 0.f);
      correction[r] = nn_exp2_fast(nn_fma(most[r], scale, 0.f) - base);
      changed = changed || largest != most[r];
      most[r] = largest;
      float added = 0.f;
#pragma unroll
      for (int c = 0; c < kKeys; ++c) {
        float &score = Tile::at(scores, r, c);
        score = nn_exp2_fast(nn_fma(score, scale, -base));
        added += score;
      }
      sum[r] = nn_fma(sum[r], correction[r], added);
    }
    if (!nn_ballot(changed)) return;
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kOuts; ++c) Sums::out(r, c) *= correction[r];
  }

  // The state of each row, of which `to` has one from the warp's first on.
  __device__ __forceinline__ void states(ScoreRow *to) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float total = total_of(r);
      if (threadIdx.x % Tile::kSharing == 0) to[Tile::row(r)] = {most[r], total};
    }
  }

  // `scale` makes scores of what has been compared. Calls each(row, state, first) once all keys
  // have been seen, in the lanes that share a row, of which one is the first; the row's outputs are
  // multiplied by what it gives.
  template <class Each> __device__ __forceinline__ void finish(float scale, Each each) {
    const bool first = threadIdx.x % Tile::kSharing == 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float factor = each(Tile::row(r), ScoreRow{most[r] * scale, total_of(r)}, first);
#pragma unroll
      for (int c = 0; c < kOuts; ++c) Sums::out(r, c) *= factor;
    }
  }
};
