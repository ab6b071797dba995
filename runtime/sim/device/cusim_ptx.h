// cusim_ptx.h: the types, registers and calls of the C++ text that libcusim generates from PTX.
//
// x_NAME implements instruction NAME; modifiers that change its meaning follow. Values have
// PTX's types; registers are kept as unsigned integers, floats or doubles.
#ifndef CUSIM_PTX_H
#define CUSIM_PTX_H

#include "cusim.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef u8 b8;
typedef u16 b16;
typedef u32 b32;
typedef u64 b64;
typedef unsigned __int128 b128;
typedef float f32;
typedef double f64;
struct f16 { u16 v; };
struct bf16 { u16 v; };
struct f16x2 { u32 v; };
struct bf16x2 { u32 v; };
struct f32x2 { u64 v; };
struct tf32 { u32 v; };
struct e4m3x2 { u16 v; };
struct e5m2x2 { u16 v; };
struct pred2 { bool low, high; };
typedef u32 u16x2;
typedef u32 s16x2;

CUSIM_FN float flt(u32 x) { return __builtin_bit_cast(float, x); }
CUSIM_FN double flt(u64 x) { return __builtin_bit_cast(double, x); }
CUSIM_FN u32 bits(float x) { return __builtin_bit_cast(u32, x); }
CUSIM_FN u64 bits(double x) { return __builtin_bit_cast(u64, x); }
CUSIM_FN u16 bits(u16 x) { return x; }
CUSIM_FN u32 bits(u32 x) { return x; }
CUSIM_FN u64 bits(u64 x) { return x; }
CUSIM_FN u32 bits(s32 x) { return u32(x); }
CUSIM_FN u64 bits(s64 x) { return u64(x); }
CUSIM_FN u8 bits(u8 x) { return x; }
CUSIM_FN u32 bits(s16 x) { return u32(x); }
CUSIM_FN u32 bits(s8 x) { return u32(x); }
CUSIM_FN u16 bits(f16 x) { return x.v; }
CUSIM_FN u16 bits(bf16 x) { return x.v; }
CUSIM_FN u32 bits(f16x2 x) { return x.v; }
CUSIM_FN u32 bits(bf16x2 x) { return x.v; }
CUSIM_FN u64 bits(f32x2 x) { return x.v; }
CUSIM_FN u32 bits(tf32 x) { return x.v; }
CUSIM_FN u16 bits(e4m3x2 x) { return x.v; }
CUSIM_FN u16 bits(e5m2x2 x) { return x.v; }

// A number to calculate with.
template <class T> CUSIM_FN T num(T x) { return x; }
CUSIM_FN float num(f16 x) { return cusim::half_to_float(x.v); }
CUSIM_FN float num(bf16 x) { return cusim::bfloat_to_float(x.v); }

template <class T> struct Halves; // of a pair: the type of each
template <> struct Halves<f16x2> { using type = f16; };
template <> struct Halves<bf16x2> { using type = bf16; };
template <class P> CUSIM_FN typename Halves<P>::type low(P p) { return {u16(p.v)}; }
template <class P> CUSIM_FN typename Halves<P>::type high(P p) { return {u16(p.v >> 16)}; }
template <class P, class H> CUSIM_FN P pair(H low, H high) {
  return {u32(low.v) | u32(high.v) << 16};
}

#include "cusim_ptx_integer.h"
#include "cusim_ptx_float.h"
#include "cusim_ptx_convert.h"
#include "cusim_ptx_memory.h"
#include "cusim_ptx_warp.h"
#include "cusim_mma_any.h"
#include "cusim_mma_run.h"
#include "cusim_ptx_video.h"
#include "cusim_ptx_wmma.h"
#include "cusim_ptx_calls.h" // last: it renames

#if CUSIM_COUNT
#define X_BLOCK(number) cusim_count_block(number)
#endif

// All threads of the block, one after the other.
template <CusimEntry enter> void ptx_loop(void *const *params) {
  CusimThread *self = cusim_self;
  const unsigned nx = self->block_dim[0], ny = self->block_dim[1], nz = self->block_dim[2];
  for (unsigned z = 0, linear = 0; self->thread[2] = z, z < nz; z++)
    for (unsigned y = 0; self->thread[1] = y, y < ny; y++)
      for (unsigned x = 0; x < nx; x++) {
        self->thread[0] = x;
        self->linear = linear++;
        __asm__ volatile("" ::: "memory");
        enter(params);
      }
}

#endif
