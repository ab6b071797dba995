// attend_wgmma.cuh: attention's contractions by warp groups (sm_90a, 16-bit elements): four warps
// multiply 64 query rows by keys, and the probabilities in registers by values in shared memory.
// MMAs run while the warps compute exponentials.
#pragma once
#include "lib/attend.cuh"

// wgmma descriptors of a tile of HeadRows in panels.
template <class Rows> struct GroupTile {
  static constexpr int kGroup = 8 * Rows::kPitch;
  static constexpr NnSwizzle kSwizzle = Rows::kTurns == 8   ? kSwizzle128
                                        : Rows::kTurns == 4 ? kSwizzle64
                                                            : kSwizzle32;
  // K-major: elements 16 step to 16 step + 15 of the rows from `rows` on.
  __device__ static unsigned long long along(const char *rows, int step) {
    return nn_wgmma_tile(rows + Rows::at(0, step * 2), kGroup, 0, kSwizzle);
  }
  // Transposed: all elements of rows 16 step to 16 step + 15, which are the k of the MMA.
  __device__ static unsigned long long across(const char *rows, int step) {
    return nn_wgmma_tile(rows + step * 2 * kGroup, kGroup, Rows::kPanel, kSwizzle);
  }
};

// A warp's 16 rows of its group's scores: in every 8 keys a lane has two neighbours in rows
// lane / 4 and lane / 4 + 8.
template <int kKeys> struct WgmmaScoreTile {
  static constexpr int kRowsOfLane = 2, kKeysOfLane = kKeys / 4;
  static constexpr int kSharing = 4;
  struct Scores {
    float at[kKeys / 2];
    __device__ __forceinline__ void hold() {
#pragma unroll
      for (int e = 0; e < kKeys / 2; ++e) nn_wgmma_hold(at[e]);
    }
  };
  __device__ static int row(int r) { return r * 8 + threadIdx.x % kWarp / 4; }
  __device__ static int key(int c) { return c / 2 * 8 + threadIdx.x % 4 * 2 + c % 2; }
  __device__ __forceinline__ static float &at(Scores &scores, int r, int c) {
    return scores.at[c / 2 * 4 + r * 2 + c % 2];
  }
};

// Query rows of kDepth elements. kHeld: they stay in registers; else wgmma reads shared memory.
template <class T, int kDepth, int kKeys, int kTileM, int kTileKeys, bool kHeld>
struct WgmmaScoreRows {
  using Tile = WgmmaScoreTile<kKeys>;
  using Depth = HeadRows<T, kDepth, kTileM>;
  using KeyRows = HeadRows<T, kDepth, kTileKeys>;
  static constexpr bool kHolds = kHeld;
  unsigned query[kHeld ? Depth::kSteps : 1][4];
  const char *group;  // the first row of the warp's group

  __device__ __forceinline__ WgmmaScoreRows(const char *queries, int row0)
      : group(queries + row0 / 64 * 64 * Depth::kPitch) {
    const int lane = threadIdx.x % kWarp, at = Depth::at(row0 + lane % 16, lane / 16);
#pragma unroll
    for (int step = 0; kHeld && step < Depth::kSteps; ++step)
      nn_ldmatrix_x4(query[kHeld ? step : 0], queries + Depth::further(at, step * 2));
  }

  // Asynchronous: await the scores before reading them.
  __device__ __forceinline__ void multiply(typename Tile::Scores &scores, const char *keys) const {
    scores.hold();
    nn_wgmma_fence();
#pragma unroll
    for (int step = 0; step < Depth::kSteps; ++step) {
      const unsigned long long b = GroupTile<KeyRows>::along(keys, step);
      if constexpr (kHeld)
        nn_wgmma_m64k16<kKeys, false>(scores.at, query[step], b, step > 0, T());
      else
        nn_wgmma_m64k16<kKeys, false, false>(scores.at, GroupTile<Depth>::along(group, step), b,
                                             step > 0, T());
    }
    nn_wgmma_commit();
  }

  // To be called after a loop of `multiply`: unless the held registers are read there, ptxas 13.0
  // may reuse them within the loop while wgmma still reads them.
  __device__ __forceinline__ void keep() const {
    unsigned all = 0;
#pragma unroll
    for (int step = 0; kHeld && step < Depth::kSteps; ++step)
#pragma unroll
      for (int e = 0; e < 4; ++e) all ^= query[kHeld ? step : 0][e];
    if constexpr (kHeld) nn_wgmma_keep(all);
  }
};

// The outputs of the warp's rows of kWidth elements, in the layout of the scores.
template <class T, int kWidth, int kKeys, int kTileKeys> struct WgmmaValueSums {
  using Tile = WgmmaScoreTile<kKeys>;
  using Width = HeadRows<T, kWidth, kTileKeys>;
  static constexpr int kColumns = Width::kSteps * 16, kOutsOfLane = kColumns / 4;
  float outs[kColumns / 2];
  struct Weights {
    unsigned step[kKeys / 16][4];
  };

  __device__ __forceinline__ float &out(int r, int c) { return outs[c / 2 * 4 + r * 2 + c % 2]; }

  // Two accumulator columns form one register of an operand fragment.
  __device__ __forceinline__ static void pack(const typename Tile::Scores &scores, Weights &to) {
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        to.step[step][e] =
            nn_pack<T>(scores.at[step * 8 + e * 2], scores.at[step * 8 + e * 2 + 1]);
  }

  // Asynchronous: await the outputs; until then the weights must not change.
  __device__ __forceinline__ void weigh(Weights &weights, const char *values) {
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step)
#pragma unroll
      for (int e = 0; e < 4; ++e) nn_wgmma_hold(weights.step[step][e]);
    hold();
    nn_wgmma_fence();
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step)
      nn_wgmma_m64k16<kColumns, true>(outs, weights.step[step],
                                      GroupTile<Width>::across(values, step), true, T());
    nn_wgmma_commit();
  }
  __device__ __forceinline__ void weigh(const typename Tile::Scores &scores, const char *values) {
    Weights weights;
    pack(scores, weights);
    weigh(weights, values);
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int e = 0; e < kColumns / 2; ++e) outs[e] = 0.f;
  }

  __device__ __forceinline__ void hold() {
#pragma unroll
    for (int e = 0; e < kColumns / 2; ++e) nn_wgmma_hold(outs[e]);
  }

  template <int kStaged> __device__ __forceinline__ void stage(float *to, int to_row) {
    stage_pairs<Tile, kStaged, kOutsOfLane>(*this, to, to_row);
  }
};

// kMostHeld: query rows of at most this many elements stay in registers.
template <int kTileM, int kTileKeys, int kMostHeld = 64> struct WgmmaUnit {
  static constexpr bool kPanels = true;
  template <int kWarpRows, int kKeys> using ScoreTile = WgmmaScoreTile<kKeys>;
  template <class T, int kDepth, int kWarpRows, int kKeys>
  using ScoreRows = WgmmaScoreRows<T, kDepth, kKeys, kTileM, kTileKeys, (kDepth <= kMostHeld)>;
  template <class T, int kDepth, int kWarpRows, int kKeys>
  using RowsReadAgain = WgmmaScoreRows<T, kDepth, kKeys, kTileM, kTileKeys, false>;
  template <class T, int kWidth, int kWarpRows, int kKeys>
  using ValueSums = WgmmaValueSums<T, kWidth, kKeys, kTileKeys>;
  __device__ static void publish() { nn_fence_proxy_async(); }
  template <class Rows> __device__ __forceinline__ static void keep(const Rows &rows) {
    rows.keep();
  }
  template <int kNewer, class Sums> __device__ __forceinline__ static void await(Sums &sums) {
    nn_wgmma_wait<kNewer>();
    sums.hold();
  }
};
