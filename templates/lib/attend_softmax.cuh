// attend_softmax.cuh: attention by a warp: rows of queries against tiles of keys and values, with a
// softmax that is corrected as larger scores come (Milakov and Gimelshein, 2018; Dao, 2023). What
// is subtracted from the scores of a row, its base, stays until a score is larger by kSlack, a
// power of 2: outputs are then seldom multiplied again. Behind the unit's file.
#pragma once

// What the softmax of a row is made of: its largest score, and the sum of exp(score - largest).
struct ScoreRow {
  float most, sum;
};

// Whether scale * score is so far from 0 that rounding it, which may be off by 2^-14 then, would be
// felt in its power, or infinite; differences of scores are multiplied there, else of products.
__device__ __forceinline__ bool is_far(float product) { return nn_abs(product) > 1024.f; }

// 2^(scale * (score - base)).
__device__ __forceinline__ float power_between(float score, float base, float scale) {
  const float a = nn_fma(score, scale, 0.f), b = nn_fma(base, scale, 0.f);  // rounded
  const float apart = is_far(a) || is_far(b) ? (score - base) * scale : a - b;
  return nn_exp2_fast(score == base ? 0.f : apart);
}

// A row that is left out, as one without a key may be, is 0 whatever its scores were.
__device__ __forceinline__ float weighed_row(float out, float factor) {
  return factor == 0.f ? 0.f : out * factor;
}

template <class Unit, class T, int kDepth, int kWidth, int kWarpRows, int kTileKeys>
struct SoftmaxWarp : Unit::template ScoreRows<T, kDepth, kWarpRows, kTileKeys>,
                     Unit::template ValueSums<T, kWidth, kWarpRows, kTileKeys> {
  using Tile = typename Unit::template ScoreTile<kWarpRows, kTileKeys>;
  using Queries = typename Unit::template ScoreRows<T, kDepth, kWarpRows, kTileKeys>;
  using Sums = typename Unit::template ValueSums<T, kWidth, kWarpRows, kTileKeys>;
  static constexpr int kRows = Tile::kRowsOfLane, kKeys = Tile::kKeysOfLane,
                       kOuts = Sums::kOutsOfLane;
  struct Part {  // of a tile: scores, what is subtracted from those of each row; whether bases
    typename Tile::Scores scores;  // have moved, and what outputs before are multiplied by
    float less[kRows], factor[kRows];
    bool moved;
  };
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

  // The base of row r becomes `to`, which its sum follows; returns what its outputs lack.
  __device__ __forceinline__ float move_base(int r, float to, float scale) {
    const float factor = power_between(base[r], to, scale);
    sum[r] *= factor, base[r] = to;
    return factor;
  }
  __device__ __forceinline__ void scale_outs(int r, float factor) {
#pragma unroll
    for (int c = 0; c < kOuts; ++c) Sums::out(r, c) *= factor;
  }

  // The base of each row moves to its largest score, if that is larger by kSlack; outputs of the
  // tiles before are still to `follow`.
  template <int kSlack> __device__ __forceinline__ void rebase(Part &part, float scale) {
    float next[kRows];
    bool moved = false, far = false;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kKeys; ++c) most[r] = nn_max(most[r], Tile::at(part.scores, r, c));
#pragma unroll
      for (int mask = 1; mask < Tile::kSharing; mask *= 2)
        most[r] = nn_max(most[r], nn_shfl_xor(most[r], mask));
      next[r] = (most[r] - base[r]) * scale <= kSlack ? base[r] : most[r];
      moved = moved || next[r] != base[r];
      // While all keys are masked there is nothing to subtract.
      part.less[r] = next[r] == -nn_inf() ? 0.f : nn_fma(next[r], scale, 0.f);
      far = far || is_far(part.less[r]);
    }
    part.moved = moved;
#pragma unroll
    for (int r = 0; r < kRows; ++r) part.factor[r] = move_base(r, next[r], scale);
    if (nn_ballot(far))
#pragma unroll
      for (int r = 0; r < kRows; ++r) approach(part, r);
  }
  __device__ __forceinline__ void follow(const Part &part) {
    if (nn_ballot(part.moved))
#pragma unroll
      for (int r = 0; r < kRows; ++r) scale_outs(r, part.factor[r]);
  }

  // Scores become 2^(scale * (score - the row's base)).
  __device__ __forceinline__ void power(Part &part, float scale) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kKeys; ++c) {
        float &score = Tile::at(part.scores, r, c);
        score = nn_exp2_fast(nn_fma(score, scale, -part.less[r]));
        sum[r] += score;
      }
  }

  // The base is taken from the scores of row r if their products with the scale are far from 0.
  __device__ __forceinline__ void approach(Part &part, int r) {
    if (!is_far(part.less[r])) return;
    part.less[r] = 0.f;
#pragma unroll
    for (int c = 0; c < kKeys; ++c) Tile::at(part.scores, r, c) -= base[r];
  }

  // The base of each row becomes its largest score.
  __device__ __forceinline__ void settle(float scale) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) scale_outs(r, move_base(r, most[r], scale));
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
      for (int c = 0; c < kOuts; ++c) Sums::out(r, c) = weighed_row(Sums::out(r, c), factor);
    }
  }
};
