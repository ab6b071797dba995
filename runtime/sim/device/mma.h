// mma.h: nvcuda::wmma: warp-wide matrix products of fp16, bf16, tf32, double and integers of 8
// bits, 4 bits and 1 bit.
#ifndef CUSIM_MMA_H
#define CUSIM_MMA_H

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cusim_mma_any.h"
#include "cusim_wmma.h"

namespace nvcuda {
namespace wmma {

struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 { // the upper 19 bits count
  unsigned bits;
};
} // namespace precision

namespace experimental {
namespace precision {
struct s4;
struct u4;
struct b1;
} // namespace precision
enum bmmaBitOp { bmmaBitOpXOR = 1, bmmaBitOpAND = 2 };
enum bmmaAccumulateOp { bmmaAccumulateOpPOPC = 1 };
} // namespace experimental

// Storage type of an element, and its type in cusim::wmma.
template <class T> struct Kept { using Storage = T; };
template <> struct Kept<precision::tf32> { using Storage = float; };

// True for supported types and shapes: A's and B's type, shape.
template <class T> constexpr bool is_shape(int m, int n, int k) {
  if (__is_same(T, precision::tf32)) return m == 16 && n == 16 && k == 8;
  if (__is_same(T, double)) return m == 8 && n == 8 && k == 4;
  bool known = __is_same(T, __half) || __is_same(T, __nv_bfloat16) || __is_same(T, signed char) ||
               __is_same(T, unsigned char);
  return known && k == 16 && m * n == 256 && (m == 16 || m == 32 || m == 8);
}
template <class T> constexpr bool is_sum(int m, int n, int k) {
  if (__is_same(T, double)) return is_shape<double>(m, n, k);
  bool tf32 = __is_same(T, float) && is_shape<precision::tf32>(m, n, k);
  bool known = __is_same(T, __half) || __is_same(T, float) || __is_same(T, int);
  bool narrow = __is_same(T, int) && m == 8 && n == 8 && (k == 32 || k == 128);
  return tf32 || narrow || (known && is_shape<__half>(m, n, k));
}

// kRows x kCols of a use, kEach elements in a lane.
template <class T, int kRows, int kCols, int kEach> struct Part {
  using element_type = T;
  using storage_element_type = typename Kept<T>::Storage;
  static constexpr int num_elements = kEach, num_storage_elements = kEach;
  static constexpr int rows = kRows, cols = kCols;
  storage_element_type x[kEach];
};
constexpr int each(bool half, int places) {
  return half ? 16 : places / 32;
}

template <class Use, int m, int n, int k, class T, class Layout = void> class fragment;
template <int m, int n, int k, class T, class Layout>
class fragment<matrix_a, m, n, k, T, Layout>
    : public Part<T, m, k, each(__is_same(T, __half), m *k)> {
  static_assert(is_shape<T>(m, n, k), "wmma: no fragment of this type and shape");
};
template <int m, int n, int k, class T, class Layout>
class fragment<matrix_b, m, n, k, T, Layout>
    : public Part<T, k, n, each(__is_same(T, __half), k *n)> {
  static_assert(is_shape<T>(m, n, k), "wmma: no fragment of this type and shape");
};
template <int m, int n, int k, class T>
class fragment<accumulator, m, n, k, T, void> : public Part<T, m, n, m * n / 32> {
  static_assert(is_sum<T>(m, n, k), "wmma: no fragment of this type and shape");
};

CUSIM_FN float __float_to_tf32(float x) { // half a unit more in magnitude rounds ties away
  unsigned bits = __float_as_uint(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  return __uint_as_float((bits + 0x1000u) & 0xffffe000u);
}

template <class T, int kRows, int kCols, int kEach>
CUSIM_FN void fill_fragment(Part<T, kRows, kCols, kEach> &f,
                            const typename Kept<T>::Storage &value) {
  for (int i = 0; i < kEach; i++) f.x[i] = value;
}

template <class T, int kRows, int kCols, int kEach>
CUSIM_FN void load(Part<T, kRows, kCols, kEach> &f, const typename Kept<T>::Storage *from,
                   unsigned stride, bool columns) {
  for (int i = 0; i < kEach; i++) {
    unsigned e = unsigned(cusim::wmma_element<kRows, kCols>(cusim::lane(), kEach, i));
    unsigned row = e / kCols, col = e % kCols;
    f.x[i] = from[columns ? col * stride + row : row * stride + col];
  }
  cusim_meet(0xffffffffu, 0, 0);
}

// A and B have the layout of their type in memory; an accumulator that of the call. Strides in
// elements.
template <class Use, int m, int n, int k, class T, class Layout>
CUSIM_FN void load_matrix_sync(fragment<Use, m, n, k, T, Layout> &f,
                               const typename Kept<T>::Storage *from, unsigned stride) {
  load(f, from, stride, __is_same(Layout, col_major));
}
template <int m, int n, int k, class T>
CUSIM_FN void load_matrix_sync(fragment<accumulator, m, n, k, T> &f, const T *from, unsigned stride,
                               layout_t layout) {
  load(f, from, stride, layout == mem_col_major);
}
template <int m, int n, int k, class T>
CUSIM_FN void store_matrix_sync(T *to, const fragment<accumulator, m, n, k, T> &f, unsigned stride,
                                layout_t layout) {
  for (int i = 0; i < f.num_elements; i++) {
    unsigned e = unsigned(cusim::wmma_element<m, n>(cusim::lane(), f.num_elements, i));
    unsigned row = e / n, col = e % n;
    to[layout == mem_col_major ? col * stride + row : row * stride + col] = f.x[i];
  }
  cusim_meet(0xffffffffu, 0, 0);
}

// d = a * b + c. Saturated: sums of whole numbers stop at the ends of int.
template <int m, int n, int k, class T, class Other, class LayoutA, class LayoutB, class From,
          class To>
CUSIM_FN void mma_sync(fragment<accumulator, m, n, k, To> &d,
                       const fragment<matrix_a, m, n, k, T, LayoutA> &a,
                       const fragment<matrix_b, m, n, k, Other, LayoutB> &b,
                       const fragment<accumulator, m, n, k, From> &c, bool saturate = false) {
  constexpr bool kWhole = sizeof(T) == 1, kHalf = __is_same(T, __half);
  static_assert(__is_same(T, Other), "wmma: a and b are of one type");
  static_assert(kWhole              ? __is_same(From, int) && __is_same(To, int)
                : sizeof(From) == 8 ? __is_same(T, double) && __is_same(To, double)
                : kHalf             ? !__is_same(From, int) && !__is_same(To, int)
                                    : __is_same(From, float) && __is_same(To, float),
                "wmma: no product of these types");
  using PartA = cusim::WmmaPart<T, fragment<matrix_a, m, n, k, T, LayoutA>::num_elements>;
  using PartB = cusim::WmmaPart<Other, fragment<matrix_b, m, n, k, Other, LayoutB>::num_elements>;
  using PartC = cusim::WmmaPart<From, fragment<accumulator, m, n, k, From>::num_elements>;
  using PartD = cusim::WmmaPart<To, fragment<accumulator, m, n, k, To>::num_elements>;
  if (kWhole && saturate)
    cusim::wmma<PartA, PartB, PartC, PartD, m, n, k, kWhole>(d.x, a.x, b.x, c.x);
  else
    cusim::wmma<PartA, PartB, PartC, PartD, m, n, k>(d.x, a.x, b.x, c.x);
}

// ---- integers of 4 bits and of 1 ----------------------------------------------------------------

// A lane has one word: A is stored by rows, B by columns, four words each.
template <class T> struct Narrow;
template <> struct Narrow<experimental::precision::s4> {
  using Storage = int;
  using Element = cusim::S4;
  static constexpr int kElements = 8;
};
template <> struct Narrow<experimental::precision::u4> {
  using Storage = unsigned;
  using Element = cusim::U4;
  static constexpr int kElements = 8;
};
template <> struct Narrow<experimental::precision::b1> {
  using Storage = unsigned;
  using Element = cusim::B1;
  static constexpr int kElements = 32;
};
template <class T> struct Word {
  using element_type = T;
  using storage_element_type = typename Narrow<T>::Storage;
  static constexpr int num_elements = Narrow<T>::kElements, num_storage_elements = 1;
  storage_element_type x[1];
};
#define CUSIM_NARROW(k, T)                                                                         \
  template <>                                                                                      \
  class fragment<matrix_a, 8, 8, k, experimental::precision::T, row_major>                         \
      : public Word<experimental::precision::T> {};                                                \
  template <>                                                                                      \
  class fragment<matrix_b, 8, 8, k, experimental::precision::T, col_major>                         \
      : public Word<experimental::precision::T> {};
CUSIM_NARROW(32, s4)
CUSIM_NARROW(32, u4)
CUSIM_NARROW(128, b1)
#undef CUSIM_NARROW

template <class T>
CUSIM_FN void fill_fragment(Word<T> &f, const typename Narrow<T>::Storage &value) {
  f.x[0] = value;
}

template <class Use, int k, class T, class Layout, int kElements = Narrow<T>::kElements>
CUSIM_FN void load_matrix_sync(fragment<Use, 8, 8, k, T, Layout> &f, const void *from,
                               unsigned stride) {
  using Storage = typename Narrow<T>::Storage;
  int lane = cusim::lane();
  f.x[0] = ((const Storage *)from)[unsigned(lane / 4) * (stride / kElements) + unsigned(lane % 4)];
  cusim_meet(0xffffffffu, 0, 0);
}

template <class T, class Sum, class Product>
CUSIM_FN void multiply_words(int *d, const void *a, const void *b, const int *c) {
  using Element = typename Narrow<T>::Element;
  cusim::mma_any<Element, Element, Sum, Sum, 8, 4 * Element::kElements, Product>(d, a, b, c);
}

template <class T>
CUSIM_FN void mma_sync(fragment<accumulator, 8, 8, 32, int> &d,
                       const fragment<matrix_a, 8, 8, 32, T, row_major> &a,
                       const fragment<matrix_b, 8, 8, 32, T, col_major> &b,
                       const fragment<accumulator, 8, 8, 32, int> &c, bool saturate = false) {
  if (saturate)
    multiply_words<T, cusim::SumInt<true>, cusim::TimesPlus>(d.x, a.x, b.x, c.x);
  else
    multiply_words<T, cusim::SumInt<false>, cusim::TimesPlus>(d.x, a.x, b.x, c.x);
}

// d = c + how many bits of a op b are set.
CUSIM_FN void
bmma_sync(fragment<accumulator, 8, 8, 128, int> &d,
          const fragment<matrix_a, 8, 8, 128, experimental::precision::b1, row_major> &a,
          const fragment<matrix_b, 8, 8, 128, experimental::precision::b1, col_major> &b,
          const fragment<accumulator, 8, 8, 128, int> &c,
          experimental::bmmaBitOp op = experimental::bmmaBitOpXOR,
          experimental::bmmaAccumulateOp = experimental::bmmaAccumulateOpPOPC) {
  using Sum = cusim::SumInt<false>;
  if (op == experimental::bmmaBitOpAND)
    multiply_words<experimental::precision::b1, Sum, cusim::AndCount>(d.x, a.x, b.x, c.x);
  else
    multiply_words<experimental::precision::b1, Sum, cusim::XorCount>(d.x, a.x, b.x, c.x);
}

} // namespace wmma
} // namespace nvcuda

namespace cusim {
template <> struct WmmaElement<__half> : WmmaPlain<__half, float> {};
template <> struct WmmaElement<__nv_bfloat16> : WmmaPlain<__nv_bfloat16, float> {};
template <> struct WmmaElement<nvcuda::wmma::precision::tf32> {
  using Number = float;
  static float get(nvcuda::wmma::precision::tf32 x) {
    return __uint_as_float(x.bits & 0xffffe000u);
  }
};
} // namespace cusim

#endif
