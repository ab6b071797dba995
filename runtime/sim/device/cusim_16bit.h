// cusim_16bit.h: one 16-bit type and its functions, for cuda_fp16.h and cuda_bf16.h, which define
// CUSIM_T, CUSIM_T2 (the pair), CUSIM_RAW and CUSIM_RAW2 (their bits), CUSIM_NAME(before, after) (a
// function's name around the type's) and the conversions CUSIM_WIDEN and CUSIM_NARROW,
// CUSIM_PAIR_OF_ONE (a function's name). Arithmetic is done in float and rounded once, which for
// one operation gives the correctly rounded result.

// If operations are counted, each of these counts as one 16-bit operation: its float arithmetic is
// in a function that is not counted.
#if CUSIM_COUNT
#define CUSIM_16BIT(op) cusim_count_op(CusimFp16, op, 1)
#define CUSIM_16BIT_FN static __attribute__((noinline, unused)) CUSIM_UNTRACED
#else
#define CUSIM_16BIT(op) (void)0
#define CUSIM_16BIT_FN CUSIM_FN
#endif

struct CUSIM_RAW {
  unsigned short x;
};
struct alignas(4) CUSIM_RAW2 {
  unsigned short x, y;
};
struct CUSIM_T {
  unsigned short bits;
  CUSIM_T() = default;
  CUSIM_T(CUSIM_RAW raw) : bits(raw.x) {}
  CUSIM_T(float x) : bits(CUSIM_NARROW(x)) {}
  CUSIM_T(double x) : bits(CUSIM_NARROW(cusim::to_odd(x))) {}
  CUSIM_T(int x) : bits(CUSIM_NARROW(cusim::integer_to_odd(x))) {}
  CUSIM_T(unsigned x) : bits(CUSIM_NARROW(cusim::integer_to_odd(x))) {}
  CUSIM_T(long x) : bits(CUSIM_NARROW(cusim::integer_to_odd(x))) {}
  CUSIM_T(unsigned long x) : bits(CUSIM_NARROW(cusim::integer_to_odd(x))) {}
  CUSIM_T(long long x) : bits(CUSIM_NARROW(cusim::integer_to_odd(x))) {}
  CUSIM_T(unsigned long long x) : bits(CUSIM_NARROW(cusim::integer_to_odd(x))) {}
  operator float() const { return CUSIM_WIDEN(bits); }
  operator CUSIM_RAW() const { return {bits}; }
};
struct alignas(4) CUSIM_T2 {
  CUSIM_T x, y;
  CUSIM_T2() = default;
  CUSIM_T2(CUSIM_T a, CUSIM_T b) : x(a), y(b) {}
  CUSIM_T2(CUSIM_RAW2 raw) : x(CUSIM_RAW{raw.x}), y(CUSIM_RAW{raw.y}) {}
  operator CUSIM_RAW2() const { return {x.bits, y.bits}; }
};

CUSIM_FN CUSIM_T CUSIM_NAME(__float2, )(float x) { return CUSIM_T(x); }
CUSIM_FN CUSIM_T CUSIM_NAME(__float2, _rn)(float x) { return CUSIM_T(x); }
CUSIM_FN CUSIM_T CUSIM_NAME(__int2, _rn)(int x) { return CUSIM_T(x); }
CUSIM_FN float CUSIM_NAME(__, 2float)(CUSIM_T x) { return float(x); }
CUSIM_FN CUSIM_T2 CUSIM_NAME(__floats2, 2_rn)(float x, float y) { return {CUSIM_T(x), CUSIM_T(y)}; }
CUSIM_FN CUSIM_T2 CUSIM_NAME(__float2, 2_rn)(float x) { return {CUSIM_T(x), CUSIM_T(x)}; }
CUSIM_FN CUSIM_T2 CUSIM_NAME(__halves2, 2)(CUSIM_T x, CUSIM_T y) { return {x, y}; }
CUSIM_FN CUSIM_T CUSIM_NAME(__low2, )(CUSIM_T2 v) { return v.x; }
CUSIM_FN CUSIM_T CUSIM_NAME(__high2, )(CUSIM_T2 v) { return v.y; }
CUSIM_FN float __low2float(CUSIM_T2 v) { return float(v.x); }
CUSIM_FN float __high2float(CUSIM_T2 v) { return float(v.y); }
CUSIM_FN CUSIM_T2 CUSIM_PAIR_OF_ONE(CUSIM_T x) { return {x, x}; }
CUSIM_FN CUSIM_T2 CUSIM_NAME(make_, 2)(CUSIM_T x, CUSIM_T y) { return {x, y}; }
CUSIM_FN CUSIM_T2 CUSIM_NAME(__low2, 2)(CUSIM_T2 v) { return {v.x, v.x}; }
CUSIM_FN CUSIM_T2 CUSIM_NAME(__high2, 2)(CUSIM_T2 v) { return {v.y, v.y}; }
CUSIM_FN CUSIM_T2 __lowhigh2highlow(CUSIM_T2 v) { return {v.y, v.x}; }
CUSIM_FN CUSIM_T2 CUSIM_NAME(__lows2, 2)(CUSIM_T2 a, CUSIM_T2 b) { return {a.x, b.x}; }
CUSIM_FN CUSIM_T2 CUSIM_NAME(__highs2, 2)(CUSIM_T2 a, CUSIM_T2 b) { return {a.y, b.y}; }
#define CUSIM_INTEGER(T, name)                                                                     \
  CUSIM_FN T CUSIM_NAME(__, 2##name##_rn)(CUSIM_T x) {                                             \
    return cusim_saturate<T>(__builtin_rintf(float(x)));                                           \
  }                                                                                                \
  CUSIM_FN T CUSIM_NAME(__, 2##name##_rz)(CUSIM_T x) {                                             \
    return cusim_saturate<T>(__builtin_truncf(float(x)));                                          \
  }                                                                                                \
  CUSIM_FN T CUSIM_NAME(__, 2##name##_rd)(CUSIM_T x) {                                             \
    return cusim_saturate<T>(__builtin_floorf(float(x)));                                          \
  }                                                                                                \
  CUSIM_FN T CUSIM_NAME(__, 2##name##_ru)(CUSIM_T x) {                                             \
    return cusim_saturate<T>(__builtin_ceilf(float(x)));                                           \
  }
CUSIM_INTEGER(int, int)
CUSIM_INTEGER(unsigned, uint)
CUSIM_INTEGER(short, short)
CUSIM_INTEGER(unsigned short, ushort)
CUSIM_INTEGER(long long, ll)
CUSIM_INTEGER(unsigned long long, ull)
#undef CUSIM_INTEGER
CUSIM_FN signed char CUSIM_NAME(__, 2char_rz)(CUSIM_T x) {
  return cusim_saturate<signed char>(__builtin_truncf(float(x)));
}
CUSIM_FN unsigned char CUSIM_NAME(__, 2uchar_rz)(CUSIM_T x) {
  return cusim_saturate<unsigned char>(__builtin_truncf(float(x)));
}
CUSIM_FN CUSIM_T CUSIM_NAME(__uint2, _rn)(unsigned x) { return CUSIM_T(x); }
CUSIM_FN CUSIM_T CUSIM_NAME(__ll2, _rn)(long long x) { return CUSIM_T(x); }
CUSIM_FN CUSIM_T CUSIM_NAME(__ull2, _rn)(unsigned long long x) { return CUSIM_T(x); }
CUSIM_FN CUSIM_T CUSIM_NAME(__short2, _rn)(short x) { return CUSIM_T(float(x)); }
CUSIM_FN CUSIM_T CUSIM_NAME(__ushort2, _rn)(unsigned short x) { return CUSIM_T(float(x)); }
CUSIM_FN CUSIM_T CUSIM_NAME(__double2, )(double x) { return CUSIM_T(x); }
CUSIM_FN float2 CUSIM_NAME(__, 22float2)(CUSIM_T2 v) { return {float(v.x), float(v.y)}; }
CUSIM_FN CUSIM_T2 CUSIM_NAME(__float22, 2_rn)(float2 v) { return {CUSIM_T(v.x), CUSIM_T(v.y)}; }
CUSIM_FN unsigned short CUSIM_NAME(__, _as_ushort)(CUSIM_T x) { return x.bits; }
CUSIM_FN CUSIM_T CUSIM_NAME(__ushort_as_, )(unsigned short bits) {
  CUSIM_T x;
  x.bits = bits;
  return x;
}
CUSIM_FN short CUSIM_NAME(__, _as_short)(CUSIM_T x) { return short(x.bits); }
CUSIM_FN CUSIM_T CUSIM_NAME(__short_as_, )(short bits) {
  return CUSIM_NAME(__ushort_as_, )((unsigned short)bits);
}

#define CUSIM_OPERATOR(name, op, kind)                                                             \
  CUSIM_16BIT_FN CUSIM_T name(CUSIM_T a, CUSIM_T b) {                                              \
    CUSIM_16BIT(kind);                                                                             \
    return CUSIM_T(float(a) op float(b));                                                          \
  }                                                                                                \
  CUSIM_FN CUSIM_T2 name##2(CUSIM_T2 a, CUSIM_T2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }   \
  CUSIM_FN CUSIM_T operator op(CUSIM_T a, CUSIM_T b) { return name(a, b); }                        \
  CUSIM_FN CUSIM_T2 operator op(CUSIM_T2 a, CUSIM_T2 b) { return name##2(a, b); }                  \
  CUSIM_FN CUSIM_T &operator op##=(CUSIM_T &a, CUSIM_T b) { return a = name(a, b); }               \
  CUSIM_FN CUSIM_T2 &operator op##=(CUSIM_T2 &a, CUSIM_T2 b) { return a = name##2(a, b); }
CUSIM_OPERATOR(__hadd, +, CusimAdd)
CUSIM_OPERATOR(__hsub, -, CusimAdd)
CUSIM_OPERATOR(__hmul, *, CusimMul)
CUSIM_OPERATOR(__hdiv, /, CusimSpecial)
#undef CUSIM_OPERATOR

CUSIM_FN CUSIM_T operator+(CUSIM_T a) { return a; }
CUSIM_FN CUSIM_T2 operator+(CUSIM_T2 a) { return a; }
CUSIM_FN CUSIM_T &operator++(CUSIM_T &a) { return a += CUSIM_T(1); }
CUSIM_FN CUSIM_T &operator--(CUSIM_T &a) { return a -= CUSIM_T(1); }
CUSIM_FN CUSIM_T2 &operator++(CUSIM_T2 &a) { return ++a.x, ++a.y, a; }
CUSIM_FN CUSIM_T2 &operator--(CUSIM_T2 &a) { return --a.x, --a.y, a; }
#define CUSIM_STEP(T, op)                                                                          \
  CUSIM_FN T operator op(T &a, int) {                                                              \
    T old = a;                                                                                     \
    op a;                                                                                          \
    return old;                                                                                    \
  }
CUSIM_STEP(CUSIM_T, ++) CUSIM_STEP(CUSIM_T, --)
CUSIM_STEP(CUSIM_T2, ++) CUSIM_STEP(CUSIM_T2, --)
#undef CUSIM_STEP

// Without u NaN compares false, with it true. b: true for both parts; mask: all bits of each true
// part.
#define CUSIM_COMPARE(name, expression)                                                            \
  CUSIM_FN bool __h##name(CUSIM_T x, CUSIM_T y) {                                                  \
    float a = float(x), b = float(y);                                                              \
    return expression;                                                                             \
  }                                                                                                \
  CUSIM_FN CUSIM_T2 __h##name##2(CUSIM_T2 a, CUSIM_T2 b) {                                         \
    return {CUSIM_T(float(__h##name(a.x, b.x))), CUSIM_T(float(__h##name(a.y, b.y)))};             \
  }                                                                                                \
  CUSIM_FN bool __hb##name##2(CUSIM_T2 a, CUSIM_T2 b) {                                            \
    return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                             \
  }                                                                                                \
  CUSIM_FN unsigned __h##name##2_mask(CUSIM_T2 a, CUSIM_T2 b) {                                    \
    return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u);        \
  }
#define CUSIM_COMPARISON(name, unordered, op)                                                      \
  CUSIM_FN bool operator op(CUSIM_T a, CUSIM_T b) { return float(a) op float(b); }                 \
  CUSIM_COMPARE(name, (a op b) && a == a && b == b)                                                \
  CUSIM_COMPARE(unordered, (a op b) || a != a || b != b)
CUSIM_COMPARISON(eq, equ, ==)
CUSIM_COMPARISON(ne, neu, !=)
CUSIM_COMPARISON(lt, ltu, <)
CUSIM_COMPARISON(le, leu, <=)
CUSIM_COMPARISON(gt, gtu, >)
CUSIM_COMPARISON(ge, geu, >=)
#undef CUSIM_COMPARISON
#undef CUSIM_COMPARE
CUSIM_FN bool operator==(CUSIM_T2 a, CUSIM_T2 b) { return __hbeq2(a, b); }
CUSIM_FN bool operator!=(CUSIM_T2 a, CUSIM_T2 b) { return __hbneu2(a, b); }
CUSIM_FN bool operator<(CUSIM_T2 a, CUSIM_T2 b) { return __hblt2(a, b); }
CUSIM_FN bool operator<=(CUSIM_T2 a, CUSIM_T2 b) { return __hble2(a, b); }
CUSIM_FN bool operator>(CUSIM_T2 a, CUSIM_T2 b) { return __hbgt2(a, b); }
CUSIM_FN bool operator>=(CUSIM_T2 a, CUSIM_T2 b) { return __hbge2(a, b); }

// NOTE: exact for fp16. For bf16 off by one unit if the product is half-way between two values and
// c is below 2^-45 of it: the sum is rounded to double first.
CUSIM_16BIT_FN CUSIM_T __hfma(CUSIM_T a, CUSIM_T b, CUSIM_T c) {
  CUSIM_16BIT(CusimFma);
  return CUSIM_T(__builtin_fma(float(a), float(b), float(c)));
}
CUSIM_FN CUSIM_T2 __hfma2(CUSIM_T2 a, CUSIM_T2 b, CUSIM_T2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
CUSIM_FN CUSIM_T __hneg(CUSIM_T a) {
  return CUSIM_NAME(__ushort_as_, )((unsigned short)(a.bits ^ 0x8000));
}
CUSIM_FN CUSIM_T __habs(CUSIM_T a) {
  return CUSIM_NAME(__ushort_as_, )((unsigned short)(a.bits & 0x7fff));
}
CUSIM_FN CUSIM_T operator-(CUSIM_T a) { return __hneg(a); }
CUSIM_FN CUSIM_T2 __hneg2(CUSIM_T2 a) { return {__hneg(a.x), __hneg(a.y)}; }
CUSIM_FN CUSIM_T2 __habs2(CUSIM_T2 a) { return {__habs(a.x), __habs(a.y)}; }
CUSIM_FN CUSIM_T2 operator-(CUSIM_T2 a) { return __hneg2(a); }
CUSIM_FN bool __hisnan(CUSIM_T a) { return __builtin_isnan(float(a)); }
CUSIM_FN int __hisinf(CUSIM_T a) {
  return __builtin_isinf(float(a)) ? (float(a) > 0.0f ? 1 : -1) : 0;
}
CUSIM_FN CUSIM_T __hmax(CUSIM_T a, CUSIM_T b) { return CUSIM_T(fmaxf(float(a), float(b))); }
CUSIM_FN CUSIM_T __hmin(CUSIM_T a, CUSIM_T b) { return CUSIM_T(fminf(float(a), float(b))); }
CUSIM_FN CUSIM_T2 __hmax2(CUSIM_T2 a, CUSIM_T2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
CUSIM_FN CUSIM_T2 __hmin2(CUSIM_T2 a, CUSIM_T2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
CUSIM_FN CUSIM_T2 __h2div(CUSIM_T2 a, CUSIM_T2 b) { return __hdiv2(a, b); }

#define CUSIM_FUNCTION(name, expression)                                                           \
  CUSIM_16BIT_FN CUSIM_T h##name(CUSIM_T a) {                                                      \
    float x = float(a);                                                                            \
    CUSIM_16BIT(CusimSpecial);                                                                     \
    return CUSIM_T(expression);                                                                    \
  }                                                                                                \
  CUSIM_FN CUSIM_T2 h2##name(CUSIM_T2 a) { return {h##name(a.x), h##name(a.y)}; }
CUSIM_FUNCTION(exp, expf(x))
CUSIM_FUNCTION(exp2, exp2f(x))
CUSIM_FUNCTION(exp10, exp10f(x))
CUSIM_FUNCTION(log, logf(x))
CUSIM_FUNCTION(log2, log2f(x))
CUSIM_FUNCTION(log10, log10f(x))
CUSIM_FUNCTION(sin, sinf(x))
CUSIM_FUNCTION(cos, cosf(x))
CUSIM_FUNCTION(tanh, tanhf(x))
CUSIM_FUNCTION(sqrt, __builtin_sqrtf(x))
CUSIM_FUNCTION(rsqrt, rsqrtf(x))
CUSIM_FUNCTION(rcp, 1.0f / x)
CUSIM_FUNCTION(floor, __builtin_floorf(x))
CUSIM_FUNCTION(ceil, __builtin_ceilf(x))
CUSIM_FUNCTION(trunc, __builtin_truncf(x))
CUSIM_FUNCTION(rint, __builtin_rintf(x))
#undef CUSIM_FUNCTION

CUSIM_FN CUSIM_T atomicAdd(CUSIM_T *p, CUSIM_T v) {
  return CUSIM_NAME(__ushort_as_, )(cusim::atomic_update(&p->bits, [v](unsigned short bits) {
    return __hadd(CUSIM_NAME(__ushort_as_, )(bits), v).bits;
  }));
}
CUSIM_FN CUSIM_T2 atomicAdd(CUSIM_T2 *p, CUSIM_T2 v) {
  p = cusim::aligned(p);
  return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)};
}

#undef CUSIM_16BIT
#undef CUSIM_16BIT_FN
#undef CUSIM_T
#undef CUSIM_T2
#undef CUSIM_RAW
#undef CUSIM_RAW2
#undef CUSIM_NAME
#undef CUSIM_PAIR_OF_ONE
#undef CUSIM_WIDEN
#undef CUSIM_NARROW
