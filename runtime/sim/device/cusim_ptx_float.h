// cusim_ptx_float.h: PTX's floating-point instructions and comparisons.
#ifndef CUSIM_PTX_FLOAT_H
#define CUSIM_PTX_FLOAT_H

#include <fenv.h>

// ---- subnormals, rounding -----------------------------------------------------------------------

CUSIM_FN f32 ftz(f32 x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }
CUSIM_FN f64 ftz(f64 x) { return x; }
CUSIM_FN f16 ftz(f16 x) { return {u16(x.v & 0x7c00 ? x.v : x.v & 0x8000)}; }
CUSIM_FN f16x2 ftz(f16x2 x) { return pair<f16x2>(ftz(low(x)), ftz(high(x))); }
CUSIM_FN bf16 ftz(bf16 x) { return x; }
CUSIM_FN bf16x2 ftz(bf16x2 x) { return x; }

CUSIM_FN f16 to_f16(float x) { return {cusim::float_to_half(x)}; }
CUSIM_FN bf16 to_bf16(float x) { return {cusim::float_to_bfloat(x)}; }
template <class T> struct Narrow;
template <> struct Narrow<f16> {
  CUSIM_FN f16 from(float x) { return to_f16(x); }
};
template <> struct Narrow<bf16> {
  CUSIM_FN bf16 from(float x) { return to_bf16(x); }
};

template <class T> CUSIM_FN T opaque(T x) { // the compiler moves no arithmetic across
  T volatile at = x;
  return at;
}
template <class F> CUSIM_FN auto rounded(int mode, F f) {
  fesetround(mode);
  auto r = opaque(f());
  fesetround(FE_TONEAREST);
  return r;
}

// a * b + c of doubles, inexact results with an odd last bit: rounding that again rounds once.
CUSIM_FN double fma_odd(double a, double b, double c) {
  double product = a * b, sum = product + c; // the product of two 16-bit values is exact
  double back = sum - product, rest = (product - (sum - back)) + (c - back);
  if (rest == 0 || sum - sum != 0 || (bits(sum) & 1)) return sum;
  bool away = (rest > 0) == (sum > 0);
  return flt(away ? bits(sum) | 1 : bits(sum) - 1);
}

// ---- arithmetic: f32, f64, then the 16-bit types and pairs --------------------------------------

#define PTX_ARITH2(name, op)                                                                       \
  CUSIM_FN f32 name(f32 a, f32 b) { return a op b; }                                               \
  CUSIM_FN f64 name(f64 a, f64 b) { return a op b; }                                               \
  CUSIM_FN f16 name(f16 a, f16 b) { return to_f16(num(a) op num(b)); }                             \
  CUSIM_FN bf16 name(bf16 a, bf16 b) { return to_bf16(num(a) op num(b)); }                         \
  CUSIM_FN f16x2 name(f16x2 a, f16x2 b) {                                                          \
    return pair<f16x2>(name(low(a), low(b)), name(high(a), high(b)));                              \
  }                                                                                                \
  CUSIM_FN bf16x2 name(bf16x2 a, bf16x2 b) {                                                       \
    return pair<bf16x2>(name(low(a), low(b)), name(high(a), high(b)));                             \
  }                                                                                                \
  template <class T> CUSIM_FN T name##_ftz(T a, T b) { return ftz(name(ftz(a), ftz(b))); }         \
  PTX_DIRECTED2(name, rz, FE_TOWARDZERO, op)                                                       \
  PTX_DIRECTED2(name, rm, FE_DOWNWARD, op) PTX_DIRECTED2(name, rp, FE_UPWARD, op)
#define PTX_DIRECTED2(name, how, mode, op)                                                         \
  template <class T> CUSIM_FN T name##_##how(T a, T b) {                                           \
    return rounded(mode, [=] { return opaque(a) op b; });                                          \
  }                                                                                                \
  template <class T> CUSIM_FN T name##_##how##_ftz(T a, T b) {                                     \
    return ftz(name##_##how(ftz(a), ftz(b)));                                                      \
  }
PTX_ARITH2(x_add, +) PTX_ARITH2(x_sub, -) PTX_ARITH2(x_mul, *)
CUSIM_FN f32 x_div(f32 a, f32 b) { return a / b; }
CUSIM_FN f64 x_div(f64 a, f64 b) { return a / b; }
template <class T> CUSIM_FN T x_div_ftz(T a, T b) { return ftz(x_div(ftz(a), ftz(b))); }
PTX_DIRECTED2(x_div, rz, FE_TOWARDZERO, /)
PTX_DIRECTED2(x_div, rm, FE_DOWNWARD, /)
PTX_DIRECTED2(x_div, rp, FE_UPWARD, /)
#undef PTX_ARITH2
#undef PTX_DIRECTED2

CUSIM_FN f32 x_fma(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
CUSIM_FN f64 x_fma(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
CUSIM_FN f16 x_fma(f16 a, f16 b, f16 c) { return to_f16(cusim::to_odd(fma_odd(num(a), num(b), num(c)))); }
CUSIM_FN bf16 x_fma(bf16 a, bf16 b, bf16 c) { return to_bf16(cusim::to_odd(fma_odd(num(a), num(b), num(c)))); }
CUSIM_FN f16x2 x_fma(f16x2 a, f16x2 b, f16x2 c) {
  return pair<f16x2>(x_fma(low(a), low(b), low(c)), x_fma(high(a), high(b), high(c)));
}
CUSIM_FN bf16x2 x_fma(bf16x2 a, bf16x2 b, bf16x2 c) {
  return pair<bf16x2>(x_fma(low(a), low(b), low(c)), x_fma(high(a), high(b), high(c)));
}
template <class T> CUSIM_FN T x_fma_ftz(T a, T b, T c) { return ftz(x_fma(ftz(a), ftz(b), ftz(c))); }
#define PTX_FMA(how, mode)                                                                         \
  template <class T> CUSIM_FN T x_fma_##how(T a, T b, T c) {                                       \
    return rounded(mode, [=] { return x_fma(opaque(a), b, c); });                                  \
  }                                                                                                \
  template <class T> CUSIM_FN T x_fma_##how##_ftz(T a, T b, T c) {                                 \
    return ftz(x_fma_##how(ftz(a), ftz(b), ftz(c)));                                               \
  }
PTX_FMA(rz, FE_TOWARDZERO)
PTX_FMA(rm, FE_DOWNWARD)
PTX_FMA(rp, FE_UPWARD)
#undef PTX_FMA
// For bf16: truncates an exact or odd value, and steps away from 0 if the rounding mode demands it.
template <int kMode> CUSIM_FN bf16 fma_directed(bf16 a, bf16 b, bf16 c) {
  double product = (double)num(a) * num(b), exact = fma_odd(num(a), num(b), num(c));
  if (exact == 0 && __builtin_signbit(product) != __builtin_signbit((double)num(c)))
    return {u16(kMode == FE_DOWNWARD ? 0x8000 : 0)};
  float odd = cusim::to_odd(exact);
  u32 x = bits(odd);
  if (odd != odd) return to_bf16(odd);
  bool away = (x & 0xffff) && kMode == (x >> 31 ? FE_DOWNWARD : FE_UPWARD);
  return {u16((x >> 16) + away)};
}
#define PTX_FMA(how, mode)                                                                         \
  CUSIM_FN bf16 x_fma_##how(bf16 a, bf16 b, bf16 c) { return fma_directed<mode>(a, b, c); }        \
  CUSIM_FN bf16x2 x_fma_##how(bf16x2 a, bf16x2 b, bf16x2 c) {                                      \
    return pair<bf16x2>(x_fma_##how(low(a), low(b), low(c)),                                       \
                        x_fma_##how(high(a), high(b), high(c)));                                   \
  }
PTX_FMA(rz, FE_TOWARDZERO)
PTX_FMA(rm, FE_DOWNWARD)
PTX_FMA(rp, FE_UPWARD)
#undef PTX_FMA

// Multiplication and addition of mma on doubles, with a rounding: cusim_mma_any.h.
namespace cusim {
struct FusedRz {
  static double add(double d, double a, double b) { return x_fma_rz(a, b, d); }
};
struct FusedRm {
  static double add(double d, double a, double b) { return x_fma_rm(a, b, d); }
};
struct FusedRp {
  static double add(double d, double a, double b) { return x_fma_rp(a, b, d); }
};
} // namespace cusim

// ---- functions of one value ---------------------------------------------------------------------

#define PTX_UNARY(name, single, wide)                                                              \
  CUSIM_FN f32 name(f32 a) { return single; }                                                      \
  CUSIM_FN f64 name(f64 a) { return wide; }                                                        \
  CUSIM_FN f16 name(f16 a) { return to_f16(name(num(a))); }                                        \
  CUSIM_FN bf16 name(bf16 a) { return to_bf16(name(num(a))); }                                     \
  CUSIM_FN f16x2 name(f16x2 a) { return pair<f16x2>(name(low(a)), name(high(a))); }                \
  CUSIM_FN bf16x2 name(bf16x2 a) { return pair<bf16x2>(name(low(a)), name(high(a))); }             \
  template <class T> CUSIM_FN T name##_ftz(T a) { return ftz(name(ftz(a))); }
CUSIM_FN f64 upper_half(f64 x) { return flt(bits(x) & 0xffffffff00000000ull); }
PTX_UNARY(x_rcp, 1.0f / a, 1.0 / a)
PTX_UNARY(x_sqrt, __builtin_sqrtf(a), __builtin_sqrt(a))
PTX_UNARY(x_rcp_approx, 1.0f / a, upper_half(1.0 / a))
PTX_UNARY(x_sqrt_approx, __builtin_sqrtf(a), __builtin_sqrt(a))
PTX_UNARY(x_rsqrt_approx, float(1.0 / __builtin_sqrt(double(a))), 1.0 / __builtin_sqrt(a))
// NOTE: for f64 the ftz form uses only the upper 32 bits; the other is exact except for the last
// bit.
CUSIM_FN f64 x_rsqrt_approx_ftz(f64 a) {
  return ftz(upper_half(x_rsqrt_approx(upper_half(ftz(a)))));
}
PTX_UNARY(x_sin_approx, sinf(a), sin(a))
PTX_UNARY(x_cos_approx, cosf(a), cos(a))
PTX_UNARY(x_lg2_approx, log2f(a), log2(a))
PTX_UNARY(x_ex2_approx, exp2f(a), exp2(a))
PTX_UNARY(x_tanh_approx, tanhf(a), tanh(a))
#undef PTX_UNARY
#define PTX_DIRECTED(name, how, mode, expression)                                                  \
  template <class T> CUSIM_FN T name##_##how(T a) {                                                \
    return rounded(mode, [=] { return expression; });                                              \
  }                                                                                                \
  template <class T> CUSIM_FN T name##_##how##_ftz(T a) { return ftz(name##_##how(ftz(a))); }
PTX_DIRECTED(x_rcp, rz, FE_TOWARDZERO, T(1) / opaque(a))
PTX_DIRECTED(x_rcp, rm, FE_DOWNWARD, T(1) / opaque(a))
PTX_DIRECTED(x_rcp, rp, FE_UPWARD, T(1) / opaque(a))
PTX_DIRECTED(x_sqrt, rz, FE_TOWARDZERO, x_sqrt(opaque(a)))
PTX_DIRECTED(x_sqrt, rm, FE_DOWNWARD, x_sqrt(opaque(a)))
PTX_DIRECTED(x_sqrt, rp, FE_UPWARD, x_sqrt(opaque(a)))
#undef PTX_DIRECTED

CUSIM_FN f32 x_abs(f32 a) { return __builtin_fabsf(a); }
CUSIM_FN f64 x_abs(f64 a) { return __builtin_fabs(a); }
CUSIM_FN f32 x_neg(f32 a) { return -a; }
CUSIM_FN f64 x_neg(f64 a) { return -a; }
#define PTX_SIGN(T, sign)                                                                          \
  CUSIM_FN T x_abs(T a) { return {decltype(a.v)(a.v & ~(sign))}; }                                 \
  CUSIM_FN T x_neg(T a) { return {decltype(a.v)(a.v ^ (sign))}; }
PTX_SIGN(f16, 0x8000) PTX_SIGN(bf16, 0x8000) PTX_SIGN(f16x2, 0x80008000u)
PTX_SIGN(bf16x2, 0x80008000u)
#undef PTX_SIGN
template <class T> CUSIM_FN T x_abs_ftz(T a) { return ftz(x_abs(a)); }
template <class T> CUSIM_FN T x_neg_ftz(T a) { return ftz(x_neg(a)); }
CUSIM_FN f32 x_copysign(f32 a, f32 b) { return __builtin_copysignf(b, a); }
CUSIM_FN f64 x_copysign(f64 a, f64 b) { return __builtin_copysign(b, a); }

CUSIM_FN f32 canonical_nan(f32) { return flt(0x7fffffffu); }
CUSIM_FN f64 canonical_nan(f64) { return flt(0x7fffffffffffffffull); }
template <class T> CUSIM_FN bool minus_bit(T x) { return __builtin_signbit(x); }
template <class T> CUSIM_FN T least(T a, T b) { return a < b || (a == b && minus_bit(a)) ? a : b; }
template <class T> CUSIM_FN T most(T a, T b) { return a > b || (a == b && !minus_bit(a)) ? a : b; }
template <class T> constexpr u32 sign_bits = sizeof(T) == 2 ? 0x8000u : 0x80008000u;
// Of a NaN and a number the number; with _nan the NaN.
#define PTX_EXTREME(name, pick)                                                                    \
  template <class T> CUSIM_FN T name##_real(T a, T b) {                                            \
    return a != a ? (b != b ? canonical_nan(a) : b) : b != b ? a : pick(a, b);                     \
  }                                                                                                \
  template <class T> CUSIM_FN T name##_real_nan(T a, T b) {                                        \
    return a != a || b != b ? canonical_nan(a) : pick(a, b);                                       \
  }                                                                                                \
  PTX_EXTREME_OF(name, ) PTX_EXTREME_OF(name, _nan)
#define PTX_EXTREME_OF(name, how)                                                                  \
  CUSIM_FN f32 name##how(f32 a, f32 b) { return name##_real##how(a, b); }                          \
  CUSIM_FN f64 name##how(f64 a, f64 b) { return name##_real##how(a, b); }                          \
  CUSIM_FN f16 name##how(f16 a, f16 b) { return to_f16(name##_real##how(num(a), num(b))); }        \
  CUSIM_FN bf16 name##how(bf16 a, bf16 b) { return to_bf16(name##_real##how(num(a), num(b))); }    \
  CUSIM_FN f16x2 name##how(f16x2 a, f16x2 b) {                                                     \
    return pair<f16x2>(name##how(low(a), low(b)), name##how(high(a), high(b)));                    \
  }                                                                                                \
  CUSIM_FN bf16x2 name##how(bf16x2 a, bf16x2 b) {                                                  \
    return pair<bf16x2>(name##how(low(a), low(b)), name##how(high(a), high(b)));                   \
  }                                                                                                \
  template <class T> CUSIM_FN T name##how##_ftz(T a, T b) { return ftz(name##how(ftz(a), ftz(b))); } \
  CUSIM_FN f32 name##how##_xorsign(f32 a, f32 b) {                                                 \
    return flt(bits(name##how(x_abs(a), x_abs(b))) | ((bits(a) ^ bits(b)) & 0x80000000u));         \
  }                                                                                                \
  CUSIM_FN f32 name##how##_xorsign_ftz(f32 a, f32 b) {                                             \
    return ftz(name##how##_xorsign(ftz(a), ftz(b)));                                               \
  }                                                                                                \
  template <class T> CUSIM_FN T name##how##_xorsign(T a, T b) {                                    \
    return {decltype(a.v)(name##how(x_abs(a), x_abs(b)).v | ((a.v ^ b.v) & sign_bits<T>))};        \
  }                                                                                                \
  template <class T> CUSIM_FN T name##how##_xorsign_ftz(T a, T b) {                                \
    return ftz(name##how##_xorsign(ftz(a), ftz(b)));                                               \
  }
PTX_EXTREME(x_min, least)
PTX_EXTREME(x_max, most)
#undef PTX_EXTREME
#undef PTX_EXTREME_OF

// Between 0 and 1; NaN is 0.
CUSIM_FN f32 x_sat(f32 x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
CUSIM_FN f64 x_sat(f64 x) { return x > 0.0 ? (x < 1.0 ? x : 1.0) : 0.0; }
CUSIM_FN f16 x_sat(f16 x) { return to_f16(x_sat(num(x))); }
CUSIM_FN f16x2 x_sat(f16x2 x) { return pair<f16x2>(x_sat(low(x)), x_sat(high(x))); }
CUSIM_FN f32 x_relu(f32 x) { return x != x ? canonical_nan(x) : x > 0.0f ? x : 0.0f; }
CUSIM_FN f16 x_relu(f16 x) { return to_f16(x_relu(num(x))); }
CUSIM_FN bf16 x_relu(bf16 x) { return to_bf16(x_relu(num(x))); }
CUSIM_FN f16x2 x_relu(f16x2 x) { return pair<f16x2>(x_relu(low(x)), x_relu(high(x))); }
CUSIM_FN bf16x2 x_relu(bf16x2 x) { return pair<bf16x2>(x_relu(low(x)), x_relu(high(x))); }

CUSIM_FN u32 magnitude(f32 x) { return bits(x) & 0x7fffffffu; }
CUSIM_FN bool x_testp_finite(f32 x) { return magnitude(x) < 0x7f800000u; }
CUSIM_FN bool x_testp_infinite(f32 x) { return magnitude(x) == 0x7f800000u; }
CUSIM_FN bool x_testp_subnormal(f32 x) { return magnitude(x) && magnitude(x) < 0x800000u; }
CUSIM_FN bool x_testp_normal(f32 x) { return x_testp_finite(x) && magnitude(x) >= 0x800000u; }
CUSIM_FN bool x_testp_finite(f64 x) { return x - x == 0; }
CUSIM_FN bool x_testp_infinite(f64 x) { return x == x && x - x != 0; }
CUSIM_FN bool x_testp_subnormal(f64 x) { return x != 0 && __builtin_fabs(x) < 0x1p-1022; }
CUSIM_FN bool x_testp_normal(f64 x) { return x_testp_finite(x) && __builtin_fabs(x) >= 0x1p-1022; }
template <class T> CUSIM_FN bool x_testp_number(T x) { return x == x; }
template <class T> CUSIM_FN bool x_testp_notanumber(T x) { return x != x; }

// ---- comparisons: false for NaN, except those that end in u -------------------------------------

#define PTX_COMPARE(name, expression)                                                              \
  template <class T> CUSIM_FN bool x_##name##_num(T a, T b) { return expression; }                 \
  template <class T> CUSIM_FN bool x_##name(T a, T b) { return x_##name##_num(num(a), num(b)); }   \
  CUSIM_FN pred2 x_##name(f16x2 a, f16x2 b) {                                                      \
    return {x_##name(low(a), low(b)), x_##name(high(a), high(b))};                                 \
  }                                                                                                \
  CUSIM_FN pred2 x_##name(bf16x2 a, bf16x2 b) {                                                    \
    return {x_##name(low(a), low(b)), x_##name(high(a), high(b))};                                 \
  }                                                                                                \
  template <class T> CUSIM_FN auto x_##name##_ftz(T a, T b) { return x_##name(ftz(a), ftz(b)); }
PTX_COMPARE(eq, a == b) PTX_COMPARE(lt, a < b) PTX_COMPARE(le, a <= b) PTX_COMPARE(gt, a > b)
PTX_COMPARE(ge, a >= b) PTX_COMPARE(ne, a < b || a > b) PTX_COMPARE(lo, a < b)
PTX_COMPARE(ls, a <= b) PTX_COMPARE(hi, a > b) PTX_COMPARE(hs, a >= b) PTX_COMPARE(equ, !(a < b || a > b))
PTX_COMPARE(neu, a != b) PTX_COMPARE(ltu, !(a >= b)) PTX_COMPARE(leu, !(a > b))
PTX_COMPARE(gtu, !(a <= b)) PTX_COMPARE(geu, !(a < b)) PTX_COMPARE(num, a == a && b == b)
PTX_COMPARE(nan, a != a || b != b)
#undef PTX_COMPARE

template <class T> CUSIM_FN T x_set(bool p) {
  if constexpr (sizeof(T) == 4 && T(0.5f) != T(0)) return p ? T(1.0f) : T(0.0f);
  else return p ? T(~T(0)) : T(0);
}
template <> inline f16 x_set<f16>(bool p) { return {u16(p ? 0x3c00 : 0)}; }
template <> inline bf16 x_set<bf16>(bool p) { return {u16(p ? 0x3f80 : 0)}; }
CUSIM_FN pred2 operator&(pred2 a, bool c) { return {a.low && c, a.high && c}; }
CUSIM_FN pred2 operator|(pred2 a, bool c) { return {a.low || c, a.high || c}; }
CUSIM_FN pred2 operator^(pred2 a, bool c) { return {a.low != c, a.high != c}; }
template <class T> CUSIM_FN T x_set(pred2 p) {
  if constexpr (sizeof(T) != 4) return T();
  else if constexpr (__is_class(T)) return pair<T>(x_set<typename Halves<T>::type>(p.low), x_set<typename Halves<T>::type>(p.high));
  else return (p.low ? 0xffffu : 0) | (p.high ? 0xffff0000u : 0);
}

#endif
