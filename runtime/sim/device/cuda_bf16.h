// cuda_bf16.h: the part of CUDA's header of that name that kernels commonly use. Arithmetic is done in
// float and rounded once, which for one operation gives the correctly rounded result.
#ifndef CUSIM_CUDA_BF16_H
#define CUSIM_CUDA_BF16_H

struct __nv_bfloat16 {
  unsigned short bits;
  __nv_bfloat16() = default;
  __nv_bfloat16(float x) : bits(cusim::float_to_bfloat(x)) {}
  __nv_bfloat16(double x) : bits(cusim::float_to_bfloat(float(x))) {}
  __nv_bfloat16(int x) : bits(cusim::float_to_bfloat(float(x))) {}
  operator float() const { return cusim::bfloat_to_float(bits); }
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

CUSIM_FN __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
CUSIM_FN __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
CUSIM_FN __nv_bfloat16 __int2bfloat16_rn(int x) { return __nv_bfloat16(x); }
CUSIM_FN float __bfloat162float(__nv_bfloat16 x) { return float(x); }
CUSIM_FN __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
CUSIM_FN __nv_bfloat162 __float2bfloat162_rn(float x) { return {__nv_bfloat16(x), __nv_bfloat16(x)}; }
CUSIM_FN __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
CUSIM_FN __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
CUSIM_FN __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
CUSIM_FN float2 __bfloat1622float2(__nv_bfloat162 v) { return make_float2(float(v.x), float(v.y)); }
CUSIM_FN __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)}; }
CUSIM_FN unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
CUSIM_FN __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 x;
  x.bits = bits;
  return x;
}

#define CUSIM_OPERATOR(name, op)                                                                   \
  CUSIM_FN __nv_bfloat16 name(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) op float(b)); }                              \
  CUSIM_FN __nv_bfloat162 name##2(__nv_bfloat162 a, __nv_bfloat162 b) { return {name(a.x, b.x), name(a.y, b.y)}; }               \
  CUSIM_FN __nv_bfloat16 operator op(__nv_bfloat16 a, __nv_bfloat16 b) { return name(a, b); }                                      \
  CUSIM_FN __nv_bfloat162 operator op(__nv_bfloat162 a, __nv_bfloat162 b) { return name##2(a, b); }                                \
  CUSIM_FN __nv_bfloat16 &operator op##=(__nv_bfloat16 &a, __nv_bfloat16 b) { return a = name(a, b); }
CUSIM_OPERATOR(__hadd, +)
CUSIM_OPERATOR(__hsub, -)
CUSIM_OPERATOR(__hmul, *)
CUSIM_OPERATOR(__hdiv, /)
#undef CUSIM_OPERATOR

#define CUSIM_COMPARE(name, op)                                                                    \
  CUSIM_FN bool name(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) op float(b); }                                  \
  CUSIM_FN bool operator op(__nv_bfloat16 a, __nv_bfloat16 b) { return name(a, b); }
CUSIM_COMPARE(__heq, ==)
CUSIM_COMPARE(__hne, !=)
CUSIM_COMPARE(__hlt, <)
CUSIM_COMPARE(__hle, <=)
CUSIM_COMPARE(__hgt, >)
CUSIM_COMPARE(__hge, >=)
#undef CUSIM_COMPARE

CUSIM_FN __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) { return __nv_bfloat16(float(__builtin_fma(float(a), float(b), float(c)))); }
CUSIM_FN __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
CUSIM_FN __nv_bfloat16 __hneg(__nv_bfloat16 a) { return __ushort_as_bfloat16((unsigned short)(a.bits ^ 0x8000)); }
CUSIM_FN __nv_bfloat16 __habs(__nv_bfloat16 a) { return __ushort_as_bfloat16((unsigned short)(a.bits & 0x7fff)); }
CUSIM_FN __nv_bfloat16 operator-(__nv_bfloat16 a) { return __hneg(a); }
CUSIM_FN bool __hisnan(__nv_bfloat16 a) { return __builtin_isnan(float(a)); }
CUSIM_FN __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(fmaxf(float(a), float(b))); }
CUSIM_FN __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(fminf(float(a), float(b))); }
CUSIM_FN __nv_bfloat16 hexp(__nv_bfloat16 a) { return __nv_bfloat16(expf(float(a))); }
CUSIM_FN __nv_bfloat16 hlog(__nv_bfloat16 a) { return __nv_bfloat16(logf(float(a))); }
CUSIM_FN __nv_bfloat16 hsqrt(__nv_bfloat16 a) { return __nv_bfloat16(__builtin_sqrtf(float(a))); }
CUSIM_FN __nv_bfloat16 hrsqrt(__nv_bfloat16 a) { return __nv_bfloat16(rsqrtf(float(a))); }
CUSIM_FN __nv_bfloat16 atomicAdd(__nv_bfloat16 *p, __nv_bfloat16 v) {
  unsigned short old = cusim::atomic_update(&p->bits, [v](unsigned short bits) {
    return __hadd(__ushort_as_bfloat16(bits), v).bits;
  });
  return __ushort_as_bfloat16(old);
}

#endif
