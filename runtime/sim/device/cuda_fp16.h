// cuda_fp16.h: the part of CUDA's header of that name that kernels commonly use. Arithmetic is done in
// float and rounded once, which for one operation gives the correctly rounded result.
#ifndef CUSIM_CUDA_FP16_H
#define CUSIM_CUDA_FP16_H

struct __half {
  unsigned short bits;
  __half() = default;
  __half(float x) : bits(cusim::float_to_half(x)) {}
  __half(double x) : bits(cusim::float_to_half(float(x))) {}
  __half(int x) : bits(cusim::float_to_half(float(x))) {}
  operator float() const { return cusim::half_to_float(bits); }
};
struct alignas(4) __half2 {
  __half x, y;
};
typedef __half half;
typedef __half2 half2;

CUSIM_FN __half __float2half(float x) { return __half(x); }
CUSIM_FN __half __float2half_rn(float x) { return __half(x); }
CUSIM_FN __half __int2half_rn(int x) { return __half(x); }
CUSIM_FN float __half2float(__half x) { return float(x); }
CUSIM_FN __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
CUSIM_FN __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
CUSIM_FN __half2 __halves2half2(__half x, __half y) { return {x, y}; }
CUSIM_FN __half __low2half(__half2 v) { return v.x; }
CUSIM_FN __half __high2half(__half2 v) { return v.y; }
CUSIM_FN float2 __half22float2(__half2 v) { return make_float2(float(v.x), float(v.y)); }
CUSIM_FN __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
CUSIM_FN unsigned short __half_as_ushort(__half x) { return x.bits; }
CUSIM_FN __half __ushort_as_half(unsigned short bits) {
  __half x;
  x.bits = bits;
  return x;
}

#define CUSIM_OPERATOR(name, op)                                                                   \
  CUSIM_FN __half name(__half a, __half b) { return __half(float(a) op float(b)); }                              \
  CUSIM_FN __half2 name##2(__half2 a, __half2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }               \
  CUSIM_FN __half operator op(__half a, __half b) { return name(a, b); }                                      \
  CUSIM_FN __half2 operator op(__half2 a, __half2 b) { return name##2(a, b); }                                \
  CUSIM_FN __half &operator op##=(__half &a, __half b) { return a = name(a, b); }
CUSIM_OPERATOR(__hadd, +)
CUSIM_OPERATOR(__hsub, -)
CUSIM_OPERATOR(__hmul, *)
CUSIM_OPERATOR(__hdiv, /)
#undef CUSIM_OPERATOR

#define CUSIM_COMPARE(name, op)                                                                    \
  CUSIM_FN bool name(__half a, __half b) { return float(a) op float(b); }                                  \
  CUSIM_FN bool operator op(__half a, __half b) { return name(a, b); }
CUSIM_COMPARE(__heq, ==)
CUSIM_COMPARE(__hne, !=)
CUSIM_COMPARE(__hlt, <)
CUSIM_COMPARE(__hle, <=)
CUSIM_COMPARE(__hgt, >)
CUSIM_COMPARE(__hge, >=)
#undef CUSIM_COMPARE

CUSIM_FN __half __hfma(__half a, __half b, __half c) { return __half(float(__builtin_fma(float(a), float(b), float(c)))); }
CUSIM_FN __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
CUSIM_FN __half __hneg(__half a) { return __ushort_as_half((unsigned short)(a.bits ^ 0x8000)); }
CUSIM_FN __half __habs(__half a) { return __ushort_as_half((unsigned short)(a.bits & 0x7fff)); }
CUSIM_FN __half operator-(__half a) { return __hneg(a); }
CUSIM_FN bool __hisnan(__half a) { return __builtin_isnan(float(a)); }
CUSIM_FN __half __hmax(__half a, __half b) { return __half(fmaxf(float(a), float(b))); }
CUSIM_FN __half __hmin(__half a, __half b) { return __half(fminf(float(a), float(b))); }
CUSIM_FN __half hexp(__half a) { return __half(expf(float(a))); }
CUSIM_FN __half hlog(__half a) { return __half(logf(float(a))); }
CUSIM_FN __half hsqrt(__half a) { return __half(__builtin_sqrtf(float(a))); }
CUSIM_FN __half hrsqrt(__half a) { return __half(rsqrtf(float(a))); }
CUSIM_FN __half atomicAdd(__half *p, __half v) {
  unsigned short old = cusim::atomic_update(&p->bits, [v](unsigned short bits) {
    return __hadd(__ushort_as_half(bits), v).bits;
  });
  return __ushort_as_half(old);
}

#endif
