// values.cuh: integers and bools in kernels, which compute with float, int, unsigned char and bool;
// 64-bit integers exist only in memory.
#pragma once
#include "lib/prim.cuh"

// ---- from memory, and back ----------------------------------------------------------------------

NN_DEV int nn_value(int x) { return x; }
NN_DEV int nn_value(long long x) { return int(x); }
NN_DEV unsigned char nn_value(unsigned char x) { return x; }
NN_DEV bool nn_value(bool x) { return x; }

template <class T, int N> NN_DEV auto nn_value(Vec<T, N> x) {
  Vec<decltype(nn_value(x[0])), N> y;
#pragma unroll
  for (int i = 0; i < N; ++i) y[i] = nn_value(x[i]);
  return y;
}

template <class T, class From> NN_DEV T nn_stored(From x) { return T(x); }
template <class T, class From, int N> NN_DEV Vec<T, N> nn_stored(Vec<From, N> x) {
  Vec<T, N> y;
#pragma unroll
  for (int i = 0; i < N; ++i) y[i] = T(x[i]);
  return y;
}

// ---- conversions --------------------------------------------------------------------------------

// Floats are truncated and saturate to int; NaN becomes 0.
template <class To> struct Convert {
  template <class From> NN_DEV To from(From x) { return To(x); }
};
template <> struct Convert<int> {
  template <class From> NN_DEV int from(From x) { return int(x); }
  NN_DEV int from(float x) { return nn_cast<int>(x); }
};
template <> struct Convert<unsigned char> {  // modulo 256
  template <class From> NN_DEV unsigned char from(From x) { return (unsigned char)(x); }
  NN_DEV unsigned char from(float x) { return (unsigned char)(nn_cast<int>(x)); }
};
template <> struct Convert<bool> {
  template <class From> NN_DEV bool from(From x) { return x != From(0); }
};
template <class To, class From> NN_DEV To nn_to(From x) { return Convert<To>::from(x); }

// ---- arithmetic ---------------------------------------------------------------------------------

// Integers wrap, as in PyTorch. Signed overflow in CUDA is undefined: NVRTC assumes a + 1 > a.
NN_DEV int nn_add(int a, int b) { return int(unsigned(a) + unsigned(b)); }
NN_DEV int nn_sub(int a, int b) { return int(unsigned(a) - unsigned(b)); }
NN_DEV int nn_mul(int a, int b) { return int(unsigned(a) * unsigned(b)); }
NN_DEV int nn_max(int a, int b) { return a > b ? a : b; }
NN_DEV int nn_min(int a, int b) { return a < b ? a : b; }
// Shifts by 32 or more, or by a negative count: 0; to the right the sign.
NN_DEV int nn_shift_left(int a, int b) { return unsigned(b) < 32 ? int(unsigned(a) << b) : 0; }
NN_DEV int nn_shift_right(int a, int b) { return a >> (unsigned(b) < 32 ? b : 31); }
NN_DEV int nn_abs(int x) { return x < 0 ? nn_sub(0, x) : x; }

// As in Python: the quotient rounds toward minus infinity, the remainder has b's sign. By 0: 0.
NN_DEV int nn_floordiv(int a, int b) {
  if (b == 0) return 0;
  if (b == -1) return nn_sub(0, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
NN_DEV int nn_mod(int a, int b) {
  if (b == 0 || b == -1) return 0;
  const int rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
// Modulo 2^32; for a negative exponent, the reciprocal truncated toward zero.
NN_DEV int nn_pow(int base, int exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? 1 - 2 * (exponent & 1) : 0;
  unsigned power = 1, square = unsigned(base);
  for (; exponent; exponent >>= 1, square *= square)
    if (exponent & 1) power *= square;
  return int(power);
}
// For floats the remainder is exact; a - rest is a multiple of b except for rounding.
NN_DEV float nn_mod(float a, float b) {
  const float rest = nn_fmod(a, b);
  return rest != 0.f && (rest < 0.f) != (b < 0.f) ? rest + b : rest;
}
NN_DEV float nn_floordiv(float a, float b) {
  const float rest = nn_fmod(a, b), whole = nn_round((a - rest) / b);
  const bool below = rest != 0.f && (rest < 0.f) != (b < 0.f);
  const float exact = a / b; // gives a zero its sign
  return b == 0.f ? exact : below ? whole - 1.f : whole == 0.f ? 0.f * exact : whole;
}
