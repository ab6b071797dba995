// cusim_mma_any.h: a single mma.sync of any shape and types, for what the runs of cusim_matrix.h
// exclude (4-bit and 1-bit integers, double, mixed types, saturated sums, predicated mma).
//
// All fragments follow one rule. With g = lane / 4, t = lane % 4: elements of k come in groups of
// what four lanes' registers hold, t's share in order. Registers of A hold row g, then, where M is
// 16, row g + 8, of group 0, then of group 1 and on; those of B column g of each group; C and D row
// g, then g + 8, of the columns 2 * t and next.
#ifndef CUSIM_MMA_ANY_H
#define CUSIM_MMA_ANY_H

namespace cusim {

struct S4 {
  using Number = int;
  static constexpr int kElements = 8, kKind = -1;
  static int get(unsigned r, int i) { return int(r << (28 - 4 * i)) >> 28; }
};
struct U4 {
  using Number = int;
  static constexpr int kElements = 8, kKind = -1;
  static int get(unsigned r, int i) { return int(r >> 4 * i & 15); }
};
struct B1 { // 32 elements of k at once
  using Number = unsigned;
  static constexpr int kElements = 1, kKind = -1;
  static unsigned get(unsigned r, int) { return r; }
};
struct F64 {
  using Number = double;
  static constexpr int kElements = 1, kKind = -1;
  static double get(unsigned long long r, int) { return __builtin_bit_cast(double, r); }
};

// Multiplication and addition.
struct TimesPlus {
  static float add(float d, float a, float b) { return d + a * b; }
  static double add(double d, double a, double b) { return __builtin_fma(a, b, d); }
  static long long add(long long d, long long a, long long b) { return d + a * b; }
};
struct XorCount {
  static long long add(long long d, unsigned a, unsigned b) {
    return d + __builtin_popcount(a ^ b);
  }
};
struct AndCount {
  static long long add(long long d, unsigned a, unsigned b) {
    return d + __builtin_popcount(a & b);
  }
};

// Layout of C and D in registers: kPair registers hold two neighbouring columns.
template <bool kSaturate> struct SumInt {
  using Number = long long;
  using Register = unsigned;
  static constexpr int kPair = 2;
  static void get(const unsigned *r, Number *d) { d[0] = int(r[0]), d[1] = int(r[1]); }
  static unsigned one(Number x) {
    if (kSaturate && x > 0x7fffffff) return 0x7fffffffu;
    if (kSaturate && x < -0x7fffffff - 1) return 0x80000000u;
    return unsigned(x);
  }
  static void put(unsigned *r, const Number *d) { r[0] = one(d[0]), r[1] = one(d[1]); }
};
struct SumFloat {
  using Number = float;
  using Register = unsigned;
  static constexpr int kPair = 2;
  static void get(const unsigned *r, float *d) { __builtin_memcpy(d, r, 8); }
  static void put(unsigned *r, const float *d) { __builtin_memcpy(r, d, 8); }
};
struct SumHalf {
  using Number = float;
  using Register = unsigned;
  static constexpr int kPair = 1;
  static void get(const unsigned *r, float *d) { halves_to_floats(r, 2, d); }
  static void put(unsigned *r, const float *d) { floats_to_halves(d, 2, r); }
};
struct SumDouble {
  using Number = double;
  using Register = unsigned long long;
  static constexpr int kPair = 2;
  static void get(const Register *r, double *d) { __builtin_memcpy(d, r, 16); }
  static void put(Register *r, const double *d) { __builtin_memcpy(r, d, 16); }
};

struct MmaOperands {
  void *d;
  const void *a, *b, *c;
};

template <class F> CUSIM_FN typename F::Number mma_element(unsigned long long r, int i) {
  if constexpr (__is_same(F, F16))
    return half_to_float((unsigned short)(r >> 16 * i));
  else
    return F::get(r, i);
}

// kDepth: length of k, in elements of A's type.
template <class A, class B, class C, class D, int M, int kDepth, class Product>
CUSIM_UNTRACED inline void mma_any_work(void *const *lanes, unsigned mask) {
  using Register = typename D::Register;
  constexpr int kE = A::kElements, kGroup = 4 * kE, kGroups = kDepth / kGroup, kHigh = M / 8;
  static_assert(kDepth % kGroup == 0 && B::kElements == kE, "a shape of mma.sync");
  typename A::Number a[M][kDepth];
  typename B::Number b[kDepth][8];
  typename D::Number d[M][8];
  if (mask != 0xffffffffu) cusim_trap(); // a lane has exited
  for (int l = 0; l < 32; l++) {
    const MmaOperands *o = (const MmaOperands *)lanes[l];
    const Register *ra = (const Register *)o->a, *rb = (const Register *)o->b;
    for (int r = 0; r < kHigh * kGroups; r++)
      for (int e = 0; e < kE; e++)
        a[l / 4 + r % kHigh * 8][r / kHigh * kGroup + l % 4 * kE + e] = mma_element<A>(ra[r], e);
    for (int r = 0; r < kGroups; r++)
      for (int e = 0; e < kE; e++) b[r * kGroup + l % 4 * kE + e][l / 4] = mma_element<B>(rb[r], e);
    for (int h = 0; h < kHigh; h++)
      C::get((const Register *)o->c + h * C::kPair, &d[l / 4 + h * 8][l % 4 * 2]);
  }
  for (int row = 0; row < M; row++)
    for (int k = 0; k < kDepth; k++)
      for (int col = 0; col < 8; col++)
        d[row][col] = Product::add(d[row][col], a[row][k], b[k][col]);
  for (int l = 0; l < 32; l++)
    for (int h = 0; h < kHigh; h++)
      D::put((Register *)((MmaOperands *)lanes[l])->d + h * D::kPair, &d[l / 4 + h * 8][l % 4 * 2]);
  if (A::kKind >= 0) cusim_count_flops(A::kKind, 2ll * M * 8 * kDepth);
}

template <class A, class B, class C, class D, int M, int kDepth, class Product>
CUSIM_FN void mma_any(void *d, const void *a, const void *b, const void *c) {
  MmaOperands operands{d, a, b, c};
  cusim_meet(0xffffffffu, mma_any_work<A, B, C, D, M, kDepth, Product>, &operands);
}

} // namespace cusim

#endif
