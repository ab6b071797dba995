// names.h: how a program tells libcusim what its memory holds, so that reports can say it. Of one
// that includes cuda.h, after that.
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

// CUresult cusimNameLaunch(const char *layer, int count, const CusimTensor *tensors);
// Describes the next launch of the calling thread: the layer it belongs to and the tensors it may
// touch. All is copied. With NNGEN_SIM_CHECK=address an access to an allocation that holds such
// tensors, but to none of them, is out of bounds. A program does without: found by dlsym.
typedef CUresult (*CusimNameLaunch)(const char *layer, int count, const CusimTensor *tensors);

#endif
