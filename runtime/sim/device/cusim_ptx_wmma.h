// cusim_ptx_wmma.h: wmma of PTX. Fragments are those of cusim_wmma.h.
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

#endif
