// types.c: the fundamental types of PTX.
#include "sim/ptx/ptx.h"

#include <string.h>

static const PtxType types[] = {
    {"pred", KindPred, 1},      {"b8", KindBits, 8},         {"b16", KindBits, 16},
    {"b32", KindBits, 32},      {"b64", KindBits, 64},       {"b128", KindBits, 128},
    {"u8", KindUnsigned, 8},    {"u16", KindUnsigned, 16},   {"u32", KindUnsigned, 32},
    {"u64", KindUnsigned, 64},  {"s8", KindSigned, 8},       {"s16", KindSigned, 16},
    {"s32", KindSigned, 32},    {"s64", KindSigned, 64},     {"f16", KindFloat, 16},
    {"f16x2", KindFloat, 32},   {"bf16", KindFloat, 16},     {"bf16x2", KindFloat, 32},
    {"f32", KindFloat, 32},     {"f64", KindFloat, 64},      {"tf32", KindFloat, 32},
    {"e4m3x2", KindFloat, 16},  {"e5m2x2", KindFloat, 16},   {"u16x2", KindUnsigned, 32},
    {"s16x2", KindSigned, 32},  {"e4m3", KindFloat, 8},      {"e5m2", KindFloat, 8},
    {"f32x2", KindFloat, 64},
};

PtxType ptx_type(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strlen(types[i].name) == length && !memcmp(types[i].name, name, length)) return types[i];
  return (PtxType){0};
}

PtxType ptx_type_of(const char *name) {
  return ptx_type(name, strlen(name));
}
