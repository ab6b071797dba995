// names.h: lets a program describe its device memory to libcusim, for reports (include cuda.h
// first).
#ifndef CUSIM_NAMES_H
#define CUSIM_NAMES_H

#include <stddef.h>

#ifndef CUDA_VERSION
#include "cuda_api.h"
#endif

typedef struct CusimTensor {
  CUdeviceptr ptr;
  size_t bytes;
  const char *name;
} CusimTensor;

// CUresult cusimNameLaunch(const char *layer, int count, const CusimTensor *tensors); Describes the
// next launch of the calling thread: its layer and the tensors it may touch. Everything is copied.
// With NNGEN_SIM_CHECK=address an access to an allocation that holds such tensors, but to none of
// them, is out of bounds. Optional: found by dlsym.
typedef CUresult (*CusimNameLaunch)(const char *layer, int count, const CusimTensor *tensors);

#endif
