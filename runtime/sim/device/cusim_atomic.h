// cusim_atomic.h: CUDA's atomic functions: relaxed, on global and shared memory; return the old
// value.
#ifndef CUSIM_ATOMIC_H
#define CUSIM_ATOMIC_H

namespace cusim {

// Every atomic is of an address that its size divides.
template <class T> CUSIM_FN auto aligned(T *p) {
  if (size_t(p) % sizeof *p) cusim_misaligned(p, sizeof *p);
  return p;
}

#if CUSIM_TRACE // a compare-and-swap loop is traced as one access
#define CUSIM_ATOMIC_FN static __attribute__((noinline, no_sanitize("thread")))
CUSIM_FN void announce_atomic(const void *p, int bytes) {
  cusim_watch(p, bytes, CusimWrites | CusimAtomic);
}
#else
#define CUSIM_ATOMIC_FN CUSIM_FN
CUSIM_FN void announce_atomic(const void *, int) {}
#endif

template <class T, class F> CUSIM_ATOMIC_FN auto atomic_loop(T *p, F f, bool *same) {
  T old, desired;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do desired = f(old);
  while (!__atomic_compare_exchange(p, &old, &desired, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  *same = __builtin_memcmp(&old, &desired, sizeof old) == 0;
  return old;
}
#undef CUSIM_ATOMIC_FN

// *p = f(*p) atomically. Without a change it is a read, most likely by a spinning loop.
template <class T, class F> CUSIM_FN auto atomic_update(T *p, F f) {
  bool same;
  p = aligned(p);
  announce_atomic(p, sizeof *p);
  T old = atomic_loop(p, f, &same);
  if (same) cusim_yield();
  return old;
}

// The same with a host instruction.
template <class T> CUSIM_FN auto atomic_read_by(bool same, T old) {
  if (same) cusim_yield();
  return old;
}

} // namespace cusim

#define CUSIM_ATOMIC_INT(T)                                                                        \
  CUSIM_FN T atomicAdd(T *p, T v) {                                                                \
    p = cusim::aligned(p);                                                                         \
    return cusim::atomic_read_by(v == 0, __atomic_fetch_add(p, v, __ATOMIC_RELAXED));              \
  }                                                                                                \
  CUSIM_FN T atomicSub(T *p, T v) {                                                                \
    p = cusim::aligned(p);                                                                         \
    return cusim::atomic_read_by(v == 0, __atomic_fetch_sub(p, v, __ATOMIC_RELAXED));              \
  }                                                                                                \
  CUSIM_FN T atomicAnd(T *p, T v) {                                                                \
    return cusim::atomic_update(p, [v](T old) { return old & v; });                                \
  }                                                                                                \
  CUSIM_FN T atomicOr(T *p, T v) {                                                                 \
    return cusim::atomic_update(p, [v](T old) { return old | v; });                                \
  }                                                                                                \
  CUSIM_FN T atomicXor(T *p, T v) {                                                                \
    return cusim::atomic_update(p, [v](T old) { return old ^ v; });                                \
  }                                                                                                \
  CUSIM_FN T atomicMin(T *p, T v) {                                                                \
    return cusim::atomic_update(p, [v](T old) { return v < old ? v : old; });                      \
  }                                                                                                \
  CUSIM_FN T atomicMax(T *p, T v) {                                                                \
    return cusim::atomic_update(p, [v](T old) { return old < v ? v : old; });                      \
  }                                                                                                \
  CUSIM_FN T atomicExch(T *p, T v) {                                                               \
    p = cusim::aligned(p);                                                                         \
    T old = __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL);                                           \
    cusim_yield();                                                                                 \
    return old;                                                                                    \
  }                                                                                                \
  CUSIM_FN T atomicCAS(T *p, T expected, T desired) {                                              \
    p = cusim::aligned(p);                                                                         \
    __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); \
    cusim_yield();                                                                                 \
    return expected;                                                                               \
  }
CUSIM_ATOMIC_INT(int)
CUSIM_ATOMIC_INT(unsigned)
CUSIM_ATOMIC_INT(unsigned long long)
#undef CUSIM_ATOMIC_INT

// CUDA has these of signed 64 bits.
#define CUSIM_ATOMIC_LL(name, expression)                                                          \
  CUSIM_FN long long name(long long *p, long long v) {                                             \
    return cusim::atomic_update(p, [v](long long old) { return expression; });                     \
  }
CUSIM_ATOMIC_LL(atomicMin, v < old ? v : old)
CUSIM_ATOMIC_LL(atomicMax, old < v ? v : old)
CUSIM_ATOMIC_LL(atomicAnd, old & v)
CUSIM_ATOMIC_LL(atomicOr, old | v)
CUSIM_ATOMIC_LL(atomicXor, old ^ v)
#undef CUSIM_ATOMIC_LL

CUSIM_FN unsigned short atomicCAS(unsigned short *p, unsigned short expected,
                                  unsigned short desired) {
  p = cusim::aligned(p);
  __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  cusim_yield();
  return expected;
}
CUSIM_FN float atomicAdd(float *p, float v) {
  return cusim::atomic_update(p, [v](float old) { return old + v; });
}
CUSIM_FN double atomicAdd(double *p, double v) {
  return cusim::atomic_update(p, [v](double old) { return old + v; });
}
// Of vectors each element is one atomic.
CUSIM_FN float2 atomicAdd(float2 *p, float2 v) {
  p = cusim::aligned(p);
  return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)};
}
CUSIM_FN float4 atomicAdd(float4 *p, float4 v) {
  p = cusim::aligned(p);
  return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y), atomicAdd(&p->z, v.z),
          atomicAdd(&p->w, v.w)};
}
CUSIM_FN float atomicExch(float *p, float v) {
  float old;
  p = cusim::aligned(p);
  __atomic_exchange(p, &v, &old, __ATOMIC_ACQ_REL);
  cusim_yield();
  return old;
}
CUSIM_FN unsigned atomicInc(unsigned *p, unsigned most) {
  return cusim::atomic_update(p, [most](unsigned old) { return old >= most ? 0 : old + 1; });
}
CUSIM_FN unsigned atomicDec(unsigned *p, unsigned most) {
  return cusim::atomic_update(
      p, [most](unsigned old) { return old == 0 || old > most ? most : old - 1; });
}

// _block and _system variants: there is only one scope here.
#define CUSIM_SCOPED(name)                                                                         \
  template <class P, class... A> CUSIM_FN auto name##_block(P *p, A... v) {                        \
    return name(p, v...);                                                                          \
  }                                                                                                \
  template <class P, class... A> CUSIM_FN auto name##_system(P *p, A... v) {                       \
    return name(p, v...);                                                                          \
  }
CUSIM_SCOPED(atomicAdd)
CUSIM_SCOPED(atomicSub)
CUSIM_SCOPED(atomicMin) CUSIM_SCOPED(atomicMax) CUSIM_SCOPED(atomicAnd) CUSIM_SCOPED(atomicOr)
    CUSIM_SCOPED(atomicXor) CUSIM_SCOPED(atomicExch) CUSIM_SCOPED(atomicCAS) CUSIM_SCOPED(atomicInc)
        CUSIM_SCOPED(atomicDec)
#undef CUSIM_SCOPED

#endif
