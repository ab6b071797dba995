// cusim_wgmma.h: wgmma: 128 threads, M = 64, steps of 32 bytes in k.
//
// Layouts are those of tests/prim/layouts.txt: fragments in registers, and tiles in shared memory
// with 64-bit descriptors.
// NOTE: wgmma_run computes a run at its last wgmma; wgmma_async as late as a GPU may:
// a result that is read before its wait, or overwritten operands, show as wrong
// numbers.
#ifndef CUSIM_WGMMA_H
#define CUSIM_WGMMA_H

namespace cusim {

struct WgmmaStep { // one product: A as a tile or in registers
  unsigned long long a_tile, b_tile;
  unsigned a[4];
  bool scale_d;
};

// A run of wgmma with the same accumulators.
struct Wgmma {
  unsigned *d;
  const WgmmaStep *steps; // null: `one`
  unsigned char *shared;  // where shared addresses begin
  WgmmaStep one;
  signed char count, scale_a, scale_b;
  bool trans_a, trans_b;
};

struct Tile { // of a descriptor
  unsigned start, leading, stride, mode;
  unsigned char *shared;
  Tile(unsigned long long bits, unsigned char *base)
      : start(unsigned(bits & 0x3fff) << 4), leading(unsigned(bits >> 16 & 0x3fff) << 4),
        stride(unsigned(bits >> 32 & 0x3fff) << 4), mode(unsigned(bits >> 62)), shared(base) {}
  // Sixteen-byte units between rows: 1 none, 8 of 128 bytes, 4 of 64, 2 of 32.
  unsigned width() const { return mode ? 16u >> mode : 1; }
  const unsigned char *at(unsigned offset) const {
    static constexpr unsigned masks[] = {0, 7, 3, 1};
    unsigned address = start + offset;
    return shared + (address ^ ((address >> 7 & masks[mode]) << 4));
  }
  const unsigned char *k_major(unsigned row, unsigned unit) const {
    unsigned w = width();
    return at(row % 8 * w * 16 + row / 8 * stride + unit * (mode ? 16 : leading));
  }
  const unsigned char *mn_major(unsigned unit, unsigned k) const { // eight elements along mn
    unsigned w = width();
    if (!mode) return at(unit * stride + k % 8 * 16 + k / 8 * leading);
    return at(unit % w * 16 + unit / w * leading + k % 8 * w * 16 + k / 8 * stride);
  }
};

// Rows of the tile, kDepth numbers each, into out[row * step_row + k * step_k].
template <class F, int kDepth>
CUSIM_FAST void wgmma_rows(const Tile &tile, bool trans, int rows, int scale,
                               typename F::Number *out, int step_row, int step_k) {
  typename F::Number wide[4 * F::kElements];
  unsigned words[4];
  if (!trans) {
    constexpr int kUnit = 4 * F::kElements;
    for (int r = 0; r < rows; r++)
      for (int u = 0; u < 2; u++) {
        if (CUSIM_TRACE) cusim_proxy_read(tile.k_major(unsigned(r), unsigned(u)), 16);
        __builtin_memcpy(words, tile.k_major(unsigned(r), unsigned(u)), 16);
        F::widen(words, 4, wide);
        for (int i = 0; i < kUnit; i++)
          out[r * step_row + (u * kUnit + i) * step_k] = scale * wide[i];
      }
  } else {
    for (int k = 0; k < kDepth; k++)
      for (int u = 0; u < rows / 8; u++) {
        if (CUSIM_TRACE) cusim_proxy_read(tile.mn_major(unsigned(u), unsigned(k)), 16);
        __builtin_memcpy(words, tile.mn_major(unsigned(u), unsigned(k)), 16);
        F::widen(words, 4, wide);
        for (int i = 0; i < 8; i++) out[(u * 8 + i) * step_row + k * step_k] = scale * wide[i];
      }
  }
}

// Converts between the registers of a warp group and D: pairs of each thread in two rows, 8 apart.
template <class Number, int N, bool kHalf, bool kIn>
CUSIM_FAST void wgmma_move(const Wgmma *const *lanes, Number (*d)[N]) {
  for (int t = 0; t < 128; t++) {
    unsigned *r = lanes[t]->d;
    Number *rows[2] = {d[t / 32 * 16 + t % 32 / 4] + t % 4 * 2,
                       d[t / 32 * 16 + t % 32 / 4 + 8] + t % 4 * 2};
#pragma GCC unroll 8
    for (int g = 0; g < N / 8; g++)
#pragma GCC unroll 2
      for (int h = 0; h < 2; h++) {
        Number *at = rows[h] + g * 8;
        if constexpr (kHalf && kIn)
          F16::widen(r + g * 2 + h, 1, at);
        else if constexpr (kHalf)
          floats_to_halves(at, 2, r + g * 2 + h);
        else if constexpr (kIn)
          __builtin_memcpy(at, r + g * 4 + h * 2, 8);
        else
          __builtin_memcpy(r + g * 4 + h * 2, at, 8);
      }
  }
}

// A of registers, or of a tile, times a sign.
template <class A, int kDepth, bool kRegs>
CUSIM_FAST void wgmma_gather_a(const Wgmma *const *lanes, int step,
                               typename A::Number (*a)[kDepth]) {
  constexpr int kE = A::kElements;
  const Wgmma *first = lanes[0];
  if constexpr (!kRegs) {
    const WgmmaStep *s = first->steps ? first->steps + step : &first->one;
    return wgmma_rows<A, kDepth>(Tile(s->a_tile, first->shared), first->trans_a, 64,
                                 first->scale_a, &a[0][0], kDepth, 1);
  }
  for (int t = 0; t < 128; t++) {
    typename A::Number wide[4 * kE];
    A::widen(lanes[t]->steps ? lanes[t]->steps[step].a : lanes[t]->one.a, 4, wide);
    for (int r = 0; r < 4; r++)
      for (int i = 0; i < kE; i++)
        a[t / 32 * 16 + t % 32 / 4 + r % 2 * 8][r / 2 * 4 * kE + t % 4 * kE + i] =
            first->scale_a * wide[r * kE + i];
  }
}

template <class A, class B, int N, bool kHalf, bool kRegs>
CUSIM_UNTRACED void wgmma_work(void *const *operands, unsigned) {
  using Number = typename A::Number;
  constexpr int kDepth = 8 * A::kElements;
  const Wgmma *const *lanes = reinterpret_cast<const Wgmma *const *>(operands), *first = lanes[0];
  struct alignas(64) Scratch {
    Number a[64][kDepth], b[kDepth][N], d[64][N];
  };
  Scratch *s = static_cast<Scratch *>(cusim_scratch(sizeof(Scratch)));
  for (int i = 0; i < first->count; i++) {
    const WgmmaStep *step = first->steps ? first->steps + i : &first->one;
    if (!step->scale_d)
      __builtin_memset(s->d, 0, sizeof s->d);
    else if (i == 0)
      wgmma_move<Number, N, kHalf, true>(lanes, s->d);
    wgmma_gather_a<A, kDepth, kRegs>(lanes, i, s->a);
    wgmma_rows<B, kDepth>(Tile(step->b_tile, first->shared), first->trans_b, N, first->scale_b,
                          &s->b[0][0], 1, N);
    multiply<Number, 64, kDepth, N>(s->d, s->a, s->b);
    if constexpr (kHalf) // each product's sums are halves
      for (int row = 0; row < 64 && i + 1 < first->count; row++) {
        unsigned halves[N / 2];
        floats_to_halves(s->d[row], N, halves);
        F16::widen(halves, N / 2, s->d[row]);
      }
  }
  wgmma_move<Number, N, kHalf, false>(lanes, s->d);
  cusim_count_flops(A::kKind, 2ll * 64 * N * kDepth * first->count);
}

template <class A, class B, int N, bool kHalf, bool kRegs>
CUSIM_FN void wgmma_run(unsigned *d, const WgmmaStep *steps, int count, unsigned char *shared,
                        int scale_a, int scale_b, bool trans_a, bool trans_b) {
  Wgmma operands{d, steps, shared, {}, (signed char)count, (signed char)scale_a,
                 (signed char)scale_b, trans_a, trans_b};
  cusim_meet_group(wgmma_work<A, B, N, kHalf, kRegs>, &operands);
}

// Operands in shared memory; d is there until the wait.
template <class A, class B, int N>
CUSIM_FN void wgmma_async(unsigned *d, unsigned long long a_tile, unsigned long long b_tile,
                          unsigned char *shared, bool scale_d, int trans_a, int trans_b) {
  Wgmma operands{d, nullptr, shared, {a_tile, b_tile, {}, scale_d}, 1, 1, 1,
                 bool(trans_a), bool(trans_b)};
  cusim_product_async(wgmma_work<A, B, N, false, false>, &operands, sizeof operands);
}

// A in registers, as they are now.
template <class A, class B, int N>
CUSIM_FN void wgmma_async(unsigned *d, const unsigned (&a)[4], unsigned long long b_tile,
                          unsigned char *shared, bool scale_d, int trans_b) {
  Wgmma operands{d, nullptr, shared, {0, b_tile, {a[0], a[1], a[2], a[3]}, scale_d}, 1, 1, 1,
                 false, bool(trans_b)};
  cusim_product_async(wgmma_work<A, B, N, false, true>, &operands, sizeof operands);
}

} // namespace cusim

#endif
