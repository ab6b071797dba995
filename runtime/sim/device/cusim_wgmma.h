// cusim_wgmma.h: products of a warp group: 128 threads, M = 64, a step of 32 bytes in k.
//
// Layouts as tests/prim/layouts.txt has them: fragments of registers, and tiles in shared memory that
// 64-bit descriptors tell of.
// NOTE: wgmma makes the product where it is asked for; wgmma_async, as late as a GPU may: a product
// that is read before its wait, or whose operands are overwritten, shows as wrong numbers.
#ifndef CUSIM_WGMMA_H
#define CUSIM_WGMMA_H

namespace cusim {

template <class A> struct Wgmma {
  unsigned *d;
  const unsigned *a; // registers; or null, and
  unsigned long long a_tile, b_tile;
  unsigned char *shared; // where shared addresses begin
  bool scale_d;
  int scale_a, scale_b, trans_a, trans_b;
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
CUSIM_UNTRACED void wgmma_rows(const Tile &tile, bool trans, int rows, int scale,
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
        for (int i = 0; i < kUnit; i++) out[r * step_row + (u * kUnit + i) * step_k] = scale * wide[i];
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

template <class A, class B, int N, bool kHalf, bool kRegs>
CUSIM_UNTRACED void wgmma_work(void *const *operands, unsigned) {
  using Number = typename A::Number;
  constexpr int kDepth = 8 * A::kElements, kE = A::kElements;
  const Wgmma<A> *const *lanes = reinterpret_cast<const Wgmma<A> *const *>(operands);
  const Wgmma<A> *first = lanes[0];
  struct alignas(64) Scratch {
    Number a[64][kDepth], b[kDepth][N], d[64][N];
  };
  Scratch *s = static_cast<Scratch *>(cusim_scratch(sizeof(Scratch)));
  Number(*a)[kDepth] = s->a, (*b)[N] = s->b, (*d)[N] = s->d;
  if constexpr (kRegs) {
    for (int t = 0; t < 128; t++) {
      Number wide[4 * kE];
      A::widen(lanes[t]->a, 4, wide);
      for (int r = 0; r < 4; r++)
        for (int i = 0; i < kE; i++)
          a[t / 32 * 16 + t % 32 / 4 + r % 2 * 8][r / 2 * 4 * kE + t % 4 * kE + i] =
              first->scale_a * wide[r * kE + i];
    }
  } else {
    wgmma_rows<A, kDepth>(Tile(first->a_tile, first->shared), first->trans_a, 64, first->scale_a,
                          &a[0][0], kDepth, 1);
  }
  wgmma_rows<B, kDepth>(Tile(first->b_tile, first->shared), first->trans_b, N, first->scale_b,
                        &b[0][0], 1, N);
  for (int t = 0; t < 128; t++)
    for (int g = 0; g < N / 8; g++)
      for (int h = 0; h < 2; h++) {
        Number *to = &d[t / 32 * 16 + t % 32 / 4 + h * 8][g * 8 + t % 4 * 2];
        if (!first->scale_d) {
          to[0] = to[1] = 0;
        } else if constexpr (kHalf) {
          F16::widen(&lanes[t]->d[g * 2 + h], 1, reinterpret_cast<float *>(to));
        } else {
          __builtin_memcpy(to, &lanes[t]->d[g * 4 + h * 2], 8);
        }
      }
  typedef Number Wide __attribute__((vector_size(8 * sizeof(Number)), may_alias));
  constexpr int kVectors = N / 8, kTile = kVectors % 8 == 0 ? 8 : kVectors % 4 == 0 ? 4 : 1;
  for (int row = 0; row < 64; row += 2)
    for (int v = 0; v < kVectors; v += kTile) {
      Wide sum[2][kTile];
      for (int j = 0; j < kTile; j++) {
        sum[0][j] = reinterpret_cast<Wide *>(d[row])[v + j];
        sum[1][j] = reinterpret_cast<Wide *>(d[row + 1])[v + j];
      }
      for (int k = 0; k < kDepth; k++) {
        const Wide *in = reinterpret_cast<const Wide *>(b[k]) + v;
#pragma GCC unroll 8
        for (int j = 0; j < kTile; j++) {
          sum[0][j] += a[row][k] * in[j];
          sum[1][j] += a[row + 1][k] * in[j];
        }
      }
      for (int j = 0; j < kTile; j++) {
        reinterpret_cast<Wide *>(d[row])[v + j] = sum[0][j];
        reinterpret_cast<Wide *>(d[row + 1])[v + j] = sum[1][j];
      }
    }
  for (int t = 0; t < 128; t++)
    for (int g = 0; g < N / 8; g++)
      for (int h = 0; h < 2; h++) {
        Number *from = &d[t / 32 * 16 + t % 32 / 4 + h * 8][g * 8 + t % 4 * 2];
        if constexpr (kHalf)
          floats_to_halves(reinterpret_cast<float *>(from), 2, &lanes[t]->d[g * 2 + h]);
        else
          __builtin_memcpy(&lanes[t]->d[g * 4 + h * 2], from, 8);
      }
  cusim_count_flops(A::kKind, 2ll * 64 * N * kDepth);
}

template <class A, class B, int N, bool kHalf, bool kRegs>
CUSIM_FN void wgmma(unsigned *d, const unsigned *a, unsigned long long a_tile,
                    unsigned long long b_tile, unsigned char *shared, bool scale_d, int scale_a,
                    int scale_b, int trans_a, int trans_b) {
  Wgmma<A> operands{d, a, a_tile, b_tile, shared, scale_d, scale_a, scale_b, trans_a, trans_b};
  cusim_meet_group(wgmma_work<A, B, N, kHalf, kRegs>, &operands);
}

// Operands in shared memory; d is there until the wait.
template <class A, class B, int N>
CUSIM_FN void wgmma_async(unsigned *d, unsigned long long a_tile, unsigned long long b_tile,
                          unsigned char *shared, bool scale_d, int trans_a, int trans_b) {
  Wgmma<A> operands{d, nullptr, a_tile, b_tile, shared, scale_d, 1, 1, trans_a, trans_b};
  cusim_product_async(wgmma_work<A, B, N, false, false>, &operands, sizeof operands);
}

} // namespace cusim

#endif
