// order.cuh: which tile of a matrix product a block works on.
#pragma once

// Tiles m and n of number `tile`: a strip of some tiles along m goes through all tiles along n, so
// that what it reads stays in L2.
template <int kTilesM, int kTilesN> struct TileOrder {
  static constexpr int kStrip = kTilesM < 8 ? kTilesM : 8;
  int m, n;

  __device__ explicit TileOrder(int tile) {
    if constexpr (kTilesN == 1) {
      m = tile, n = 0;
    } else if constexpr (kTilesM == 1) {
      m = 0, n = tile;
    } else {
      const int strip = tile / (kStrip * kTilesN) * kStrip, in_strip = tile % (kStrip * kTilesN);
      const int strip_m = kTilesM - strip < kStrip ? kTilesM - strip : kStrip;
      m = strip + in_strip % strip_m, n = in_strip / strip_m;
    }
  }
};

// The column of a product of kN that stands at n, where each tile has as many of both halves.
template <int kTileN, int kN> __device__ __forceinline__ int pair_column(int n) {
  constexpr int kHalf = kTileN / 2;
  return n / kTileN * kHalf + n % kHalf + (n % kTileN < kHalf ? 0 : kN / 2);
}
