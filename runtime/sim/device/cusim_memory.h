// cusim_memory.h: loads and stores with cache hints, which have no effect here; copies and fills.
#ifndef CUSIM_MEMORY_H
#define CUSIM_MEMORY_H

template <class T> CUSIM_FN T __ldg(const T *p) { return *p; }
template <class T> CUSIM_FN T __ldcg(const T *p) { return *p; }
template <class T> CUSIM_FN T __ldcs(const T *p) { return *p; }
template <class T> CUSIM_FN void __stcg(T *p, T v) { *p = v; }
template <class T> CUSIM_FN void __stcs(T *p, T v) { *p = v; }
template <class T> CUSIM_FN T __ldca(const T *p) { return *p; }
template <class T> CUSIM_FN T __ldlu(const T *p) { return *p; }
template <class T> CUSIM_FN T __ldcv(const T *p) { // read anew
  if constexpr (__is_class(T)) {
    __asm__ volatile("" ::: "memory");
    return *p;
  } else {
    return *const_cast<const volatile T *>(p);
  }
}
template <class T> CUSIM_FN void __stwb(T *p, T v) { *p = v; }
template <class T> CUSIM_FN void __stwt(T *p, T v) { *p = v; }
#define CUSIM_SPACE(name) /* all addresses are generic */                                          \
  CUSIM_FN size_t __cvta_generic_to_##name(const void *p) { return size_t(p); }                    \
  CUSIM_FN void *__cvta_##name##_to_generic(size_t address) { return (void *)address; }
CUSIM_SPACE(shared) CUSIM_SPACE(global) CUSIM_SPACE(local) CUSIM_SPACE(constant)
#undef CUSIM_SPACE

// Templates, so that a system header's functions of the same name are preferred. Traced as a whole
// range, in the caller's name.
#if CUSIM_TRACE
extern "C" void *__tsan_memcpy(void *, const void *, size_t);
extern "C" void *__tsan_memmove(void *, const void *, size_t);
extern "C" void *__tsan_memset(void *, int, size_t);
#define CUSIM_BYTES(name) __tsan_##name
#else
#define CUSIM_BYTES(name) __builtin_##name
#endif
template <class = void> CUSIM_FN void *memcpy(void *to, const void *from, size_t bytes) {
  return CUSIM_BYTES(memcpy)(to, from, bytes);
}
template <class = void> CUSIM_FN void *memmove(void *to, const void *from, size_t bytes) {
  return CUSIM_BYTES(memmove)(to, from, bytes);
}
template <class = void> CUSIM_FN void *memset(void *to, int value, size_t bytes) {
  return CUSIM_BYTES(memset)(to, value, bytes);
}
#undef CUSIM_BYTES

#endif
