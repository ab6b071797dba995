// order.cuh: the order of a contraction's tiles.
#pragma once

// Position (m, n) of tile number `tile`: strips of 8 tiles along m, each over all tiles along n, so
// that operands stay in L2.
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

// The column, of kN, at position n of a GLU, whose tiles hold equal shares of both halves.
template <int kTileN, int kN> __device__ __forceinline__ int pair_column(int n) {
  constexpr int kHalf = kTileN / 2;
  return n / kTileN * kHalf + n % kHalf + (n % kTileN < kHalf ? 0 : kN / 2);
}
