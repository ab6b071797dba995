// cusim_ptx_wmma.h: wmma of PTX, and mma of f64. PTX leaves it open which lane holds which element
// of a wmma fragment: here lane l of n elements each holds those from l * n on, row by row; where
// there are more places than elements, they come again.
#ifndef CUSIM_PTX_WMMA_H
#define CUSIM_PTX_WMMA_H

// One element in a fragment's registers, which are taken as bytes.
template <class E> CUSIM_FN E x_wmma_get(const void *fragment, int i) {
  E value;
  __builtin_memcpy(&value, (const u8 *)fragment + i * int(sizeof value), sizeof value);
  return value;
}

template <class E, int kRows, int kCols, int kCount, bool kColumns>
CUSIM_FN void x_wmma_load(void *fragment, const u8 *from, u32 stride) {
  for (int i = 0; i < kCount; i++) {
    int e = (int(x_lane()) * kCount + i) % (kRows * kCols), row = e / kCols, col = e % kCols;
    E value =
        x_ld<E, Plain>(from + (kColumns ? col * stride + row : row * stride + col) * sizeof(E));
    __builtin_memcpy((u8 *)fragment + i * int(sizeof value), &value, sizeof value);
  }
  cusim_meet(~0u, 0, 0);
}

template <class E, int kRows, int kCols, int kCount, bool kColumns>
CUSIM_FN void x_wmma_store(const void *fragment, u8 *to, u32 stride) {
  for (int i = 0; i < kCount; i++) {
    int e = int(x_lane()) * kCount + i, row = e / kCols, col = e % kCols;
    x_st<Plain>(to + (kColumns ? col * stride + row : row * stride + col) * sizeof(E),
                x_wmma_get<E>(fragment, i));
  }
  cusim_meet(~0u, 0, 0);
}

// What a product reads: elements as numbers. E: as kept; N: what is summed.
template <class E_, class N, int kCount> struct x_wmma_type {
  using E = E_;
  using Number = N;
  static constexpr int count = kCount; // in a lane
};
CUSIM_FN float x_wmma_number(f16 x) {
  return num(x);
}
CUSIM_FN float x_wmma_number(bf16 x) {
  return num(x);
}
CUSIM_FN float x_wmma_number(tf32 x) {
  return flt(x.v & 0xffffe000u);
}
CUSIM_FN float x_wmma_number(f32 x) {
  return x;
}
CUSIM_FN double x_wmma_number(f64 x) {
  return x;
}
CUSIM_FN int x_wmma_number(s8 x) {
  return x;
}
CUSIM_FN int x_wmma_number(u8 x) {
  return x;
}
CUSIM_FN int x_wmma_number(s32 x) {
  return x;
}

struct x_wmma_operands {
  void *d;
  const void *a, *b, *c;
};

// Element e of a fragment that all lanes hold a part of.
template <class T>
CUSIM_FN auto x_wmma_at(void *const *lanes, const void *x_wmma_operands::*part, int e) {
  const x_wmma_operands *o = (const x_wmma_operands *)lanes[e / T::count];
  return x_wmma_number(x_wmma_get<typename T::E>(o->*part, e % T::count));
}

template <class A, class B, class C, class D, int M, int N, int K>
CUSIM_UNTRACED void x_wmma_work(void *const *lanes, unsigned) {
  using Number = typename A::Number;
  Number d[M * N];
  for (int row = 0; row < M; row++)
    for (int col = 0; col < N; col++) {
      Number sum = Number(x_wmma_at<C>(lanes, &x_wmma_operands::c, row * N + col));
      for (int k = 0; k < K; k++)
        sum += Number(x_wmma_at<A>(lanes, &x_wmma_operands::a, row * K + k)) *
               Number(x_wmma_at<B>(lanes, &x_wmma_operands::b, k * N + col));
      d[row * N + col] = sum;
    }
  for (int e = 0; e < M * N; e++) {
    typename D::E value;
    if constexpr (__is_same(typename D::E, f16))
      value = f16{cusim::float_to_half(d[e])};
    else
      value = typename D::E(d[e]);
    __builtin_memcpy((u8 *)((x_wmma_operands *)lanes[e / D::count])->d +
                         e % D::count * int(sizeof value),
                     &value, sizeof value);
  }
  if constexpr (sizeof(Number) == 4)
    cusim_count_flops(sizeof(typename A::E) == 1   ? CusimFlopsMma8
                      : sizeof(typename A::E) == 2 ? CusimFlopsMma16
                                                   : CusimFlopsMmaTf32,
                      2ll * M * N * K);
}

template <class A, class B, class C, class D, int M, int N, int K>
CUSIM_FN void x_wmma(void *d, const void *a, const void *b, const void *c) {
  x_wmma_operands operands{d, a, b, c};
  cusim_meet(~0u, x_wmma_work<A, B, C, D, M, N, K>, &operands);
}

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
