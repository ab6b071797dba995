// cuda_bf16.h: the part of CUDA's header of that name that kernels commonly use.
#ifndef CUSIM_CUDA_BF16_H
#define CUSIM_CUDA_BF16_H

#define CUSIM_T __nv_bfloat16
#define CUSIM_T2 __nv_bfloat162
#define CUSIM_RAW __nv_bfloat16_raw
#define CUSIM_RAW2 __nv_bfloat162_raw
#define CUSIM_NAME(before, after) before##bfloat16##after
#define CUSIM_WIDEN cusim::bfloat_to_float
#define CUSIM_NARROW cusim::float_to_bfloat
#define CUSIM_PAIR_OF_ONE __bfloat162bfloat162
#include "cusim_16bit.h"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#endif
