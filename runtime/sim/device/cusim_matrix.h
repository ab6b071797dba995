// cusim_matrix.h: the matrix operations of a warp: ldmatrix and its like, mma.sync. One definition,
// for nngen's primitives (lib/prim_sim_matrix.h) and for PTX (cusim_ptx.h).
//
// The fragments of a warp are gathered into row-major floats, multiplied in loops
// that the compiler vectorises, and scatter the sums.
#ifndef CUSIM_MATRIX_H
#define CUSIM_MATRIX_H

#include "cusim_multiply.h"

namespace cusim {

// ---- ldmatrix ----------------------------------------------------------------------------------

struct MatrixLoad {
  const unsigned short *row;
  unsigned *r;
};

template <int COUNT, bool TRANS>
CUSIM_UNTRACED auto ldmatrix_work(void *const *operands, unsigned mask) {
  MatrixLoad *lanes[32];
  if (mask != 0xffffffffu) cusim_trap(); // a lane has exited
  CUSIM_LANES(l, mask) lanes[l] = static_cast<MatrixLoad *>(operands[l]);
  for (int m = 0; m < COUNT; m++) {
    const unsigned short *rows[8];
    for (int j = 0; j < 8; j++) rows[j] = lanes[8 * m + j]->row;
    for (int l = 0; l < 32; l++) {
      int i = l / 4, j = 2 * (l % 4);
      unsigned low = TRANS ? rows[j][i] : rows[i][j];
      unsigned high = TRANS ? rows[j + 1][i] : rows[i][j + 1];
      lanes[l]->r[m] = low | high << 16;
    }
  }
}

template <int COUNT, bool TRANS> CUSIM_FN auto ldmatrix(unsigned *r, const void *row) {
  if (lane() < 8 * COUNT) {
    if (size_t(row) % 16) cusim_misaligned(row, 16);
    if (CUSIM_TRACE) cusim_access(row, 16, 0);
  }
  MatrixLoad load{static_cast<const unsigned short *>(row), r};
  cusim_meet(0xffffffffu, ldmatrix_work<COUNT, TRANS>, &load);
}
// ---- mma ---------------------------------------------------------------------------------------

// How 32-bit fragment registers unpack: kElements values each, in k order, as Number.
template <class F>
CUSIM_FN auto widen_each(const unsigned *r, int count, typename F::Number *out) {
  for (int n = 0; n < count; n++)
    for (int i = 0; i < F::kElements; i++) out[n * F::kElements + i] = F::get(r[n], i);
}
struct F16 {
  using Number = float;
  static constexpr int kElements = 2, kKind = CusimFlopsMma16;
  CUSIM_FN void widen(const unsigned *r, int count, float *out) {
    halves_to_floats(r, 2 * count, out);
  }
};
struct Bf16 {
  using Number = float;
  static constexpr int kElements = 2, kKind = CusimFlopsMma16;
  CUSIM_FN float get(unsigned r, int i) { return __uint_as_float(i ? r & 0xffff0000u : r << 16); }
  CUSIM_FN void widen(const unsigned *r, int count, float *out) {
    widen_each<Bf16>(r, count, out);
  }
};
struct Tf32 { // the hardware reads the upper 19 bits only
  using Number = float;
  static constexpr int kElements = 1, kKind = CusimFlopsMmaTf32;
  CUSIM_FN float get(unsigned r, int) { return __uint_as_float(r & 0xffffe000u); }
  CUSIM_FN void widen(const unsigned *r, int count, float *out) {
    widen_each<Tf32>(r, count, out);
  }
};
struct S8 {
  using Number = int;
  static constexpr int kElements = 4, kKind = CusimFlopsMma8;
  CUSIM_FN int get(unsigned r, int i) { return (signed char)(r >> 8 * i); }
  CUSIM_FN void widen(const unsigned *r, int count, int *out) { widen_each<S8>(r, count, out); }
};
struct U8 {
  using Number = int;
  static constexpr int kElements = 4, kKind = CusimFlopsMma8;
  CUSIM_FN int get(unsigned r, int i) { return (unsigned char)(r >> 8 * i); }
  CUSIM_FN void widen(const unsigned *r, int count, int *out) { widen_each<U8>(r, count, out); }
};
struct E5m2 { // the upper byte of a binary16
  using Number = float;
  static constexpr int kElements = 4, kKind = CusimFlopsMma8;
  CUSIM_FN float get(unsigned r, int i) {
    return half_to_float((unsigned short)((r >> 8 * i & 0xff) << 8));
  }
  CUSIM_FN void widen(const unsigned *r, int count, float *out) {
    widen_each<E5m2>(r, count, out);
  }
};
struct E4m3 {
  using Number = float;
  static constexpr int kElements = 4, kKind = CusimFlopsMma8;
  CUSIM_FN float get(unsigned r, int i) {
    unsigned b = r >> 8 * i & 0xff, exponent = b >> 3 & 15, mantissa = b & 7;
    if ((b & 0x7f) == 0x7f) return __uint_as_float(0x7fffffffu);
    float size = exponent ? __uint_as_float((exponent + 120) << 23 | mantissa << 20)
                          : float(mantissa) * 0x1p-9f;
    return b & 0x80 ? -size : size;
  }
  CUSIM_FN void widen(const unsigned *r, int count, float *out) {
    widen_each<E4m3>(r, count, out);
  }
};

// One lane's operands of M x N mma; A and B are the type's registers.
template <class Number> struct Product {
  Number *d;
  const unsigned *a, *b;
};

// Two neighbouring columns of an accumulator, moved as one.
template <class Number> struct Pair { Number v[2]; };

// Fragments, with g = lane / 4: registers 0..3 of A hold rows g, g + 8, g, g + 8 of the k groups 0,
// 0, 1, 1; those of B column g of the k groups 0, 1. In a group, lane % 4 holds kElements values.
template <class F, int M, int N>
CUSIM_UNTRACED auto mma_work(void *const *operands, unsigned mask) {
  using Number = typename F::Number;
  using Pair = Pair<Number>;
  constexpr int kE = F::kElements, kGroup = 4 * kE, kDepth = 2 * kGroup, kCols = 8 * N;
  alignas(64) Number a[16][kDepth], b[kDepth][kCols], d[16][kCols];
  const Product<Number> *lanes[32];
  if (mask != 0xffffffffu) cusim_trap(); // a lane has exited
  for (int l = 0; l < 32; l++) {
    lanes[l] = static_cast<Product<Number> *>(operands[l]);
    Number wide[2 * N * kE];
    F::widen(lanes[l]->b, 2 * N, wide);
    for (int n = 0; n < N; n++)
      for (int h = 0; h < 2; h++)
        for (int i = 0; i < kE; i++)
          b[h * kGroup + l % 4 * kE + i][8 * n + l / 4] = wide[(2 * n + h) * kE + i];
  }
  for (int m = 0; m < M; m++) {
    for (int l = 0; l < 32; l++) {
      Number wide[4 * kE];
      F::widen(lanes[l]->a + 4 * m, 4, wide);
      for (int r = 0; r < 4; r++)
        for (int i = 0; i < kE; i++)
          a[l / 4 + r % 2 * 8][r / 2 * kGroup + l % 4 * kE + i] = wide[r * kE + i];
    }
    for (int l = 0; l < 32; l++)
      for (int n = 0; n < N; n++)
        for (int h = 0; h < 2; h++)
          __builtin_memcpy(&d[l / 4 + h * 8][8 * n + l % 4 * 2],
                           lanes[l]->d + (m * N + n) * 4 + h * 2, sizeof(Pair));
    multiply<Number, 16, kDepth, kCols>(d, a, b);
    for (int l = 0; l < 32; l++)
      for (int n = 0; n < N; n++)
        for (int h = 0; h < 2; h++)
          __builtin_memcpy(lanes[l]->d + (m * N + n) * 4 + h * 2,
                           &d[l / 4 + h * 8][8 * n + l % 4 * 2], sizeof(Pair));
  }
  cusim_count_flops(F::kKind, 2ll * 16 * kDepth * kCols * M);
}

template <class F, int M, int N>
CUSIM_FN auto mma(typename F::Number *d, const unsigned *a, const unsigned *b) {
  Product<typename F::Number> product{d, a, b};
  cusim_meet(0xffffffffu, mma_work<F, M, N>, &product);
}

// ---- stmatrix, movmatrix ------------------------------------------------------------------------

struct MatrixStore {
  unsigned short *row;
  const unsigned *r;
};

template <int COUNT, bool TRANS>
CUSIM_UNTRACED auto stmatrix_work(void *const *operands, unsigned mask) {
  MatrixStore *lanes[32];
  if (mask != 0xffffffffu) cusim_trap(); // a lane has exited
  CUSIM_LANES(l, mask) lanes[l] = static_cast<MatrixStore *>(operands[l]);
  for (int m = 0; m < COUNT; m++)
    for (int l = 0; l < 32; l++) {
      int i = l / 4, j = 2 * (l % 4);
      unsigned short low = (unsigned short)lanes[l]->r[m], high = lanes[l]->r[m] >> 16;
      (TRANS ? lanes[8 * m + j]->row[i] : lanes[8 * m + i]->row[j]) = low;
      (TRANS ? lanes[8 * m + j + 1]->row[i] : lanes[8 * m + i]->row[j + 1]) = high;
    }
}

template <int COUNT, bool TRANS> CUSIM_FN auto stmatrix(const unsigned *r, void *row) {
  if (lane() < 8 * COUNT) {
    if (size_t(row) % 16) cusim_misaligned(row, 16);
    if (CUSIM_TRACE) cusim_access(row, 16, 1);
  }
  MatrixStore store{static_cast<unsigned short *>(row), r};
  cusim_meet(0xffffffffu, stmatrix_work<COUNT, TRANS>, &store);
}

CUSIM_UNTRACED inline void movmatrix_work(void *const *operands, unsigned mask) {
  unsigned short m[8][8];
  if (mask != 0xffffffffu) cusim_trap(); // a lane has exited
  for (int l = 0; l < 32; l++) __builtin_memcpy(&m[l / 4][l % 4 * 2], operands[l], 4);
  for (int l = 0; l < 32; l++)
    *static_cast<unsigned *>(operands[l]) =
        unsigned(m[l % 4 * 2][l / 4]) | unsigned(m[l % 4 * 2 + 1][l / 4]) << 16;
}

CUSIM_FN unsigned movmatrix(unsigned r) {
  cusim_meet(0xffffffffu, movmatrix_work, &r);
  return r;
}

} // namespace cusim

#endif
