// fma.cuh: a warp's part of a contraction on the fp32 units.
#pragma once
#include "lib/tile.cuh"

// kM x kN outputs of one warp, from kM rows of a and kN rows of b. kAcross*: the operand is stored
// across k (tile.cuh). Lane l has rows l / 8 + 4 i and columns l % 8 + 8 j: 8 lanes that read at
// once read 8 neighbouring rows of b, in different banks, and one row of a.
template <class T, int kM, int kN, bool kAcrossA = false, bool kAcrossB = false> struct FmaTile {
  static constexpr int kLanesM = 4, kLanesN = 8;
  static constexpr int kRows = kM / kLanesM, kColumns = kN / kLanesN;
  static constexpr int kStepBytes = kChunkBytes;  // bytes of k per step: 4 floats
  static_assert(kM % kLanesM == 0 && kN % kLanesN == 0, "as many outputs for every lane");
  float acc[kRows][kColumns];

  static constexpr int kInFlight = 0;  // blocks of k whose MMAs may still run
  __device__ static void publish() {}
  __device__ void finish() {}

  __device__ void clear() {
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kColumns; ++j) acc[i][j] = 0.f;
  }

  // The values of one row at the 4 k of a step.
  template <bool kAcross>
  __device__ static Vec<float, 4> four(const char *tile, int row, int step) {
    if constexpr (kAcross) {
      Vec<float, 4> values;
      for (int e = 0; e < 4; ++e)
        values[e] = *(const float *)(tile + across_at<float>(row, step * 4 + e));
      return values;
    } else {
      return nn_load<4>((const float *)(tile + swizzled(row, step)));
    }
  }

  // acc += a b^T over kSteps steps of k. `a` and `b` are operand tiles; the warp's rows begin at
  // row_a and row_b.
  template <int kSteps>
  __device__ void multiply(const char *a, int row_a, const char *b, int row_b) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll 2
    for (int step = 0; step < kSteps; ++step) {
      Vec<float, 4> fa[kRows], fb[kColumns];
#pragma unroll
      for (int i = 0; i < kRows; ++i)
        fa[i] = four<kAcrossA>(a, row_a + lane / kLanesN + kLanesM * i, step);
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
        fb[j] = four<kAcrossB>(b, row_b + lane % kLanesN + kLanesN * j, step);
      nn_fma_tile(acc, fa, fb);
    }
  }

  // Writes the warp's outputs to `staged`, from (row, column) on.
  template <class Staged> __device__ void stage(Staged staged, int row, int column) const {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
        staged.put(row + lane / kLanesN + kLanesM * i, column + lane % kLanesN + kLanesN * j,
                   acc[i][j]);
  }
};
