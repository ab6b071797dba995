// cusim.h: CUDA C++ for the host compiler. Included before every kernel source.
//
// Needs no other header, so that a kernel compiles quickly. Keywords that C++ lacks become marker
// words, which libcusim's rewriter turns into C++ (runtime/sim/rewrite.c).
#ifndef CUSIM_H
#define CUSIM_H

#include "cusim_abi.h"

#define __host__
// Visible, or used, so that the compiler does not assume a constant: the program may write it.
// rewrite.c adds `used` to static __device__ variables.
#define __device__ __attribute__((visibility("default")))
#define __constant__ __attribute__((visibility("default"), used))
#define __grid_constant__
#define __global__ __cusim_global__
#define __shared__ __cusim_shared__
#define __launch_bounds__ __cusim_bounds__
#define __maxnreg__ __cusim_registers__
#define __cluster_dims__ __cusim_cluster__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__ __restrict
#define __managed__ static_assert(false, "managed memory is not modelled");

// Marks in the preprocessed text, by which host_compiler.c knows the compiler: cusim_is_clang, and
#if defined(__clang__) || __GNUC__ >= 12
extern "C" int cusim_fills_registers; // the compiler has -ftrivial-auto-var-init
#endif

// Code that libcusim's checks must not attribute to the running thread.
#if defined(__clang__)
extern "C" int cusim_is_clang;
#define CUSIM_UNCOUNTED __attribute__((no_sanitize("coverage")))
#else
#define CUSIM_UNCOUNTED __attribute__((no_sanitize_coverage))
#endif
#define CUSIM_UNTRACED                                                                             \
  __attribute__((no_sanitize("thread"))) __attribute__((no_sanitize("alignment"))) CUSIM_UNCOUNTED

#if !defined(__clang__)
#define __builtin_assume(condition) ((condition) ? (void)0 : __builtin_unreachable())
#endif
#define __assume(condition) __builtin_assume(condition)

extern "C" void cusim_inline_ptx() // replaces asm statements (rewrite.c)
    __attribute__((error("libcusim: inline PTX (asm) is not there")));

// NOTE: function templates that these headers call have return type `auto`: GCC then instantiates
// them where they are called, in the precompiled headers, and not at the end of every program,
// called or not, which takes 25 ms.
#define CUSIM_FN static inline __attribute__((always_inline, unused))

#ifndef NULL
#define NULL 0
#endif
typedef decltype(sizeof(0)) size_t;
typedef long clock_t;
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;

#include "cusim_types.h"
#include "cusim_kernel.h"
#include "cusim_sync.h"
#include "cusim_math.h"
#include "cusim_integer.h"
#include "cusim_special.h"
#include "cusim_memory.h"
#include "cusim_half.h"
#include "cusim_atomic.h"
#include "cusim_matrix.h"
#include "cusim_wgmma.h"
#include "cusim_cluster.h"

#endif
