// cusim_half.h: conversions between float and the 16-bit formats, by the host's instructions where
// it has them. To nearest, ties to even.
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
CUSIM_FN unsigned short float_to_half(float x) { // to nearest even
  return (unsigned short)__builtin_ia32_vcvtps2ph(Float4{x}, 0)[0];
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
  if (size > 0x7f800000u) return (unsigned short)(sign | 0x7e00u);
  if (size >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u); // rounds to infinity
  if (size < 0x38800000u) // subnormal: let the addition round
    return (unsigned short)(sign | (__float_as_uint(__uint_as_float(size) + 0.5f) - 0x3f000000u));
  return (unsigned short)(sign | (size + 0xfffu + (size >> 13 & 1) - 0x38000000u) >> 13);
}
#endif

// Each word holds two 16-bit values, the first in the lower half.
CUSIM_FN void halves_to_floats(const unsigned *words, int count, float *out) {
  int i = 0;
#if defined(__F16C__) && defined(__AVX__)
  typedef float Float8 __attribute__((vector_size(32), aligned(4), may_alias));
  for (; i + 4 <= count; i += 4) {
    Short8 eight;
    __builtin_memcpy(&eight, words + i, sizeof eight);
    *reinterpret_cast<Float8 *>(out + 2 * i) = __builtin_ia32_vcvtph2ps256(eight);
  }
#endif
  for (; i < count; i++) {
    out[2 * i] = half_to_float((unsigned short)words[i]);
    out[2 * i + 1] = half_to_float((unsigned short)(words[i] >> 16));
  }
}

CUSIM_FN unsigned short float_to_bfloat(float x) {
  unsigned bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
CUSIM_FN float bfloat_to_float(unsigned short b) { return __uint_as_float(unsigned(b) << 16); }

} // namespace cusim

#endif
