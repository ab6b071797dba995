// cusim_extreme.h: CUDA's minimum and maximum functions.
#ifndef CUSIM_EXTREME_H
#define CUSIM_EXTREME_H

// Of a NaN and a number the number; -0 is less than 0. libm returns NaN for a signalling one.
#define CUSIM_EXTREME(name, op, both)                                                              \
  CUSIM_FN float name##f(float x, float y) {                                                       \
    unsigned a = __builtin_bit_cast(unsigned, x), b = __builtin_bit_cast(unsigned, y);             \
    float picked = x op y ? x : x == y ? __builtin_bit_cast(float, a both b) : y;                  \
    return y != y ? x : picked;                                                                    \
  }                                                                                                \
  CUSIM_FN double name(double x, double y) {                                                       \
    auto a = __builtin_bit_cast(unsigned long long, x);                                            \
    auto b = __builtin_bit_cast(unsigned long long, y);                                            \
    double picked = x op y ? x : x == y ? __builtin_bit_cast(double, a both b) : y;                \
    return y != y ? x : picked;                                                                    \
  }                                                                                                \
  CUSIM_FN float name(float x, float y) { return name##f(x, y); }                                  \
  template <class T, class U, class = decltype(T() % U())> CUSIM_FN double name(T x, U y) {        \
    return name(double(x), double(y));                                                             \
  }
CUSIM_EXTREME(fmax, >, &) CUSIM_EXTREME(fmin, <, |)
#undef CUSIM_EXTREME

#define CUSIM_MINMAX(T)                                                                            \
  CUSIM_FN T min(T a, T b) { return b < a ? b : a; }                                               \
  CUSIM_FN T max(T a, T b) { return a < b ? b : a; }
CUSIM_MINMAX(int) CUSIM_MINMAX(unsigned) CUSIM_MINMAX(long) CUSIM_MINMAX(unsigned long)
CUSIM_MINMAX(long long) CUSIM_MINMAX(unsigned long long)
#undef CUSIM_MINMAX
// As in CUDA: mixed signs give unsigned, mixed widths double.
#define CUSIM_MIXED(A, B, T)                                                                       \
  CUSIM_FN T min(A a, B b) { return min((T)a, (T)b); }                                             \
  CUSIM_FN T max(A a, B b) { return max((T)a, (T)b); }                                             \
  CUSIM_FN T min(B a, A b) { return min((T)a, (T)b); }                                             \
  CUSIM_FN T max(B a, A b) { return max((T)a, (T)b); }
CUSIM_MIXED(int, unsigned, unsigned) CUSIM_MIXED(long, unsigned long, unsigned long)
CUSIM_MIXED(long long, unsigned long long, unsigned long long)
CUSIM_FN float min(float a, float b) { return fminf(a, b); }
CUSIM_FN float max(float a, float b) { return fmaxf(a, b); }
CUSIM_FN double min(double a, double b) { return fmin(a, b); }
CUSIM_FN double max(double a, double b) { return fmax(a, b); }
CUSIM_MIXED(float, double, double)
#undef CUSIM_MIXED

#define CUSIM_NAMED_MINMAX(T, prefix)                                                              \
  CUSIM_FN T prefix##min(T a, T b) { return b < a ? b : a; }                                       \
  CUSIM_FN T prefix##max(T a, T b) { return a < b ? b : a; }
CUSIM_NAMED_MINMAX(unsigned, u) CUSIM_NAMED_MINMAX(long long, ll)
CUSIM_NAMED_MINMAX(unsigned long long, ull)
#undef CUSIM_NAMED_MINMAX

#endif
