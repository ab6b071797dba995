// cusim_ptx_wmma.h: wmma of PTX, and mma of f64. Fragments are those of cusim_wmma.h.
#ifndef CUSIM_PTX_WMMA_H
#define CUSIM_PTX_WMMA_H

#include "cusim_wmma.h"

// One element in a fragment's registers, which are taken as bytes.
template <class E> CUSIM_FN E x_wmma_get(const void *fragment, int i) {
  E value;
  __builtin_memcpy(&value, (const u8 *)fragment + i * int(sizeof value), sizeof value);
  return value;
}

template <class E, int kRows, int kCols, int kCount, bool kColumns>
CUSIM_FN void x_wmma_load(void *fragment, const u8 *from, u32 stride) {
  for (int i = 0; i < kCount; i++) {
    int e = cusim::wmma_element<kRows, kCols>(int(x_lane()), kCount, i);
    int row = e / kCols, col = e % kCols;
    E value =
        x_ld<E, Plain>(from + (kColumns ? col * stride + row : row * stride + col) * sizeof(E));
    __builtin_memcpy((u8 *)fragment + i * int(sizeof value), &value, sizeof value);
  }
  cusim_meet(~0u, 0, 0);
}

template <class E, int kRows, int kCols, int kCount, bool kColumns>
CUSIM_FN void x_wmma_store(const void *fragment, u8 *to, u32 stride) {
  for (int i = 0; i < kCount; i++) {
    int e = cusim::wmma_element<kRows, kCols>(int(x_lane()), kCount, i);
    int row = e / kCols, col = e % kCols;
    x_st<Plain>(to + (kColumns ? col * stride + row : row * stride + col) * sizeof(E),
                x_wmma_get<E>(fragment, i));
  }
  cusim_meet(~0u, 0, 0);
}

namespace cusim {
template <> struct WmmaElement<f16> {
  using Number = float;
  static float get(f16 x) { return num(x); }
  static f16 make(float x) { return {float_to_half(x)}; }
};
template <> struct WmmaElement<bf16> {
  using Number = float;
  static float get(bf16 x) { return num(x); }
};
template <> struct WmmaElement<tf32> {
  using Number = float;
  static float get(tf32 x) { return flt(x.v & 0xffffe000u); }
};
} // namespace cusim

// ---- mma.m8n8k4 of f64 --------------------------------------------------------------------------
// Lane l holds A[l / 4][l % 4], B[l % 4][l / 4], and of C and D row l / 4, columns 2 * (l % 4) and
// next.

struct x_dmma_operands {
  double a, b, c[2];
};
CUSIM_UNTRACED inline void x_dmma_work(void *const *lanes, unsigned) {
  double d[32][2];
  for (int l = 0; l < 32; l++)
    for (int i = 0; i < 2; i++) {
      double sum = ((x_dmma_operands *)lanes[l])->c[i];
      for (int k = 0; k < 4; k++)
        sum = __builtin_fma(((x_dmma_operands *)lanes[l / 4 * 4 + k])->a,
                            ((x_dmma_operands *)lanes[(l % 4 * 2 + i) * 4 + k])->b, sum);
      d[l][i] = sum;
    }
  for (int l = 0; l < 32; l++)
    __builtin_memcpy(((x_dmma_operands *)lanes[l])->c, d[l], sizeof d[l]);
}
CUSIM_FN void x_dmma(double *d, double a, double b, double c0, double c1) {
  x_dmma_operands operands{a, b, {c0, c1}};
  cusim_meet(~0u, x_dmma_work, &operands);
  d[0] = operands.c[0], d[1] = operands.c[1];
}

#endif
