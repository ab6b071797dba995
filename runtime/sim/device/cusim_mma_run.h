// cusim_mma_run.h: a run of mma.sync of PTX, which says one small product at a time: one meeting of
// the warp for all of them.
//
// Products that share A's registers, up to eight in a row, are one product with a wide B: a group.
// Which are, the translator has found out (emit_matrix.c).
#ifndef CUSIM_MMA_RUN_H
#define CUSIM_MMA_RUN_H

namespace cusim {

// One mma of registers: kHalves groups of k, M = 16, N = 8; C and D have Sum's type.
template <class F, int M, int N, int K> struct Mma {
  using Fragment = F;
  static constexpr int kGroup = 4 * F::kElements, kHalves = K / kGroup, kA = 2 * kHalves,
                       kB = kHalves, kK = K;
  static_assert(M == 16 && N == 8 && (kHalves == 1 || kHalves == 2), "a shape of mma.sync");
};

// The registers of several mma, each stored once. Each mma has a row of `map`: the number of mma in
// its group (0: its group began before; negative: its B are those of the group before), and the
// slots of its D, A, B, C; slot -1 holds 0.
struct MmaRun {
  unsigned *slots;
  const short *map;
  int count;
};

enum { kMmaGroup = 8 }; // products at most

template <class Form> struct MmaTile {
  using F = typename Form::Fragment;
  using Number = typename F::Number;
  alignas(64) Number a[16][Form::kK], b[Form::kK * 8 * kMmaGroup], d[16 * 8 * kMmaGroup];
};

using MmaSlots = unsigned *const[32]; // of each lane

template <class Form>
CUSIM_FAST void mma_gather_a(const MmaSlots &lanes, const short *map, MmaTile<Form> *t) {
  using F = typename Form::Fragment;
  constexpr int kE = F::kElements;
  short slot[Form::kA];
  for (int i = 0; i < Form::kA; i++) slot[i] = map[i];
  for (int l = 0; l < 32; l++) {
    unsigned r[Form::kA];
    typename F::Number wide[Form::kA * kE];
#pragma GCC unroll 4
    for (int i = 0; i < Form::kA; i++) r[i] = lanes[l][slot[i]];
    F::widen(r, Form::kA, wide);
    for (int i = 0; i < Form::kA; i++)
      for (int k = 0; k < kE; k++)
        t->a[l / 4 + i % 2 * 8][i / 2 * Form::kGroup + l % 4 * kE + k] = wide[i * kE + k];
  }
}

// N mma whose rows of the map are kWords apart.
template <class Form, int N, int kWords>
CUSIM_FAST void mma_gather_b(const MmaSlots &lanes, const short *map, MmaTile<Form> *t) {
  using F = typename Form::Fragment;
  constexpr int kE = F::kElements, kB = Form::kB;
  auto b = reinterpret_cast<typename F::Number (*)[8 * N]>(t->b);
  for (int l = 0; l < 32; l++) {
    unsigned r[kB * N];
    typename F::Number wide[kB * N * kE];
    for (int n = 0; n < N; n++)
      for (int i = 0; i < kB; i++) r[n * kB + i] = lanes[l][map[n * kWords + i]];
    F::widen(r, kB * N, wide);
    for (int n = 0; n < N; n++)
      for (int i = 0; i < kB; i++)
        for (int k = 0; k < kE; k++)
          b[i * Form::kGroup + l % 4 * kE + k][8 * n + l / 4] = wide[(n * kB + i) * kE + k];
  }
}

// Where four sums (of 16 bits: two pairs) are: mostly side by side.
struct MmaFour {
  short slot[4];
  bool side_by_side;
  __attribute__((always_inline)) CUSIM_UNTRACED MmaFour(const short *map, bool half) {
    for (int i = 0; i < (half ? 2 : 4); i++) slot[i] = map[i];
    side_by_side = !half && slot[0] >= 0;
    for (int i = 1; i < 4 && side_by_side; i++) side_by_side = slot[i] == slot[0] + i;
  }
  __attribute__((always_inline)) CUSIM_UNTRACED unsigned get(const unsigned *slots,
                                                              int i) const {
    return slot[i] < 0 ? 0 : slots[slot[i]];
  }
};

// True if the accumulators of N mma are contiguous, as they mostly are.
template <int N, int kWords> CUSIM_UNTRACED bool mma_in_a_row(const short *map) {
  for (int n = 0; n < N; n++)
    for (int i = 0; i < 4; i++)
      if (map[0] < 0 || map[n * kWords + i] != map[0] + 4 * n + i) return false;
  return true;
}

// Converts between such accumulators of a lane and two rows of D, 8 apart.
template <class Number, int N, bool kIn>
CUSIM_FAST void mma_move_row(unsigned *const (&lanes)[32], int slot, Number (*d)[8 * N]) {
  for (int l = 0; l < 32; l++) {
    unsigned *at = lanes[l] + slot;
    Number *up = d[l / 4] + l % 4 * 2, *low = d[l / 4 + 8] + l % 4 * 2;
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) {
      __builtin_memcpy(kIn ? (void *)(up + 8 * n) : at + 4 * n,
                       kIn ? at + 4 * n : (const void *)(up + 8 * n), 8);
      __builtin_memcpy(kIn ? (void *)(low + 8 * n) : at + 4 * n + 2,
                       kIn ? at + 4 * n + 2 : (const void *)(low + 8 * n), 8);
    }
  }
}

// C of 32-bit sums, or of pairs of 16 bits.
template <class Form, bool kHalf, int N, int kWords>
CUSIM_FAST void mma_gather_c(const MmaSlots &lanes, const short *map, MmaTile<Form> *t) {
  auto d = reinterpret_cast<typename Form::Fragment::Number (*)[8 * N]>(t->d);
  if constexpr (!kHalf)
    if (mma_in_a_row<N, kWords>(map))
      return mma_move_row<typename Form::Fragment::Number, N, true>(lanes, map[0], d);
  for (int n = 0; n < N; n++, map += kWords) {
    const MmaFour four(map, kHalf);
    for (int l = 0; l < 32; l++) {
      auto *to = &d[l / 4][8 * n + l % 4 * 2], *below = &d[l / 4 + 8][8 * n + l % 4 * 2];
      if constexpr (kHalf) {
        unsigned r[2] = {four.get(lanes[l], 0), four.get(lanes[l], 1)};
        F16::widen(r, 1, to);
        F16::widen(r + 1, 1, below);
      } else if (four.side_by_side) {
        __builtin_memcpy(to, lanes[l] + four.slot[0], 8);
        __builtin_memcpy(below, lanes[l] + four.slot[0] + 2, 8);
      } else {
        unsigned r[4];
        for (int i = 0; i < 4; i++) r[i] = four.get(lanes[l], i);
        __builtin_memcpy(to, r, 8);
        __builtin_memcpy(below, r + 2, 8);
      }
    }
  }
}

template <class Form, bool kHalf, int N, int kWords>
CUSIM_FAST void mma_scatter(const MmaSlots &lanes, const short *map, MmaTile<Form> *t) {
  auto d = reinterpret_cast<typename Form::Fragment::Number (*)[8 * N]>(t->d);
  if constexpr (!kHalf)
    if (mma_in_a_row<N, kWords>(map))
      return mma_move_row<typename Form::Fragment::Number, N, false>(lanes, map[0], d);
  for (int n = 0; n < N; n++, map += kWords) {
    const MmaFour four(map, kHalf);
    for (int l = 0; l < 32; l++) {
      auto *from = &d[l / 4][8 * n + l % 4 * 2], *below = &d[l / 4 + 8][8 * n + l % 4 * 2];
      if constexpr (kHalf) {
        floats_to_halves(from, 2, lanes[l] + four.slot[0]);
        floats_to_halves(below, 2, lanes[l] + four.slot[1]);
      } else if (four.side_by_side) {
        __builtin_memcpy(lanes[l] + four.slot[0], from, 8);
        __builtin_memcpy(lanes[l] + four.slot[0] + 2, below, 8);
      } else {
        for (int i = 0; i < 4; i++)
          __builtin_memcpy(lanes[l] + four.slot[i], (i < 2 ? from : below) + i % 2, 4);
      }
    }
  }
}

template <class Form, bool kHalf, int N>
CUSIM_FAST void mma_group(const MmaSlots &lanes, const short *map, bool same_b,
                          MmaTile<Form> *t) {
  using Number = typename Form::Fragment::Number;
  constexpr int kD = kHalf ? 2 : 4, kWords = 1 + 2 * kD + Form::kA + Form::kB;
  const short *d = map + 1, *a = d + kD, *b = a + Form::kA, *c = b + Form::kB;
  mma_gather_a<Form>(lanes, a, t);
  if (!same_b) mma_gather_b<Form, N, kWords>(lanes, b, t);
  mma_gather_c<Form, kHalf, N, kWords>(lanes, c, t);
  multiply<Number, 16, Form::kK, 8 * N>(reinterpret_cast<Number (*)[8 * N]>(t->d), t->a,
                                        reinterpret_cast<Number (*)[8 * N]>(t->b));
  mma_scatter<Form, kHalf, N, kWords>(lanes, d, t);
}

template <class Form, bool kHalf>
CUSIM_UNTRACED void mma_run_work(void *const *operands, unsigned mask) {
  constexpr int kWords = 1 + (kHalf ? 4 : 8) + Form::kA + Form::kB;
  unsigned *lanes[32];
  MmaTile<Form> tile;
  if (mask != 0xffffffffu) cusim_trap(); // a lane has exited
  const MmaRun *first = static_cast<MmaRun *>(operands[0]);
  for (int l = 0; l < 32; l++) {
    const MmaRun *run = static_cast<MmaRun *>(operands[l]);
    if (run->map != first->map) cusim_trap(); // the lanes are at different products
    lanes[l] = run->slots;
  }
  for (int i = 0; i < first->count; i++) {
    const short *map = first->map + i * kWords;
    bool same_b = *map < 0;
    switch (same_b ? -*map : *map) {
    case 1: mma_group<Form, kHalf, 1>(lanes, map, same_b, &tile); break;
    case 2: mma_group<Form, kHalf, 2>(lanes, map, same_b, &tile); break;
    case 4: mma_group<Form, kHalf, 4>(lanes, map, same_b, &tile); break;
    case 8: mma_group<Form, kHalf, 8>(lanes, map, same_b, &tile); break;
    }
  }
  cusim_count_flops(Form::Fragment::kKind, 2ll * 16 * 8 * Form::kK * first->count);
}

template <class Form, bool kHalf>
CUSIM_FN void mma_run(unsigned *slots, const short *map, int count) {
  MmaRun run{slots, map, count};
  cusim_meet(0xffffffffu, mma_run_work<Form, kHalf>, &run);
}

} // namespace cusim

#endif
