// cusim_integer.h: bits of floats, conversions to integers and back, and CUDA's bit and integer
// intrinsics.
#ifndef CUSIM_INTEGER_H
#define CUSIM_INTEGER_H

template <class To, class From> CUSIM_FN auto cusim_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "reinterpretation keeps the size");
  To r;
  __builtin_memcpy(&r, &x, sizeof r);
  return r;
}
CUSIM_FN int __float_as_int(float x) { return cusim_bits<int>(x); }
CUSIM_FN unsigned __float_as_uint(float x) { return cusim_bits<unsigned>(x); }
CUSIM_FN float __int_as_float(int x) { return cusim_bits<float>(x); }
CUSIM_FN float __uint_as_float(unsigned x) { return cusim_bits<float>(x); }
CUSIM_FN long long __double_as_longlong(double x) { return cusim_bits<long long>(x); }
CUSIM_FN double __longlong_as_double(long long x) { return cusim_bits<double>(x); }
CUSIM_FN int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
CUSIM_FN int __double2loint(double x) { return int(__double_as_longlong(x)); }
CUSIM_FN double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)((unsigned long long)high << 32 | unsigned(low)));
}
#define CUSIM_TO_FLOAT(T, name)                                                                    \
  CUSIM_FN float __##name##2float_rn(T x) { return float(x); }                                     \
  CUSIM_FN double __##name##2double_rn(T x) { return double(x); }
CUSIM_TO_FLOAT(int, int) CUSIM_TO_FLOAT(unsigned, uint) CUSIM_TO_FLOAT(long long, ll)
CUSIM_TO_FLOAT(unsigned long long, ull)
#undef CUSIM_TO_FLOAT

// cvt's saturating conversion of an integral value. NaN gives 0; from double, or to 64 bits, it
// gives only T's top bit.
template <class T, class F> CUSIM_FN auto cusim_saturate(F x) {
  constexpr int kBits = int(sizeof(T)) * 8;
  constexpr bool kSigned = T(-1) < T(0);
  constexpr T kTop = T(1ull << (kBits - 1));
  constexpr T kLeast = kSigned ? kTop : T(0), kMost = T(~kLeast);
  constexpr F kEnd = F(1ull << (kBits - 1)) * F(kSigned ? 1 : 2);
  if (x != x) return sizeof(F) == 8 || sizeof(T) == 8 ? kTop : T(0);
  return x >= kEnd ? kMost : x <= F(kLeast) ? kLeast : T(x);
}
#define CUSIM_TO_INT(T, name)                                                                      \
  CUSIM_FN T __float2##name##_rn(float x) { return cusim_saturate<T>(__builtin_rintf(x)); }        \
  CUSIM_FN T __float2##name##_rz(float x) { return cusim_saturate<T>(__builtin_truncf(x)); }       \
  CUSIM_FN T __float2##name##_rd(float x) { return cusim_saturate<T>(__builtin_floorf(x)); }       \
  CUSIM_FN T __float2##name##_ru(float x) { return cusim_saturate<T>(__builtin_ceilf(x)); }        \
  CUSIM_FN T __double2##name##_rn(double x) { return cusim_saturate<T>(__builtin_rint(x)); }       \
  CUSIM_FN T __double2##name##_rz(double x) { return cusim_saturate<T>(__builtin_trunc(x)); }      \
  CUSIM_FN T __double2##name##_rd(double x) { return cusim_saturate<T>(__builtin_floor(x)); }      \
  CUSIM_FN T __double2##name##_ru(double x) { return cusim_saturate<T>(__builtin_ceil(x)); }
CUSIM_TO_INT(int, int) CUSIM_TO_INT(unsigned, uint) CUSIM_TO_INT(long long, ll)
CUSIM_TO_INT(unsigned long long, ull)
#undef CUSIM_TO_INT
CUSIM_FN float __double2float_rn(double x) { return float(x); }

CUSIM_FN int __popc(unsigned x) { return __builtin_popcount(x); }
CUSIM_FN int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
CUSIM_FN int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
CUSIM_FN int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
CUSIM_FN int __ffs(int x) { return __builtin_ffs(x); }
CUSIM_FN int __ffsll(long long x) { return __builtin_ffsll(x); }
CUSIM_FN unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i);
  return r;
}
CUSIM_FN unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}
CUSIM_FN int __mul24(int a, int b) { return int(unsigned(a << 8 >> 8) * unsigned(b << 8 >> 8)); }
CUSIM_FN unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
CUSIM_FN unsigned __sad(int a, int b, unsigned c) {
  return c + (a > b ? unsigned(a) - unsigned(b) : unsigned(b) - unsigned(a));
}
CUSIM_FN unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
CUSIM_FN long long __mul64hi(long long a, long long b) {
  return (long long)((__int128)a * b >> 64);
}
CUSIM_FN int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
CUSIM_FN unsigned __umulhi(unsigned a, unsigned b) {
  return unsigned((unsigned long long)a * b >> 32);
}
CUSIM_FN unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
CUSIM_FN unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
  return unsigned((((unsigned long long)high << 32 | low) << (n & 31)) >> 32);
}
CUSIM_FN unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
  return unsigned(((unsigned long long)high << 32 | low) >> (n & 31));
}
// Counts of 32 and more are 32.
CUSIM_FN unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned n) {
  return n >= 32 ? low : __funnelshift_l(low, high, n);
}
CUSIM_FN unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned n) {
  return n >= 32 ? high : __funnelshift_r(low, high, n);
}
// Halves of sums that would not fit, rounded down; r: up.
CUSIM_FN int __hadd(int a, int b) { return int(((long long)a + b) >> 1); }
CUSIM_FN int __rhadd(int a, int b) { return int(((long long)a + b + 1) >> 1); }
CUSIM_FN unsigned __uhadd(unsigned a, unsigned b) {
  return unsigned(((unsigned long long)a + b) >> 1);
}
CUSIM_FN unsigned __urhadd(unsigned a, unsigned b) {
  return unsigned(((unsigned long long)a + b + 1) >> 1);
}
// Minimum and maximum of sums and of three values; relu: not below 0; b: true if the first operand
// was chosen.
#define CUSIM_EXTREME(T, name, choose, op)                                                         \
  CUSIM_FN T __vi##choose##3_##name(T a, T b, T c) { return choose(choose(a, b), c); }             \
  CUSIM_FN T __viadd##choose##_##name(T a, T b, T c) {                                             \
    return choose(T(unsigned(a) + unsigned(b)), c);                                                \
  }                                                                                                \
  CUSIM_FN T __vib##choose##_##name(T a, T b, bool *first) {                                       \
    *first = a op b;                                                                               \
    return choose(a, b);                                                                           \
  }
#define CUSIM_EXTREME_RELU(choose)                                                                 \
  CUSIM_FN int __vi##choose##_s32_relu(int a, int b) { return max(choose(a, b), 0); }              \
  CUSIM_FN int __vi##choose##3_s32_relu(int a, int b, int c) {                                     \
    return max(__vi##choose##3_s32(a, b, c), 0);                                                   \
  }                                                                                                \
  CUSIM_FN int __viadd##choose##_s32_relu(int a, int b, int c) {                                   \
    return max(__viadd##choose##_s32(a, b, c), 0);                                                 \
  }
CUSIM_EXTREME(int, s32, max, >=) CUSIM_EXTREME(int, s32, min, <=)
CUSIM_EXTREME(unsigned, u32, max, >=) CUSIM_EXTREME(unsigned, u32, min, <=)
CUSIM_EXTREME_RELU(max) CUSIM_EXTREME_RELU(min)
#undef CUSIM_EXTREME
#undef CUSIM_EXTREME_RELU
CUSIM_FN unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  unsigned long long bytes = (unsigned long long)y << 32 | x;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) r |= unsigned(bytes >> (s >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return r;
}
// Sums of products of packed integers: four of 8 bits, or two of 16 with two of b's four bytes.
#define CUSIM_DOT(T, Byte, Half)                                                                   \
  CUSIM_FN T __dp4a(T a, T b, T c) {                                                               \
    for (int i = 0; i < 4; i++) c += T(Byte(a >> 8 * i)) * T(Byte(b >> 8 * i));                    \
    return c;                                                                                      \
  }                                                                                                \
  CUSIM_FN T __dp2a_lo(T a, T b, T c) {                                                            \
    return c + T(Half(a)) * T(Byte(b)) + T(Half(a >> 16)) * T(Byte(b >> 8));                       \
  }                                                                                                \
  CUSIM_FN T __dp2a_hi(T a, T b, T c) { return __dp2a_lo(a, b >> 16, c); }
CUSIM_DOT(int, (signed char), short)
CUSIM_DOT(unsigned, (unsigned char), (unsigned short))
#undef CUSIM_DOT
// The position of the offset-th set bit of mask from base upwards, downwards if offset < 0; else
// ~0.
CUSIM_FN unsigned __fns(unsigned mask, unsigned base, int offset) {
  int step = offset < 0 ? -1 : 1, left = offset < 0 ? -offset : offset;
  if (offset == 0) return base < 32 && mask >> base & 1 ? base : ~0u;
  for (int i = int(base); i >= 0 && i < 32; i += step)
    if (mask >> i & 1 && --left == 0) return unsigned(i);
  return ~0u;
}

#endif
