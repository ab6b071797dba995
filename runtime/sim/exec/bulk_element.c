// bulk_element.c: elements that copies of the asynchronous proxy move or reduce into memory.
#include "sim/exec/bulk.h"

#include <string.h>

int bulk_type_bytes(int type) { // as tensormap.replace numbers them
  static const unsigned char bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4};
  return type < (int)sizeof bytes ? bytes[type] : 0;
}

enum {
  ReduceNone,
  ReduceAdd,
  ReduceMin,
  ReduceMax,
  ReduceInc,
  ReduceDec,
  ReduceAnd,
  ReduceOr,
  ReduceXor
};

#define REDUCE(T)                                                                                  \
  {                                                                                                \
    T a, b;                                                                                        \
    memcpy(&a, to, sizeof a), memcpy(&b, from, sizeof b);                                          \
    T r = how == ReduceAdd ? (T)(a + b) : how == ReduceMin ? (a < b ? a : b) : a > b ? a : b;      \
    memcpy(to, &r, sizeof r);                                                                      \
    break;                                                                                         \
  }

static float half_value(uint16_t h) {
  float sign = h & 0x8000 ? -1.0f : 1.0f;
  int exponent = h >> 10 & 31, mantissa = h & 0x3ff;
  union {
    uint32_t bits;
    float f;
  } u = {exponent == 31 ? 0x7f800000u | (unsigned)mantissa << 13
                        : (unsigned)(exponent + 112) << 23 | (unsigned)mantissa << 13};
  return exponent ? sign * u.f : sign * (float)mantissa * 0x1p-24f;
}

static uint16_t half_bits(float x) { // to nearest, ties to even
  union {
    float f;
    uint32_t bits;
  } u = {x};
  uint32_t sign = u.bits >> 16 & 0x8000, size = u.bits & 0x7fffffff;
  if (size > 0x7f800000) return 0x7fff;
  if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  if (size < 0x38800000) {
    u.bits = size;
    u.f += 0.5f;
    return (uint16_t)(sign | (u.bits - 0x3f000000));
  }
  return (uint16_t)(sign | (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13);
}

static void reduce_16(void *to, const void *from, int how, bool brain) {
  uint16_t a, b;
  memcpy(&a, to, 2), memcpy(&b, from, 2);
  union {
    uint32_t bits;
    float f;
  } x = {(uint32_t)a << 16}, y = {(uint32_t)b << 16};
  if (!brain) x.f = half_value(a), y.f = half_value(b);
  float r = how == ReduceAdd ? x.f + y.f : how == ReduceMin ? (x.f < y.f ? x.f : y.f)
                                                            : (x.f > y.f ? x.f : y.f);
  x.f = r;
  uint16_t narrow = !brain   ? half_bits(r)
                    : r != r ? 0x7fff
                             : (uint16_t)((x.bits + 0x7fff + (x.bits >> 16 & 1)) >> 16);
  memcpy(to, &narrow, 2);
}

static void reduce_bits(unsigned char *to, const unsigned char *from, int bytes, int how) {
  for (int i = 0; i < bytes; i++)
    to[i] = how == ReduceAnd  ? to[i] & from[i]
            : how == ReduceOr ? to[i] | from[i]
                              : to[i] ^ from[i];
}

static void count_32(void *to, const void *from, bool down) { // as atom.inc and atom.dec
  uint32_t old, most;
  memcpy(&old, to, 4), memcpy(&most, from, 4);
  uint32_t r = down ? (old == 0 || old > most ? most : old - 1) : old >= most ? 0 : old + 1;
  memcpy(to, &r, 4);
}

static void combine(unsigned char *to, const unsigned char *from, int type, int how) {
  if (how >= ReduceAnd) {
    reduce_bits(to, from, bulk_type_bytes(type), how);
    return;
  }
  if (how >= ReduceInc) {
    count_32(to, from, how == ReduceDec);
    return;
  }
  switch (type) {
  case 0: REDUCE(uint8_t)
  case 1: REDUCE(uint16_t)
  case 2: REDUCE(uint32_t)
  case 3: REDUCE(int32_t)
  case 4: REDUCE(uint64_t)
  case 5: REDUCE(int64_t)
  case 7:
  case 8:
  case 11:
  case 12: REDUCE(float)
  case 9: REDUCE(double)
  default: reduce_16(to, from, how, type == 10);
  }
}

// Blocks on other OS threads may reduce into the same place: each element is updated atomically.
#define IN_ONE_STEP(T)                                                                             \
  {                                                                                                \
    T old = __atomic_load_n((T *)to, __ATOMIC_RELAXED), made;                                      \
    do {                                                                                           \
      made = old;                                                                                  \
      combine((unsigned char *)&made, from, type, how);                                            \
    } while (!__atomic_compare_exchange_n((T *)to, &old, made, true, __ATOMIC_ACQ_REL,             \
                                          __ATOMIC_RELAXED));                                      \
    break;                                                                                         \
  }

void bulk_move_element(unsigned char *to, const unsigned char *from, int type, int how) {
  int bytes = bulk_type_bytes(type);
  if (how == ReduceNone) {
    memcpy(to, from, (size_t)bytes);
    return;
  }
  switch (bytes) {
  case 1: IN_ONE_STEP(uint8_t)
  case 2: IN_ONE_STEP(uint16_t)
  case 4: IN_ONE_STEP(uint32_t)
  default: IN_ONE_STEP(uint64_t)
  }
}

void bulk_move_all(unsigned char *to, const unsigned char *from, unsigned bytes, int type,
                     int how) {
  if (how == ReduceNone) {
    memcpy(to, from, bytes);
    return;
  }
  for (unsigned i = 0; i < bytes; i += (unsigned)bulk_type_bytes(type))
    bulk_move_element(to + i, from + i, type, how);
}
