// cusim_half.h: conversions between float and the 16-bit formats, by host instructions if
// available. To nearest, ties to even; a float NaN becomes 0x7fff, as with cvt.
#ifndef CUSIM_HALF_H
#define CUSIM_HALF_H

namespace cusim {

// When operations are counted, the arithmetic of a conversion is none of the kernel's.
#if CUSIM_COUNT
#define CUSIM_CONVERSION static __attribute__((noinline, unused)) CUSIM_UNTRACED
#else
#define CUSIM_CONVERSION CUSIM_FN
#endif

#if defined(__F16C__)
typedef short Short8 __attribute__((vector_size(16)));
typedef float Float4 __attribute__((vector_size(16)));
CUSIM_FN float half_to_float(unsigned short h) {
  return __builtin_ia32_vcvtph2ps(Short8{short(h)})[0];
}
CUSIM_FN Short8 canonical_nans(Short8 halves) {
  return (halves & 0x7fff) > 0x7c00 ? Short8{} + 0x7fff : halves;
}
CUSIM_FN unsigned short float_to_half(float x) {
  return x != x ? 0x7fff : (unsigned short)__builtin_ia32_vcvtps2ph(Float4{x}, 0)[0];
}
#else
CUSIM_CONVERSION float half_to_float(unsigned short h) {
  unsigned sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ffu;
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | mantissa << 13);
  if (exponent) return __uint_as_float(sign | (exponent + 112) << 23 | mantissa << 13);
  float tiny = float(mantissa) * 0x1p-24f;
  return sign ? -tiny : tiny;
}
CUSIM_CONVERSION unsigned short float_to_half(float x) {
  unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return 0x7fff;
  if (size >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u); // rounds to infinity
  if (size < 0x38800000u) // subnormal: let the addition round
    return (unsigned short)(sign | (__float_as_uint(__uint_as_float(size) + 0.5f) - 0x3f000000u));
  return (unsigned short)(sign | (size + 0xfffu + (size >> 13 & 1) - 0x38000000u) >> 13);
}
#endif

CUSIM_FN unsigned short float_to_bfloat(float x) {
  unsigned bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
CUSIM_FN float bfloat_to_float(unsigned short b) { return __uint_as_float(unsigned(b) << 16); }

// Rounded so that rounding the result to 16 bits rounds x once: a float between two has its last
// bit set.
CUSIM_FN float to_odd(double x) {
  float near = float(x);
  if (double(near) == x || x != x) return near;
  return __uint_as_float((__float_as_uint(near) - (__builtin_fabs(near) > __builtin_fabs(x))) | 1);
}
template <class T> CUSIM_FN float integer_to_odd(T x) {
  constexpr T kLow = 0xfff; // a double represents all but 11 of 64 bits
  unsigned long long size = x < T(0) ? 0 - (unsigned long long)x : (unsigned long long)x;
  bool fits = sizeof(T) < 8 || size < 1ull << 52;
  if (!fits) x = (x & ~kLow) | ((x & kLow) != 0 ? T(0x800) : T(0));
  return to_odd(double(x));
}

// ---- neighbours --------------------------------------------------------------------------------
// `count` values, known to the compiler; h points to 16-bit ones. By vector types, since -O2 leaves
// loops over conversions scalar.

template <class V> CUSIM_FN auto read_vector(const void *p) {
  V v = {};
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

CUSIM_FN void halves_to_floats(const void *h, int count, float *out) {
  const unsigned short *in = static_cast<const unsigned short *>(h);
  int i = 0;
#if defined(__F16C__) && defined(__AVX__)
  for (; i + 8 <= count; i += 8) {
    auto wide = __builtin_ia32_vcvtph2ps256(read_vector<Short8>(in + i));
    __builtin_memcpy(out + i, &wide, sizeof wide);
  }
  for (; i + 4 <= count; i += 4) {
    Short8 four = {};
    __builtin_memcpy(&four, in + i, sizeof four / 2);
    auto wide = __builtin_ia32_vcvtph2ps(four);
    __builtin_memcpy(out + i, &wide, sizeof wide);
  }
#endif
  for (; i < count; i++) out[i] = half_to_float(in[i]);
}

CUSIM_FN void floats_to_halves(const float *x, int count, void *h) {
  unsigned short *out = static_cast<unsigned short *>(h);
  int i = 0;
#if defined(__F16C__) && defined(__AVX__)
  typedef float Float8 __attribute__((vector_size(32)));
  for (; i + 8 <= count; i += 8) {
    Short8 eight = canonical_nans(__builtin_ia32_vcvtps2ph256(read_vector<Float8>(x + i), 0));
    __builtin_memcpy(out + i, &eight, sizeof eight);
  }
  for (; i + 4 <= count; i += 4) {
    Short8 four = canonical_nans(__builtin_ia32_vcvtps2ph(read_vector<Float4>(x + i), 0));
    __builtin_memcpy(out + i, &four, sizeof four / 2);
  }
#endif
  for (; i < count; i++) out[i] = float_to_half(x[i]);
}

typedef unsigned Bits4 __attribute__((vector_size(16)));
typedef unsigned Bits8 __attribute__((vector_size(32)));
typedef unsigned short Narrow4 __attribute__((vector_size(8)));
typedef unsigned short Narrow8 __attribute__((vector_size(16)));

template <class Wide> CUSIM_FN auto round_to_bfloats(Wide bits) {
  Wide rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? Wide{} + 0x7fffu : rounded;
}

#define CUSIM_BFLOATS(n)                                                                           \
  CUSIM_FN void bfloats_to_floats_##n(const unsigned short *b, float *out) {                       \
    Bits##n bits = __builtin_convertvector(read_vector<Narrow##n>(b), Bits##n) << 16;              \
    __builtin_memcpy(out, &bits, sizeof bits);                                                     \
  }                                                                                                \
  CUSIM_FN void floats_to_bfloats_##n(const float *x, unsigned short *out) {                       \
    Bits##n bits = round_to_bfloats(read_vector<Bits##n>(x));                                      \
    Narrow##n narrow = __builtin_convertvector(bits, Narrow##n);                                   \
    __builtin_memcpy(out, &narrow, sizeof narrow);                                                 \
  }
CUSIM_BFLOATS(4)
CUSIM_BFLOATS(8)
#undef CUSIM_BFLOATS

CUSIM_FN void bfloats_to_floats(const void *b, int count, float *out) {
  const unsigned short *in = static_cast<const unsigned short *>(b);
  int i = 0;
  for (; i + 8 <= count; i += 8) bfloats_to_floats_8(in + i, out + i);
  for (; i + 4 <= count; i += 4) bfloats_to_floats_4(in + i, out + i);
  for (; i < count; i++) out[i] = bfloat_to_float(in[i]);
}

CUSIM_FN void floats_to_bfloats(const float *x, int count, void *b) {
  unsigned short *out = static_cast<unsigned short *>(b);
  int i = 0;
  for (; i + 8 <= count; i += 8) floats_to_bfloats_8(x + i, out + i);
  for (; i + 4 <= count; i += 4) floats_to_bfloats_4(x + i, out + i);
  for (; i < count; i++) out[i] = float_to_bfloat(x[i]);
}

} // namespace cusim

#endif
