// cuda_fp16.h: the part of CUDA's header of that name that kernels commonly use.
#ifndef CUSIM_CUDA_FP16_H
#define CUSIM_CUDA_FP16_H

#define CUSIM_T __half
#define CUSIM_T2 __half2
#define CUSIM_RAW __half_raw
#define CUSIM_RAW2 __half2_raw
#define CUSIM_NAME(before, after) before##half##after
#define CUSIM_WIDEN cusim::half_to_float
#define CUSIM_NARROW cusim::float_to_half
#define CUSIM_PAIR_OF_ONE __half2half2
#include "cusim_16bit.h"

typedef __half half;
typedef __half2 half2;

#endif
