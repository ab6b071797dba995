// attend_softmax.cuh: attention by a warp: query rows against tiles of keys and values, with online
// softmax (Milakov and Gimelshein, 2018; Dao, 2023). The base of a row, subtracted from its scores,
// changes only if a score exceeds it by kSlack (log2), so outputs are seldom rescaled.
// Include it after the unit's file.
#pragma once

// Softmax state of a row: its largest score, and the sum of exp(score - largest).
struct ScoreRow {
  float most, sum;
};

// True if scale * score is so large that its rounding error (2^-14) shows in the exponential, or is
// infinite. Then (score - base) * scale is computed, else score * scale - base * scale.
__device__ __forceinline__ bool is_far(float product) { return nn_abs(product) > 1024.f; }

// 2^(scale * (score - base)).
__device__ __forceinline__ float power_between(float score, float base, float scale) {
  const float a = nn_fma(score, scale, 0.f), b = nn_fma(base, scale, 0.f);  // keeps the rounding
  const float apart = is_far(a) || is_far(b) ? (score - base) * scale : a - b;
  return nn_exp2_fast(score == base ? 0.f : apart);
}

// A row with factor 0 (without visible keys) is 0, even if `out` is NaN or infinite.
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
  struct Part {  // of a tile
    typename Tile::Scores scores;
    float next[kRows];    // the new base of each row
    float less[kRows];    // base * scale, subtracted from scaled scores
    float factor[kRows];  // rescaling of earlier outputs; set by move_sums
    bool moves;           // true if the base of one of this lane's rows changes
  };
  // Per row: largest score; base; sum of its exponentials (this lane's part).
  float most[kRows], base[kRows], sum[kRows];

  // `queries`: the block's tile; the warp's rows begin at row0.
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

  // Rescales the sum and outputs of row r for the new base `to`.
  __device__ __forceinline__ void follow(int r, float to, float scale) {
    const float factor = power_between(base[r], to, scale);
    sum[r] *= factor;
#pragma unroll
    for (int c = 0; c < kOuts; ++c) Sums::out(r, c) *= factor;
    base[r] = to;
  }

  // Finds each row's new base: its largest score, if that exceeds the old base by kSlack.
  template <int kSlack> __device__ __forceinline__ void rebase(Part &part, float scale) {
    bool far = false;
    part.moves = false;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kKeys; ++c) most[r] = nn_max(most[r], Tile::at(part.scores, r, c));
#pragma unroll
      for (int mask = 1; mask < Tile::kSharing; mask *= 2)
        most[r] = nn_max(most[r], nn_shfl_xor(most[r], mask));
      part.next[r] = (most[r] - base[r]) * scale <= kSlack ? base[r] : most[r];
      part.moves = part.moves || part.next[r] != base[r];
      // If all keys so far are masked, nothing is subtracted.
      part.less[r] = part.next[r] == -nn_inf() ? 0.f : nn_fma(part.next[r], scale, 0.f);
      far = far || is_far(part.less[r]);
    }
    if (nn_ballot(far))
#pragma unroll
      for (int r = 0; r < kRows; ++r) approach(part, r);
  }

  // Rescales sums and outputs for the new bases.
  __device__ __forceinline__ void follow(const Part &part, float scale) {
    if (nn_ballot(part.moves))
#pragma unroll
      for (int r = 0; r < kRows; ++r) follow(r, part.next[r], scale);
  }

  // The same in two steps: move_sums at once, move_outs when the MMAs on the outputs are complete.
  // Sums and outputs share the factor, so its error (at most 2^-13) cancels.
  __device__ __forceinline__ void move_sums(Part &part, float scale) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float apart = (base[r] - part.next[r]) * scale;
      part.factor[r] = nn_exp2_fast(base[r] == part.next[r] ? 0.f : apart);
      sum[r] *= part.factor[r], base[r] = part.next[r];
    }
  }
  // After `power`: true if the outputs must be rescaled. Tests the sums, which are never negative,
  // only to depend on all exponentials (see the NOTE in attend_jobs.cu).
  __device__ __forceinline__ bool must_follow(const Part &part) const {
    bool must = part.moves;
#pragma unroll
    for (int r = 0; r < kRows; ++r) must = must || sum[r] < 0.f;
    return nn_ballot(must);
  }
  __device__ __forceinline__ void move_outs(const Part &part) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kOuts; ++c) Sums::out(r, c) *= part.factor[r];
  }

  // score = 2^(scale * (score - base of the row)); kSums: and adds it to the row's sum, which
  // add_up does otherwise.
  template <bool kSums = true> __device__ __forceinline__ void power(Part &part, float scale) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kKeys; ++c) {
        float &score = Tile::at(part.scores, r, c);
        score = nn_exp2_fast(nn_fma(score, scale, -part.less[r]));
        if (kSums) sum[r] += score;
      }
  }
  __device__ __forceinline__ void add_up(Part &part) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kKeys; ++c) sum[r] += Tile::at(part.scores, r, c);
  }

  // Subtracts the base from the scores of row r before scaling if is_far(base * scale).
  __device__ __forceinline__ void approach(Part &part, int r) {
    if (!is_far(part.less[r])) return;
    part.less[r] = 0.f;
#pragma unroll
    for (int c = 0; c < kKeys; ++c) Tile::at(part.scores, r, c) -= part.next[r];
  }

  // Makes the largest score the base of each row.
  __device__ __forceinline__ void settle(float scale) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) follow(r, most[r], scale);
  }

  // Stores the state of each row of the warp at to[row].
  __device__ __forceinline__ void states(ScoreRow *to) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float total = total_of(r);
      if (threadIdx.x % Tile::kSharing == 0) to[Tile::row(r)] = {most[r], total};
    }
  }

  // After the last key: multiplies the outputs of each row by each(row, state, first), which is
  // called in all lanes that share the row; `first` is true in one of them. The state's largest
  // score is multiplied by `scale`.
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
