// weights_value.c: the numbers of a safetensors tensor as floats or doubles. The data may be
// unaligned.
#include <string.h>

#include "data/data.h"

#define LOAD(type)                                                                                 \
  type number;                                                                                     \
  memcpy(&number, at, sizeof number)

typedef double LoadNumber(const uint8_t *at);

static double load_f64(const uint8_t *at) {
  LOAD(double);
  return (double)number;
}
static double load_f32(const uint8_t *at) {
  LOAD(float);
  return number;
}
static double load_f16(const uint8_t *at) {
  LOAD(uint16_t);
  return half_to_float(number);
}
static double load_bf16(const uint8_t *at) {
  LOAD(uint16_t);
  return bf16_to_float(number);
}
static double load_i64(const uint8_t *at) {
  LOAD(int64_t);
  return (double)number;
}
static double load_u64(const uint8_t *at) {
  LOAD(uint64_t);
  return (double)number;
}
static double load_i32(const uint8_t *at) {
  LOAD(int32_t);
  return (double)number;
}
static double load_u32(const uint8_t *at) {
  LOAD(uint32_t);
  return (double)number;
}
static double load_i16(const uint8_t *at) {
  LOAD(int16_t);
  return number;
}
static double load_u16(const uint8_t *at) {
  LOAD(uint16_t);
  return number;
}
static double load_i8(const uint8_t *at) {
  return (int8_t)*at;
}
static double load_u8(const uint8_t *at) {
  return *at;
}
static double load_bool(const uint8_t *at) {
  return *at != 0;
}

static const struct {
  const char *dtype;
  LoadNumber *load;
  size_t size;
} loads[] = {{"F32", load_f32, 4},  {"F16", load_f16, 2}, {"BF16", load_bf16, 2},
             {"F64", load_f64, 8},  {"I64", load_i64, 8}, {"U64", load_u64, 8},
             {"I32", load_i32, 4},  {"U32", load_u32, 4}, {"I16", load_i16, 2},
             {"U16", load_u16, 2},  {"I8", load_i8, 1},   {"U8", load_u8, 1},
             {"BOOL", load_bool, 1}};

// One of the two arrays is filled, the other null.
static int load_all(const WeightTensor *tensor, float *floats, double *doubles, Error *err) {
  for (int i = 0; i < COUNT(loads); i++) {
    if (strcmp(loads[i].dtype, tensor->dtype)) continue;
    const uint8_t *at = tensor->data;
    for (size_t k = 0; k < tensor->bytes / loads[i].size; k++, at += loads[i].size) {
      double number = loads[i].load(at);
      if (floats) floats[k] = (float)number;
      if (doubles) doubles[k] = number;
    }
    return ExitOk;
  }
  return err_set(err, ExitBadInput, "weight '%s': dtype %s is not supported; convert it to F32",
                 tensor->name, tensor->dtype);
}

int weights_floats(const WeightTensor *tensor, float *values, Error *err) {
  return load_all(tensor, values, NULL, err);
}

int weights_doubles(const WeightTensor *tensor, double *values, Error *err) {
  return load_all(tensor, NULL, values, err);
}
