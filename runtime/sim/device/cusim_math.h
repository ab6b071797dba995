// cusim_math.h: CUDA's math functions, over the host's libm.
#ifndef CUSIM_MATH_H
#define CUSIM_MATH_H

// Of integers as of doubles.
#define CUSIM_MATH1(name)                                                                          \
  extern "C" float name##f(float) noexcept;                                                        \
  extern "C" double name(double) noexcept;                                                         \
  CUSIM_FN float name(float x) { return name##f(x); }                                              \
  template <class T, class = decltype(T() % 1)> CUSIM_FN double name(T x) {                        \
    return name(double(x));                                                                        \
  }
#define CUSIM_MATH2(name)                                                                          \
  extern "C" float name##f(float, float) noexcept;                                                 \
  extern "C" double name(double, double) noexcept;                                                 \
  CUSIM_FN float name(float x, float y) { return name##f(x, y); }                                  \
  template <class T, class U, class = decltype(T() % U())> CUSIM_FN double name(T x, U y) {        \
    return name(double(x), double(y));                                                             \
  }
CUSIM_MATH1(exp) CUSIM_MATH1(exp2) CUSIM_MATH1(expm1) CUSIM_MATH1(log) CUSIM_MATH1(log2)
CUSIM_MATH1(log10) CUSIM_MATH1(log1p) CUSIM_MATH1(sqrt) CUSIM_MATH1(cbrt) CUSIM_MATH1(sin)
CUSIM_MATH1(cos) CUSIM_MATH1(tan) CUSIM_MATH1(asin) CUSIM_MATH1(acos) CUSIM_MATH1(atan)
CUSIM_MATH1(sinh) CUSIM_MATH1(cosh) CUSIM_MATH1(tanh) CUSIM_MATH1(erf) CUSIM_MATH1(erfc)
CUSIM_MATH1(floor) CUSIM_MATH1(ceil) CUSIM_MATH1(trunc) CUSIM_MATH1(round) CUSIM_MATH1(rint)
CUSIM_MATH1(nearbyint) CUSIM_MATH1(fabs) CUSIM_MATH1(tgamma) CUSIM_MATH1(lgamma)
CUSIM_MATH2(pow) CUSIM_MATH2(fmod) CUSIM_MATH2(atan2)
CUSIM_MATH2(hypot) CUSIM_MATH2(copysign) CUSIM_MATH2(fdim) CUSIM_MATH2(remainder)
CUSIM_MATH1(asinh) CUSIM_MATH1(acosh) CUSIM_MATH1(atanh) CUSIM_MATH1(logb) CUSIM_MATH2(nextafter)
CUSIM_MATH1(j0) CUSIM_MATH1(j1) CUSIM_MATH1(y0) CUSIM_MATH1(y1)
#undef CUSIM_MATH1
#undef CUSIM_MATH2

#include "cusim_extreme.h"

extern "C" float jnf(int, float) noexcept;
extern "C" double jn(int, double) noexcept;
extern "C" float ynf(int, float) noexcept;
extern "C" double yn(int, double) noexcept;
CUSIM_FN float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
CUSIM_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
CUSIM_FN double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
CUSIM_FN float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
CUSIM_FN float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
CUSIM_FN double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
CUSIM_FN float exp10f(float x) { return powf(10.0f, x); }
CUSIM_FN void sincosf(float x, float *s, float *c) { *s = sinf(x), *c = cosf(x); }
CUSIM_FN float ldexpf(float x, int e) { return __builtin_ldexpf(x, e); }

// With a result that is an integer, or a second one through a pointer.
#define CUSIM_ROUNDED(T, name)                                                                     \
  CUSIM_FN T name##f(float x) { return __builtin_##name##f(x); }                                   \
  CUSIM_FN T name(double x) { return __builtin_##name(x); }                                        \
  CUSIM_FN T name(float x) { return __builtin_##name##f(x); }
CUSIM_ROUNDED(long, lround) CUSIM_ROUNDED(long long, llround) CUSIM_ROUNDED(long, lrint)
CUSIM_ROUNDED(long long, llrint) CUSIM_ROUNDED(int, ilogb)
#undef CUSIM_ROUNDED
#define CUSIM_PARTS(name, T, U)                                                                    \
  CUSIM_FN float name##f(float x, T p) { return __builtin_##name##f(x, p); }                       \
  CUSIM_FN double name(double x, U p) { return __builtin_##name(x, p); }
CUSIM_PARTS(modf, float *, double *) CUSIM_PARTS(frexp, int *, int *) CUSIM_PARTS(scalbn, int, int)
#undef CUSIM_PARTS
CUSIM_FN float scalblnf(float x, long n) { return __builtin_scalblnf(x, n); }
CUSIM_FN double scalbln(double x, long n) { return __builtin_scalbln(x, n); }
CUSIM_FN double ldexp(double x, int e) { return __builtin_ldexp(x, e); }
CUSIM_FN void sincos(double x, double *s, double *c) { *s = sin(x), *c = cos(x); }
CUSIM_FN double exp10(double x) { return pow(10.0, x); }
CUSIM_FN float rcbrtf(float x) { return 1.0f / cbrtf(x); }
CUSIM_FN float rhypotf(float x, float y) { return float(1.0 / hypot(double(x), double(y))); }
CUSIM_FN float norm3df(float x, float y, float z) {
  return float(hypot(hypot(double(x), double(y)), double(z)));
}
CUSIM_FN float rnorm3df(float x, float y, float z) {
  return float(1.0 / hypot(hypot(double(x), double(y)), double(z)));
}
CUSIM_FN float norm4df(float x, float y, float z, float w) {
  return float(hypot(hypot(double(x), double(y)), hypot(double(z), double(w))));
}
CUSIM_FN float fdividef(float x, float y) { return x / y; }

CUSIM_FN double norm3d(double x, double y, double z) { return hypot(hypot(x, y), z); }
CUSIM_FN double rhypot(double x, double y) { // 1 / hypot may overflow
  bool large = __builtin_fabs(x) > 1e300 || __builtin_fabs(y) > 1e300;
  return large ? 0.25 / hypot(0.25 * x, 0.25 * y) : 1.0 / hypot(x, y);
}
CUSIM_FN double rcbrt(double x) { return 1.0 / cbrt(x); }

CUSIM_FN long labs(long x) { return x < 0 ? -x : x; }
CUSIM_FN long long llabs(long long x) { return x < 0 ? -x : x; }
CUSIM_FN long abs(long x) { return labs(x); }
CUSIM_FN int abs(int x) { return x < 0 ? -x : x; }
CUSIM_FN long long abs(long long x) { return x < 0 ? -x : x; }
CUSIM_FN float abs(float x) { return __builtin_fabsf(x); }
CUSIM_FN double abs(double x) { return __builtin_fabs(x); }

CUSIM_FN float nanf(const char *) { return __builtin_nanf("0x3fffff"); } // a GPU's
CUSIM_FN double nan(const char *) { return -__builtin_nan(""); }
CUSIM_FN bool signbit(float x) { return __builtin_signbit(x); }
CUSIM_FN bool signbit(double x) { return __builtin_signbit(x); }
CUSIM_FN bool isnan(float x) { return __builtin_isnan(x); }
CUSIM_FN bool isnan(double x) { return __builtin_isnan(x); }
CUSIM_FN bool isinf(float x) { return __builtin_isinf(x); }
CUSIM_FN bool isinf(double x) { return __builtin_isinf(x); }
CUSIM_FN bool isfinite(float x) { return __builtin_isfinite(x); }
CUSIM_FN bool isfinite(double x) { return __builtin_isfinite(x); }

// The fast and the explicitly rounded functions: all round to nearest here.
CUSIM_FN float __expf(float x) { return expf(x); }
CUSIM_FN float __exp10f(float x) { return exp10f(x); }
CUSIM_FN float __logf(float x) { return logf(x); }
CUSIM_FN float __log2f(float x) { return log2f(x); }
CUSIM_FN float __log10f(float x) { return log10f(x); }
CUSIM_FN float __sinf(float x) { return sinf(x); }
CUSIM_FN float __cosf(float x) { return cosf(x); }
CUSIM_FN void __sincosf(float x, float *s, float *c) { *s = sinf(x), *c = cosf(x); }
CUSIM_FN float __tanhf(float x) { return tanhf(x); }
CUSIM_FN float __tanf(float x) { return tanf(x); }
CUSIM_FN float __powf(float x, float y) { return powf(x, y); }
CUSIM_FN float __fdividef(float x, float y) { return x / y; }
CUSIM_FN float __fdiv_rn(float x, float y) { return x / y; }
CUSIM_FN float __frcp_rn(float x) { return 1.0f / x; }
CUSIM_FN float __frsqrt_rn(float x) { return 1.0f / __builtin_sqrtf(x); }
CUSIM_FN float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
CUSIM_FN float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
CUSIM_FN float __fmaf_ieee_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
CUSIM_FN float __fadd_rn(float a, float b) {
  volatile float r = a + b; // volatile prevents contraction into an fma
  return r;
}
CUSIM_FN float __fsub_rn(float a, float b) { return __fadd_rn(a, -b); }
CUSIM_FN float __fmul_rn(float a, float b) {
  volatile float r = a * b;
  return r;
}
#define CUSIM_DOUBLE_RN(name, op)                                                                  \
  CUSIM_FN double name(double a, double b) {                                                       \
    volatile double r = a op b;                                                                    \
    return r;                                                                                      \
  }
CUSIM_DOUBLE_RN(__dadd_rn, +) CUSIM_DOUBLE_RN(__dsub_rn, -) CUSIM_DOUBLE_RN(__dmul_rn, *)
CUSIM_DOUBLE_RN(__ddiv_rn, /)
#undef CUSIM_DOUBLE_RN
CUSIM_FN double __drcp_rn(double x) { return 1.0 / x; }
CUSIM_FN double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
CUSIM_FN double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
CUSIM_FN float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

#endif
