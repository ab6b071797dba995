// mma.cuh: a warp's part of a contraction on tensor cores (mma).
#pragma once
#include "lib/tile.cuh"

// kM x kN outputs of one warp, from kM rows of a and kN rows of b, as T (float: TF32). An mma has
// 16 x 8 outputs: 16 along m and 8 along n or, if kM is not a multiple of 16, swapped: its 16 rows
// are rows of b, its 8 columns rows of a. kRound*: the TF32 operand is not yet rounded.
template <class T, int kM, int kN, bool kAcrossA = false, bool kAcrossB = false,
          bool kRoundA = true, bool kRoundB = true>
struct MmaTile {
  static constexpr bool kSwapped = kM % 16 != 0;
  static constexpr int kStepBytes = 32;  // bytes of k per mma: 16 16-bit elements, or 8 of TF32
  static constexpr int kRows = (kSwapped ? kN : kM) / 16;  // of mmas
  static constexpr int kColumns = (kSwapped ? kM : kN) / 8;
  static_assert(kRows * kColumns * 16 * 8 == kM * kN, "whole mma tiles");
  float acc[kRows][kColumns][4];

  static constexpr int kInFlight = 0;  // blocks of k whose MMAs may still run
  __device__ static void publish() {}
  __device__ void finish() {}

  __device__ void clear() {
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kColumns; ++j)
        for (int e = 0; e < 4; ++e) acc[i][j][e] = 0.f;
  }

  // Loads the fragment of 16 rows of an operand from `row` on: registers 0 and 1 are rows 0-7 and
  // 8-15 of the first half of the step's k, registers 2 and 3 of the second half.
  template <bool kAcross>
  __device__ static void load_rows(unsigned (&fragment)[4], const char *tile, int row, int step) {
    const int lane = threadIdx.x % kWarp;
    if constexpr (!kAcross) {
      nn_ldmatrix_x4(fragment, tile + swizzled(row + lane % 16, step * 2 + lane / 16));
    } else if constexpr (sizeof(T) == 2) {
      const int m = row + lane / 8 % 2 * 8, k = step * 16 + lane / 16 * 8 + lane % 8;
      nn_ldmatrix_x4_trans(fragment, tile + across_at<T>(m, k));
    } else {
      for (int e = 0; e < 4; ++e) {
        const int m = row + e % 2 * 8 + lane / 4, k = step * 8 + e / 2 * 4 + lane % 4;
        fragment[e] = *(const unsigned *)(tile + across_at<T>(m, k));
      }
    }
  }

  // The row of the operand that is column j of an mma. If swapped, columns 2t and 2t + 1 of a lane
  // are rows t and t + 4, so that four lanes stage four neighbouring rows, in different banks.
  __device__ static int column_row(int j) { return kSwapped ? j / 2 + j % 2 * 4 : j; }

  // Loads the fragments of 8 rows from `row` on and of the next 8: registers 0 and 1 are the halves
  // of the step's k.
  template <bool kAcross>
  __device__ static void load_columns(unsigned (&first)[2], unsigned (&second)[2], const char *tile,
                                      int row, int step) {
    const int lane = threadIdx.x % kWarp;
    unsigned both[4];
    if constexpr (!kAcross) {
      const int m = row + column_row(lane % 8) + lane / 16 * 8;
      nn_ldmatrix_x4(both, tile + swizzled(m, step * 2 + lane / 8 % 2));
    } else if constexpr (sizeof(T) == 2) {
      const int m = row + lane / 16 * 8, k = step * 16 + lane / 8 % 2 * 8 + lane % 8;
      nn_ldmatrix_x4_trans(both, tile + across_at<T>(m, k));
    } else {
      for (int e = 0; e < 4; ++e) {
        const int m = row + e / 2 * 8 + lane / 4, k = step * 8 + e % 2 * 4 + lane % 4;
        both[e] = *(const unsigned *)(tile + across_at<T>(m, k));
      }
    }
    for (int e = 0; e < 2; ++e) first[e] = both[e], second[e] = both[2 + e];
  }
  // Loads the fragment of a single group of 8 rows.
  __device__ static void load_columns(unsigned (&fragment)[2], const char *tile, int row,
                                      int step) {
    const int lane = threadIdx.x % kWarp;
    nn_ldmatrix_x2(fragment, tile + swizzled(row + column_row(lane % 8), step * 2 + lane / 8 % 2));
  }

  // acc += a b^T over kSteps steps of k. `a` and `b` are operand tiles; the warp's rows begin at
  // row_a and row_b.
  template <int kSteps>
  __device__ void multiply(const char *a, int row_a, const char *b, int row_b) {
    const char *rows = kSwapped ? b : a, *columns = kSwapped ? a : b;
    const int row = kSwapped ? row_b : row_a, column = kSwapped ? row_a : row_b;
    constexpr bool kRowsAcross = kSwapped ? kAcrossB : kAcrossA;
    constexpr bool kColumnsAcross = kSwapped ? kAcrossA : kAcrossB;
    static_assert(!kSwapped || !kColumnsAcross,
                  "across k, columns keep their order and come in pairs");
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      unsigned fr[kRows][4], fc[kColumns][2];
#pragma unroll
      for (int i = 0; i < kRows; ++i) load_rows<kRowsAcross>(fr[i], rows, row + i * 16, step);
#pragma unroll
      for (int j = 0; j + 1 < kColumns; j += 2)
        load_columns<kColumnsAcross>(fc[j], fc[j + 1], columns, column + j * 8, step);
      if constexpr (kColumns % 2)
        load_columns(fc[kColumns - 1], columns, column + kColumns * 8 - 8, step);
      product(fr, fc, T());
    }
  }

  template <class Type>
  __device__ void product(unsigned (&fr)[kRows][4], unsigned (&fc)[kColumns][2], Type type) {
    nn_mma_tile(acc, fr, fc, type);
  }
  // Tensor cores truncate operands to TF32; rounding first halves the error.
  __device__ void product(unsigned (&fr)[kRows][4], unsigned (&fc)[kColumns][2], float) {
    for (int i = 0; i < kRows && (kSwapped ? kRoundB : kRoundA); ++i)
      for (int e = 0; e < 4; ++e) fr[i][e] = nn_tf32(nn_from_bits(fr[i][e]));
    for (int j = 0; j < kColumns && (kSwapped ? kRoundA : kRoundB); ++j)
      for (int e = 0; e < 2; ++e) fc[j][e] = nn_tf32(nn_from_bits(fc[j][e]));
    nn_mma_tile_tf32(acc, fr, fc);
  }

  // Writes the warp's outputs to `staged`, from (row, column) on.
  template <class Staged> __device__ void stage(Staged staged, int row, int column) const {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int r = i * 16 + half * 8 + lane / 4, c = j * 8;
          const float first = acc[i][j][half * 2], second = acc[i][j][half * 2 + 1];
          if constexpr (kSwapped) {
            staged.put(row + c + lane % 4, column + r, first);
            staged.put(row + c + lane % 4 + 4, column + r, second);
          } else {
            staged.put_pair(row + r, column + c + lane % 4 * 2, first, second);
          }
        }
  }
};
