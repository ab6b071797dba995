// cusim_multiply.h: the arithmetic of matrix products: d += a * b of small row-major matrices.
#ifndef CUSIM_MULTIPLY_H
#define CUSIM_MULTIPLY_H

// This code is always optimized, also in unoptimized kernels, with fma contraction. NOTE: that
// changes no sum of factors of 16 bits or less: their products are exact.
#if defined(__clang__)
#define CUSIM_FAST CUSIM_UNTRACED
#else
#define CUSIM_FAST CUSIM_UNTRACED __attribute__((optimize("O2", "fp-contract=fast")))
#endif

namespace cusim {

#if defined(__AVX512F__)
constexpr int kVectorNumbers = 16, kSums = 16; // of a vector; vectors of sums that registers hold
#else
constexpr int kVectorNumbers = 8, kSums = 8;
#endif

// NOTE: with vector types and several independent sums: the compiler does not vectorize the loop
// over columns, and a single sum is bound by latency. Several rows share the loads of b.
template <class Number, int kRows, int kDepth, int kCols>
CUSIM_FAST auto multiply(Number (*d)[kCols], const Number (*a)[kDepth], const Number (*b)[kCols]) {
#if defined(__clang__)
#pragma clang fp contract(fast)
#endif
  constexpr int kWide = kCols % kVectorNumbers ? 8 : kVectorNumbers, kVectors = kCols / kWide;
  constexpr int kAcross = kVectors % 4 == 0 ? 4 : kVectors % 2 == 0 ? 2 : 1;
  constexpr int kTall = kSums / kAcross > 8 ? 8 : kSums / kAcross;
  static_assert(kCols % kWide == 0 && kRows % kTall == 0, "whole vectors, and groups of rows");
  typedef Number Wide __attribute__((vector_size(kWide * sizeof(Number)), may_alias));
  for (int row = 0; row < kRows; row += kTall)
    for (int v = 0; v < kVectors; v += kAcross) {
      Wide sum[kTall][kAcross];
#pragma GCC unroll 8
      for (int i = 0; i < kTall; i++)
#pragma GCC unroll 4
        for (int j = 0; j < kAcross; j++)
          sum[i][j] = reinterpret_cast<const Wide *>(d[row + i])[v + j];
      for (int k = 0; k < kDepth; k++) {
        Wide in[kAcross];
#pragma GCC unroll 4
        for (int j = 0; j < kAcross; j++) in[j] = reinterpret_cast<const Wide *>(b[k])[v + j];
#pragma GCC unroll 8
        for (int i = 0; i < kTall; i++)
#pragma GCC unroll 4
          for (int j = 0; j < kAcross; j++) sum[i][j] += a[row + i][k] * in[j];
      }
#pragma GCC unroll 8
      for (int i = 0; i < kTall; i++)
#pragma GCC unroll 4
        for (int j = 0; j < kAcross; j++)
          reinterpret_cast<Wide *>(d[row + i])[v + j] = sum[i][j];
    }
}

} // namespace cusim

#endif
