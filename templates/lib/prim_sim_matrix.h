// prim_sim_matrix.h: ldmatrix and matrix products of prim.cuh on libcusim; included by prim_sim.h.
//
// Products first gather the fragments of a warp into plain row-major floats, multiply them in loops
// that the compiler vectorises, and scatter the sums.
#ifndef NNGEN_PRIM_SIM_MATRIX_H
#define NNGEN_PRIM_SIM_MATRIX_H

// ---- ldmatrix ----------------------------------------------------------------------------------

struct CusimMatrixLoad {
  const unsigned short *row;
  unsigned *r;
};

template <int COUNT, bool TRANS>
CUSIM_UNTRACED void cusim_ldmatrix_work(void *const *operands, unsigned mask) {
  CusimMatrixLoad *lanes[kWarp];
  if (mask != kFullMask) cusim_trap(); // a lane has exited
  CUSIM_LANES(l, mask) lanes[l] = static_cast<CusimMatrixLoad *>(operands[l]);
  for (int m = 0; m < COUNT; m++) {
    const unsigned short *rows[8];
    for (int j = 0; j < 8; j++) rows[j] = lanes[8 * m + j]->row;
    for (int l = 0; l < kWarp; l++) {
      int i = l / 4, j = 2 * (l % 4);
      unsigned low = TRANS ? rows[j][i] : rows[i][j];
      unsigned high = TRANS ? rows[j + 1][i] : rows[i][j + 1];
      lanes[l]->r[m] = low | high << 16;
    }
  }
}

template <int COUNT, bool TRANS> NN_DEV void cusim_ldmatrix(unsigned *r, const void *row) {
  if (nn_lane() < 8 * COUNT) {
    if (size_t(row) % 16) cusim_misaligned(row, 16);
    if (CUSIM_TRACE) cusim_access(row, 16, 0);
  }
  CusimMatrixLoad load{static_cast<const unsigned short *>(row), r};
  cusim_meet(kFullMask, cusim_ldmatrix_work<COUNT, TRANS>, &load);
}
#define CUSIM_LDMATRIX(count)                                                                      \
  NN_DEV void nn_ldmatrix_x##count(unsigned r[count], const void *row) {                           \
    cusim_ldmatrix<count, false>(r, row);                                                          \
  }                                                                                                \
  NN_DEV void nn_ldmatrix_x##count##_trans(unsigned r[count], const void *row) {                   \
    cusim_ldmatrix<count, true>(r, row);                                                           \
  }
CUSIM_LDMATRIX(1)
CUSIM_LDMATRIX(2)
CUSIM_LDMATRIX(4)
#undef CUSIM_LDMATRIX

// ---- mma ---------------------------------------------------------------------------------------

// How 32-bit fragment registers unpack: kElements values each, in k order, as Number.
template <class F>
CUSIM_UNTRACED inline void cusim_widen(const unsigned *r, int count, typename F::Number *out) {
  for (int n = 0; n < count; n++)
    for (int i = 0; i < F::kElements; i++) out[n * F::kElements + i] = F::get(r[n], i);
}
struct CusimF16 {
  using Number = float;
  static constexpr int kElements = 2, kKind = CusimFlopsMma16;
  static void widen(const unsigned *r, int count, float *out) {
    cusim::halves_to_floats(r, 2 * count, out);
  }
};
struct CusimBf16 {
  using Number = float;
  static constexpr int kElements = 2, kKind = CusimFlopsMma16;
  static float get(unsigned r, int i) { return nn_from_bits(i ? r & 0xffff0000u : r << 16); }
  static void widen(const unsigned *r, int count, float *out) {
    cusim_widen<CusimBf16>(r, count, out);
  }
};
struct CusimTf32 { // the hardware reads the upper 19 bits only
  using Number = float;
  static constexpr int kElements = 1, kKind = CusimFlopsMmaTf32;
  static float get(unsigned r, int) { return nn_from_bits(r & 0xffffe000u); }
  static void widen(const unsigned *r, int count, float *out) {
    cusim_widen<CusimTf32>(r, count, out);
  }
};
struct CusimS8 {
  using Number = int;
  static constexpr int kElements = 4, kKind = CusimFlopsMma8;
  static int get(unsigned r, int i) { return (signed char)(r >> 8 * i); }
  static void widen(const unsigned *r, int count, int *out) { cusim_widen<CusimS8>(r, count, out); }
};
struct CusimU8 {
  using Number = int;
  static constexpr int kElements = 4, kKind = CusimFlopsMma8;
  static int get(unsigned r, int i) { return (unsigned char)(r >> 8 * i); }
  static void widen(const unsigned *r, int count, int *out) { cusim_widen<CusimU8>(r, count, out); }
};
struct CusimE5m2 { // the upper byte of a binary16
  using Number = float;
  static constexpr int kElements = 4, kKind = CusimFlopsMma8;
  static float get(unsigned r, int i) {
    return cusim::half_to_float((unsigned short)((r >> 8 * i & 0xff) << 8));
  }
  static void widen(const unsigned *r, int count, float *out) {
    cusim_widen<CusimE5m2>(r, count, out);
  }
};
struct CusimE4m3 {
  using Number = float;
  static constexpr int kElements = 4, kKind = CusimFlopsMma8;
  static float get(unsigned r, int i) {
    unsigned b = r >> 8 * i & 0xff, exponent = b >> 3 & 15, mantissa = b & 7;
    if ((b & 0x7f) == 0x7f) return nn_nan();
    float size = exponent ? nn_from_bits((exponent + 120) << 23 | mantissa << 20)
                          : float(mantissa) * 0x1p-9f;
    return b & 0x80 ? -size : size;
  }
  static void widen(const unsigned *r, int count, float *out) {
    cusim_widen<CusimE4m3>(r, count, out);
  }
};

// One lane's operands of M x N products; A and B are the type's registers.
template <class Number> struct CusimProduct {
  Number *d;
  const unsigned *a, *b;
};

// Two neighbouring columns of an accumulator, moved as one.
template <class Number> struct CusimPair { Number v[2]; };

// d[16][8 N] += a[16][kDepth] * b[kDepth][8 N]. NOTE: with vector types, since -O2 leaves the loop
// over columns scalar.
template <class Number, int kDepth, int N>
CUSIM_UNTRACED inline void cusim_multiply(Number (*d)[8 * N], const Number (*a)[kDepth],
                                          const Number (*b)[8 * N]) {
  constexpr int kWide = N % 2 ? 8 : 16, kVectors = 8 * N / kWide;
  typedef Number Wide __attribute__((vector_size(kWide * sizeof(Number)), may_alias));
  for (int row = 0; row < 16; row++) {
    Wide *out = reinterpret_cast<Wide *>(d[row]), sum[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; j++) sum[j] = out[j];
    for (int k = 0; k < kDepth; k++) {
      const Wide *in = reinterpret_cast<const Wide *>(b[k]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; j++) sum[j] += a[row][k] * in[j];
    }
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; j++) out[j] = sum[j];
  }
}

// Fragments, with g = lane / 4: registers 0..3 of A hold rows g, g + 8, g, g + 8 of the k groups 0,
// 0, 1, 1; those of B column g of the k groups 0, 1. In a group, lane % 4 holds kElements values.
template <class F, int M, int N>
CUSIM_UNTRACED void cusim_mma_work(void *const *operands, unsigned mask) {
  using Number = typename F::Number;
  using Pair = CusimPair<Number>;
  constexpr int kE = F::kElements, kGroup = 4 * kE, kDepth = 2 * kGroup, kCols = 8 * N;
  alignas(64) Number a[16][kDepth], b[kDepth][kCols], d[16][kCols];
  const CusimProduct<Number> *lanes[kWarp];
  if (mask != kFullMask) cusim_trap(); // a lane has exited
  for (int l = 0; l < kWarp; l++) {
    lanes[l] = static_cast<CusimProduct<Number> *>(operands[l]);
    Number wide[2 * N * kE];
    F::widen(lanes[l]->b, 2 * N, wide);
    for (int n = 0; n < N; n++)
      for (int h = 0; h < 2; h++)
        for (int i = 0; i < kE; i++)
          b[h * kGroup + l % 4 * kE + i][8 * n + l / 4] = wide[(2 * n + h) * kE + i];
  }
  for (int m = 0; m < M; m++) {
    for (int l = 0; l < kWarp; l++) {
      Number wide[4 * kE];
      F::widen(lanes[l]->a + 4 * m, 4, wide);
      for (int r = 0; r < 4; r++)
        for (int i = 0; i < kE; i++)
          a[l / 4 + r % 2 * 8][r / 2 * kGroup + l % 4 * kE + i] = wide[r * kE + i];
    }
    for (int l = 0; l < kWarp; l++)
      for (int n = 0; n < N; n++)
        for (int h = 0; h < 2; h++)
          __builtin_memcpy(&d[l / 4 + h * 8][8 * n + l % 4 * 2],
                           lanes[l]->d + (m * N + n) * 4 + h * 2, sizeof(Pair));
    cusim_multiply<Number, kDepth, N>(d, a, b);
    for (int l = 0; l < kWarp; l++)
      for (int n = 0; n < N; n++)
        for (int h = 0; h < 2; h++)
          __builtin_memcpy(lanes[l]->d + (m * N + n) * 4 + h * 2,
                           &d[l / 4 + h * 8][8 * n + l % 4 * 2], sizeof(Pair));
  }
  cusim_count_flops(F::kKind, 2ll * 16 * kDepth * kCols * M);
}

template <class F, int M, int N>
NN_DEV void cusim_mma(typename F::Number *d, const unsigned *a, const unsigned *b) {
  CusimProduct<typename F::Number> product{d, a, b};
  cusim_meet(kFullMask, cusim_mma_work<F, M, N>, &product);
}

NN_DEV void nn_mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2], f16) {
  cusim_mma<CusimF16, 1, 1>(d, a, b);
}
NN_DEV void nn_mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2], bf16) {
  cusim_mma<CusimBf16, 1, 1>(d, a, b);
}
NN_DEV void nn_mma_m16n8k8_tf32(float d[4], const unsigned a[4], const unsigned b[2]) {
  cusim_mma<CusimTf32, 1, 1>(d, a, b);
}
NN_DEV void nn_mma_m16n8k32(int d[4], const unsigned a[4], const unsigned b[2], signed char) {
  cusim_mma<CusimS8, 1, 1>(d, a, b);
}
NN_DEV void nn_mma_m16n8k32(int d[4], const unsigned a[4], const unsigned b[2], unsigned char) {
  cusim_mma<CusimU8, 1, 1>(d, a, b);
}
NN_DEV void nn_mma_m16n8k32(float d[4], const unsigned a[4], const unsigned b[2], e4m3) {
  cusim_mma<CusimE4m3, 1, 1>(d, a, b);
}
NN_DEV void nn_mma_m16n8k32(float d[4], const unsigned a[4], const unsigned b[2], e5m2) {
  cusim_mma<CusimE5m2, 1, 1>(d, a, b);
}

template <class T> struct CusimFragment;
template <> struct CusimFragment<f16> { using type = CusimF16; };
template <> struct CusimFragment<bf16> { using type = CusimBf16; };

template <int M, int N, class T>
NN_DEV void nn_mma_tile(float (&d)[M][N][4], const unsigned (&a)[M][4], const unsigned (&b)[N][2],
                        T) {
  cusim_mma<typename CusimFragment<T>::type, M, N>(&d[0][0][0], &a[0][0], &b[0][0]);
}
template <int M, int N>
NN_DEV void nn_mma_tile_tf32(float (&d)[M][N][4], const unsigned (&a)[M][4],
                             const unsigned (&b)[N][2]) {
  cusim_mma<CusimTf32, M, N>(&d[0][0][0], &a[0][0], &b[0][0]);
}

// NOTE: the columns as one vector, since -O2 leaves the loop over them scalar.
template <int M, int N>
NN_DEV void nn_fma_tile(float (&d)[M][N], const Vec<float, 4> (&a)[M],
                        const Vec<float, 4> (&b)[N]) {
  constexpr int kBytes = N * int(sizeof(float));
  typedef float Wide __attribute__((vector_size(kBytes), may_alias));
  float columns[4][N];
  Wide wide[4], sum;
  for (int e = 0; e < 4; e++)
    for (int n = 0; n < N; n++) columns[e][n] = b[n][e];
  __builtin_memcpy(wide, columns, sizeof wide);
  for (int m = 0; m < M; m++) {
    __builtin_memcpy(&sum, d[m], sizeof sum);
    for (int e = 0; e < 4; e++) sum += a[m][e] * wide[e];
    __builtin_memcpy(d[m], &sum, sizeof sum);
  }
}
#endif
