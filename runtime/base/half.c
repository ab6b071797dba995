// half.c: 16-bit floats to and from float, to nearest even. Tested over all 65536 patterns.
#include <math.h>
#include <string.h>

#include "base/base.h"

static uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float half_to_float(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
           fraction = bits & 1023;
  if (exponent == 31) return bits_float(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) return copysignf((float)fraction * 0x1p-24f, bits_float(sign)); // subnormal
  return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t half_from_float(float value) {
  uint32_t bits = float_bits(value);
  uint16_t sign = bits >> 16 & 0x8000;
  float size = fabsf(value);
  if (isnan(value)) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00; // halfway above the largest half
  if (size < 0x1p-14f) // subnormal: adding 0.5 puts the unit of a half at the float's last bit
    return sign | (uint16_t)(float_bits(size + 0.5f) - float_bits(0.5f));
  bits &= 0x7fffffff;
  bits += 0xfff + (bits >> 13 & 1);
  return sign | (uint16_t)((bits >> 13) - (112 << 10));
}

float bf16_to_float(uint16_t bits) {
  return bits_float((uint32_t)bits << 16);
}

uint16_t bf16_from_float(float value) {
  uint32_t bits = float_bits(value);
  if (isnan(value)) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
