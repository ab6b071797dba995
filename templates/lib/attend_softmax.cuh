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
  struct Part {  // of a tile
    typename Tile::Scores scores;
    float next[kRows];    // the base that a row is to have
    float less[kRows];    // what is subtracted from its scores
    float factor[kRows];  // of its outputs before, from move_sums on
    bool moves;           // does any base of this lane's rows move?
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

  // What has been summed of row r up to now follows its base to `to`.
  __device__ __forceinline__ void follow(int r, float to, float scale) {
    const float factor = power_between(base[r], to, scale);
    sum[r] *= factor;
#pragma unroll
    for (int c = 0; c < kOuts; ++c) Sums::out(r, c) *= factor;
    base[r] = to;
  }

  // The base of each row is to be its largest score, if that is larger by kSlack.
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
      // While all keys are masked there is nothing to subtract.
      part.less[r] = part.next[r] == -nn_inf() ? 0.f : nn_fma(part.next[r], scale, 0.f);
      far = far || is_far(part.less[r]);
    }
    if (nn_ballot(far))
#pragma unroll
      for (int r = 0; r < kRows; ++r) approach(part, r);
  }

  // Sums and outputs follow.
  __device__ __forceinline__ void follow(const Part &part, float scale) {
    if (nn_ballot(part.moves))
#pragma unroll
      for (int r = 0; r < kRows; ++r) follow(r, part.next[r], scale);
  }

  // The same in two steps: sums at once, and outputs when they may be read. Sums and outputs of a
  // row have one factor, so that it does not matter that it is off, by 2^-13 at most.
  __device__ __forceinline__ void move_sums(Part &part, float scale) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float apart = (base[r] - part.next[r]) * scale;
      part.factor[r] = nn_exp2_fast(base[r] == part.next[r] ? 0.f : apart);
      sum[r] *= part.factor[r], base[r] = part.next[r];
    }
  }
  // Behind `power`: does any output of the warp change? Depends on all powers: no sum is negative.
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

  // Scores become 2^(scale * (score - the row's base)). Unless kSums, add_up is called for what
  // they become then.
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

  // The base is taken from the scores of row r if their products with the scale are far from 0.
  __device__ __forceinline__ void approach(Part &part, int r) {
    if (!is_far(part.less[r])) return;
    part.less[r] = 0.f;
#pragma unroll
    for (int c = 0; c < kKeys; ++c) Tile::at(part.scores, r, c) -= part.next[r];
  }

  // The base of each row becomes its largest score.
  __device__ __forceinline__ void settle(float scale) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) follow(r, most[r], scale);
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
