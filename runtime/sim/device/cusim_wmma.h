// cusim_wmma.h: wmma fragments and products. One definition, for PTX (cusim_ptx_wmma.h) and nvcuda
// (mma.h).
//
// The layout of a fragment is unspecified: here lane l with n elements has those
// from l * n on, row by row, repeating if there are more places than elements.
#ifndef CUSIM_WMMA_H
#define CUSIM_WMMA_H

namespace cusim {

// The index of a lane's i-th element: element e is in row e / kCols.
template <int kRows, int kCols> CUSIM_FN int wmma_element(int lane, int count, int i) {
  return (lane * count + i) % (kRows * kCols);
}

// An element type: Type as stored; Number: the type of sums.
template <class Type> struct WmmaElement;
template <class Type, class Sum> struct WmmaPlain {
  using Number = Sum;
  static Number get(Type x) { return Number(x); }
  static Type make(Number x) { return Type(x); }
};
template <> struct WmmaElement<float> : WmmaPlain<float, float> {};
template <> struct WmmaElement<double> : WmmaPlain<double, double> {};
template <> struct WmmaElement<signed char> : WmmaPlain<signed char, long long> {};
template <> struct WmmaElement<unsigned char> : WmmaPlain<unsigned char, long long> {};
template <> struct WmmaElement<int> : WmmaPlain<int, long long> {};

template <class Type, int kCount> struct WmmaPart { // a lane's part of a fragment
  using Kept = Type;
  using Element = WmmaElement<Type>;
  static constexpr int count = kCount;
};

struct WmmaOperands {
  void *d;
  const void *a, *b, *c;
};

// A matrix of kElements, from the parts of all lanes.
template <class Part, int kElements>
CUSIM_UNTRACED inline void wmma_gather(void *const *lanes, const void *WmmaOperands::*which,
                                       typename Part::Element::Number *out) {
  for (int e = 0; e < kElements; e++) {
    typename Part::Kept value;
    const char *from = (const char *)(((WmmaOperands *)lanes[e / Part::count])->*which);
    __builtin_memcpy(&value, from + e % Part::count * int(sizeof value), sizeof value);
    out[e] = Part::Element::get(value);
  }
}

// Sums start from C, in order of k; integer sums are exact, then truncated or, with kSaturate,
// clamped to int.
template <class PartA, class PartB, class PartC, class PartD, int kM, int kN, int kK,
          bool kSaturate>
CUSIM_UNTRACED inline void wmma_work(void *const *lanes, unsigned mask) {
  using Number = typename PartC::Element::Number;
  typename PartA::Element::Number a[kM * kK];
  typename PartB::Element::Number b[kK * kN];
  Number d[kM * kN];
  if (mask != 0xffffffffu) cusim_trap(); // a lane has exited
  wmma_gather<PartA, kM * kK>(lanes, &WmmaOperands::a, a);
  wmma_gather<PartB, kK * kN>(lanes, &WmmaOperands::b, b);
  wmma_gather<PartC, kM * kN>(lanes, &WmmaOperands::c, d);
  for (int row = 0; row < kM; row++)
    for (int k = 0; k < kK; k++)
      for (int col = 0; col < kN; col++)
        if constexpr (__is_same(Number, double))
          d[row * kN + col] = __builtin_fma(a[row * kK + k], b[k * kN + col], d[row * kN + col]);
        else
          d[row * kN + col] += Number(a[row * kK + k]) * Number(b[k * kN + col]);
  for (int e = 0; e < kM * kN; e++) {
    if constexpr (kSaturate) {
      if (d[e] > 0x7fffffff) d[e] = 0x7fffffff;
      if (d[e] < -0x7fffffff - 1) d[e] = -0x7fffffff - 1;
    }
    typename PartD::Kept value = PartD::Element::make(typename PartD::Element::Number(d[e]));
    __builtin_memcpy((char *)((WmmaOperands *)lanes[e / PartD::count])->d +
                         e % PartD::count * int(sizeof value),
                     &value, sizeof value);
  }
  if constexpr (sizeof(typename PartA::Kept) <= 4)
    cusim_count_flops(sizeof(typename PartA::Kept) == 1   ? CusimFlopsMma8
                      : sizeof(typename PartA::Kept) == 2 ? CusimFlopsMma16
                                                          : CusimFlopsMmaTf32,
                      2ll * kM * kN * kK);
}

// d = a * b + c, of all lanes of the warp.
template <class PartA, class PartB, class PartC, class PartD, int kM, int kN, int kK,
          bool kSaturate = false>
CUSIM_FN void wmma(void *d, const void *a, const void *b, const void *c) {
  WmmaOperands operands{d, a, b, c};
  cusim_meet(0xffffffffu, wmma_work<PartA, PartB, PartC, PartD, kM, kN, kK, kSaturate>, &operands);
}

} // namespace cusim

#endif
