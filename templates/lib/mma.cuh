// mma.cuh: a warp's part of a matrix product on tensor cores.
#pragma once
#include "lib/tile.cuh"

// The product of kM x kN outputs by one warp: kM rows of a, kN rows of b, as T (float: TF32).
template <class T, int kM, int kN, bool kAcrossA = false, bool kAcrossB = false> struct WarpTile {
  static constexpr int kMmaM = 16, kMmaN = 8;
  static constexpr int kStepBytes = 32;  // of k in one mma: 16 16-bit elements, or 8 of TF32
  static constexpr int kTilesM = kM / kMmaM, kTilesN = kN / kMmaN;
  static_assert(kM % kMmaM == 0 && kN % (2 * kMmaN) == 0, "whole mma tiles, two along n at once");
  float acc[kTilesM][kTilesN][4];

  __device__ void clear() {
    for (int i = 0; i < kTilesM; ++i)
      for (int j = 0; j < kTilesN; ++j)
        for (int e = 0; e < 4; ++e) acc[i][j][e] = 0.f;
  }

  // The fragment of 16 rows of a from `row` on: registers are rows 0-7 and 8-15 of the first half of
  // the step's k, then of the second.
  __device__ static void load_a(unsigned (&fragment)[4], const char *a, int row, int step) {
    const int lane = threadIdx.x % kWarp;
    if constexpr (!kAcrossA) {
      nn_ldmatrix_x4(fragment, a + swizzled(row + lane % 16, step * 2 + lane / 16));
    } else if constexpr (sizeof(T) == 2) {
      nn_ldmatrix_x4_trans(fragment, a + turned_at<T>(row + lane / 8 % 2 * 8, step * 16 + lane / 16 * 8 + lane % 8));
    } else {
      for (int e = 0; e < 4; ++e)
        fragment[e] = *(const unsigned *)(a + turned_at<T>(row + e % 2 * 8 + lane / 4, step * 8 + e / 2 * 4 + lane % 4));
    }
  }

  // The fragments of rows 0-7 and 8-15 of b from `row` on: registers are the halves of the step's k.
  __device__ static void load_b(unsigned (&first)[2], unsigned (&second)[2], const char *b, int row, int step) {
    const int lane = threadIdx.x % kWarp;
    unsigned both[4];
    if constexpr (!kAcrossB) {
      nn_ldmatrix_x4(both, b + swizzled(row + lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2));
    } else if constexpr (sizeof(T) == 2) {
      nn_ldmatrix_x4_trans(both, b + turned_at<T>(row + lane / 16 * 8, step * 16 + lane / 8 % 2 * 8 + lane % 8));
    } else {
      for (int e = 0; e < 4; ++e)
        both[e] = *(const unsigned *)(b + turned_at<T>(row + e / 2 * 8 + lane / 4, step * 8 + e % 2 * 4 + lane % 4));
    }
    for (int e = 0; e < 2; ++e) first[e] = both[e], second[e] = both[2 + e];
  }

  // acc += a b^T over kSteps steps of k. `a` and `b` are operand tiles, the warp's rows begin at row_*.
  template <int kSteps> __device__ void multiply(const char *a, int row_a, const char *b, int row_b) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      unsigned fa[kTilesM][4], fb[kTilesN][2];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) load_a(fa[i], a, row_a + i * kMmaM, step);
#pragma unroll
      for (int j = 0; j < kTilesN; j += 2) load_b(fb[j], fb[j + 1], b, row_b + j * kMmaN, step);
      product(fa, fb, T());
    }
  }

  template <class Type>
  __device__ void product(unsigned (&fa)[kTilesM][4], unsigned (&fb)[kTilesN][2], Type type) {
    nn_mma_tile(acc, fa, fb, type);
  }
  // The tensor core would cut the operands to TF32; rounding halves the error.
  __device__ void product(unsigned (&fa)[kTilesM][4], unsigned (&fb)[kTilesN][2], float) {
    for (int i = 0; i < kTilesM; ++i)
      for (int e = 0; e < 4; ++e) fa[i][e] = nn_tf32(nn_from_bits(fa[i][e]));
    for (int j = 0; j < kTilesN; ++j)
      for (int e = 0; e < 2; ++e) fb[j][e] = nn_tf32(nn_from_bits(fb[j][e]));
    nn_mma_tile_tf32(acc, fa, fb);
  }

  // Writes the warp's outputs to `stage`, rows of `stride` floats, from (row, column) on.
  __device__ void stage(float *out, int stride, int row, int column) const {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int j = 0; j < kTilesN; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int m = row + i * kMmaM + half * 8 + lane / 4, n = column + j * kMmaN + lane % 4 * 2;
          Vec<float, 2> pair;
          pair[0] = acc[i][j][half * 2], pair[1] = acc[i][j][half * 2 + 1];
          nn_store<2>(out + staged(stride, m, n), pair);
        }
  }
};
