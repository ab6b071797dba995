// tensor_map.h: tensor maps, as tests give them to kernels, and what cuda_api.h has not of them.
#ifndef TESTS_TENSOR_MAP_H
#define TESTS_TENSOR_MAP_H

#include <stdalign.h>

#include "tests/sim/device.h"

typedef struct Map {
  alignas(64) unsigned char bytes[128];
} Map;
enum { U8, U16, U32, S32, U64, S64, F16, F32, F64, BF16 }; // CUtensorMapDataType

typedef CUresult (*EncodeIm2col)(void *, int, unsigned, void *, const uint64_t *, const uint64_t *,
                                 const int *, const int *, uint32_t, uint32_t,
                                 const uint32_t *, int, int, int, int);

static EncodeIm2col encode_im2col(void) { // of libcusim
  EncodeIm2col encode;
  *(void **)&encode = dlsym(sim_open(), "cuTensorMapEncodeIm2col");
  return encode;
}

#endif
