// cusim_kernel.h: how libcusim calls a kernel: its parameters' sizes, entries that unpack them.
#ifndef CUSIM_KERNEL_H
#define CUSIM_KERNEL_H

namespace cusim {

template <int...> struct Indices {};
template <int N, int... I> struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <int... I> struct MakeIndices<0, I...> { using type = Indices<I...>; };

template <class T> struct NoReference { using type = T; };
template <class T> struct NoReference<T &> { using type = T *; };

// Offsets of parameters of these types in a buffer of all, and its size.
template <class... A> struct Offsets {
  unsigned at[sizeof...(A) + 1];
  constexpr Offsets() : at{} {
    const unsigned sizes[] = {unsigned(sizeof(A))..., 0}, aligns[] = {unsigned(alignof(A))..., 1};
    unsigned next = 0;
    for (unsigned i = 0; i <= sizeof...(A); i++) {
      next = (next + aligns[i] - 1) / aligns[i] * aligns[i];
      at[i] = next;
      next += sizes[i];
    }
  }
};

template <class... A> constexpr Offsets<A...> offsets_of{};

template <class F, F f> struct Describe;
template <class... A, void (*f)(A...)> struct Describe<void (*)(A...), f> {
  static constexpr auto symbol = f;
  // Reads of parameters are not checked.
  template <int... I>
  static __attribute__((no_sanitize("thread"))) void call(void *const *params, Indices<I...>) {
    f(*static_cast<A *>(params[I])...);
  }
  static __attribute__((no_sanitize("thread"))) void enter(void *const *params) {
    call(params, typename MakeIndices<sizeof...(A)>::type());
  }
  // NOTE: the asm keeps each thread's accesses separate: a fault's report names the thread.
  static void enter_all(void *const *params) {
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
  static constexpr CusimEntry loop = CUSIM_TRACE || CUSIM_COUNT ? CusimEntry(0) : enter_all;
  static constexpr unsigned sizes[sizeof...(A) + 1] = {unsigned(sizeof(A))..., 0};
  static constexpr const unsigned *offsets = offsets_of<A...>.at;
};

// A name expression of a variable: it only has a linker's name.
template <class T, T *p> struct Describe<T *, p> {
  static constexpr auto symbol = p;
  static constexpr CusimEntry enter = 0, loop = 0;
  static constexpr unsigned sizes[1] = {0};
  static constexpr const unsigned *offsets = offsets_of<>.at;
};

// __launch_bounds__(threads, blocks, blocks of a cluster), __maxnreg__(registers).
constexpr CusimLimits bounded(long long threads, long long blocks = 0, long long = 0) {
  return {int(threads), int(blocks), 0};
}
constexpr CusimLimits registers_bounded(long long registers) { return {0, 0, int(registers)}; }
// __cluster_dims__(x, y, z)
struct Clustered {
  unsigned x, y, z;
  constexpr Clustered(unsigned nx, unsigned ny = 1, unsigned nz = 1) : x(nx), y(ny), z(nz) {}
  constexpr CusimLimits with(CusimLimits l) const {
    return {l.threads, l.blocks, l.registers, {x, y, z}};
  }
};

// `extern __shared__ T name[]` outside a function.
template <class T> struct DynamicShared {
  operator T *() const { return reinterpret_cast<T *>(cusim_self->smem); }
  template <class I> T &operator[](I i) const { return reinterpret_cast<T *>(cusim_self->smem)[i]; }
};

} // namespace cusim

// Not the C library's: a fault in it would leave stdout locked. Returns the number of arguments.
template <class... A> CUSIM_FN int printf(const char *format, A... a) {
  if (!format) return -1;
  cusim_printf(format, a...);
  return sizeof...(A);
}
#undef assert
#define assert(condition)                                                                          \
  ((condition) ? (void)0 : cusim_assert_fail(#condition, __FILE__, __LINE__, __func__))
#define __trap() cusim_trap()
#define __brkpt() cusim_trap()
#define __nanosleep(ns) cusim_yield()
#define clock64() cusim_clock()
#define clock() ((int)cusim_clock())

#endif
