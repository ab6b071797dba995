// attend_softmax.cuh: attention by a warp: rows of queries against tiles of keys and values, with a
// softmax that is corrected as larger scores come (Milakov and Gimelshein, 2018; Dao, 2023). What
// is subtracted from the scores of a row, its base, stays until a score is larger by kSlack, a
// power of 2: outputs are then seldom multiplied again. Behind the unit's file.
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
  // Of a row: its largest score, its base, the sum of its powers (this lane's part).
  float most[kRows], base[kRows], sum[kRows];

  // `queries`: a tile, of which the warp's rows begin at row0.
  __device__ __forceinline__ SoftmaxWarp(const char *queries, int row0) : Queries(queries, row0) {
    Sums::clear();
#pragma unroll
    for (int r = 0; r < kRows; ++r) most[r] = base[r] = -nn_inf(), sum[r] = 0.f;
  }

  __device__ __forceinline__ float total_of(int r) const {
    float total = sum[r];
#pragma unroll
    for (int mask = 1; mask < Tile::kSharing; mask *= 2) total += nn_shfl_xor(total, mask);
    return total;
  }

  // What has been summed of row r up to now follows its base to `to`.
  __device__ __forceinline__ float correction_of(int r, float to) const {
    return base[r] == to ? 1.f : nn_exp2_fast(base[r] - to);
  }

  __device__ __forceinline__ void correct(const float (&correction)[kRows]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kOuts; ++c) Sums::out(r, c) *= correction[r];
  }

  // Scores become 2^(scale * score - the row's base).
  template <int kSlack> __device__ __forceinline__ void power(Scores &scores, float scale) {
    float correction[kRows];
    bool changed = false;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kKeys; ++c) most[r] = nn_max(most[r], Tile::at(scores, r, c));
#pragma unroll
      for (int mask = 1; mask < Tile::kSharing; mask *= 2)
        most[r] = nn_max(most[r], nn_shfl_xor(most[r], mask));
      // Products are rounded (nn_fma) before they are subtracted: equal scores differ by 0.
      const float largest = nn_fma(most[r], scale, 0.f);
      const float next = largest - base[r] <= kSlack ? base[r] : largest;
      correction[r] = correction_of(r, next);
      changed = changed || next != base[r];
      base[r] = next;
      const float less = next == -nn_inf() ? 0.f : next;  // while all keys are masked
      float added = 0.f;
#pragma unroll
      for (int c = 0; c < kKeys; ++c) {
        float &score = Tile::at(scores, r, c);
        score = nn_exp2_fast(nn_fma(score, scale, -less));
        added += score;
      }
      sum[r] = nn_fma(sum[r], correction[r], added);
    }
    if (nn_ballot(changed)) correct(correction);
  }

  // The base of each row becomes its largest score.
  __device__ __forceinline__ void settle(float scale) {
    float correction[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      correction[r] = correction_of(r, nn_fma(most[r], scale, 0.f));
      sum[r] *= correction[r];
    }
    correct(correction);
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
