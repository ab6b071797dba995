// tsan_abi.c: the functions that -fsanitize=thread and -fsanitize=alignment make a kernel call. GCC
// and Clang share these interfaces; here they lead to reports instead of to a run-time library.
#include "sim/check/quick.h"

#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static inline void access_kind(const void *address, int bytes, bool writes, AccessKind kind,
                               const void *pc) {
  if (cusim_self) trace_access(fiber_running(), (uintptr_t)address, bytes, writes, kind, pc);
}

static inline void access(const void *address, int bytes, bool writes, const void *pc) {
  access_kind(address, bytes, writes, AccessPlain, pc);
}

static inline void access_volatile(const void *address, int bytes, bool writes, const void *pc) {
  access_kind(address, bytes, writes, AccessVolatile, pc);
}

static inline void access_volatile_aligned(const void *address, int bytes, bool writes,
                                           const void *pc) {
  if (cusim_self && (uintptr_t)address % (unsigned)bytes) fault_misaligned(address, bytes, pc);
  access_volatile(address, bytes, writes, pc);
}

#define PC __builtin_return_address(0)
#define ACCESS(name, access, bytes, writes)                                                        \
  EXPORT void __tsan_##name(void *address);                                                        \
  EXPORT void __tsan_##name(void *address) {                                                       \
    access(address, bytes, writes, PC);                                                            \
  }
// An access that the compiler assumes to be aligned, as all in CUDA C++. NOTE: the slow path is a
// separate function, so that the fast path saves no registers.
#define ALIGNED(name, n, writes)                                                                   \
  static __attribute__((noinline)) void look_##name(uintptr_t address, const void *pc) {           \
    if (access_quick(address, n, writes, pc)) return;                                              \
    if (address % n) fault_misaligned((void *)address, n, pc);                                     \
    trace_access(fiber_running(), address, n, writes, AccessPlain, pc);                            \
  }                                                                                                \
  EXPORT void __tsan_##name(void *address);                                                        \
  EXPORT void __tsan_##name(void *address) {                                                       \
    if (cusim_self && !access_plain((uintptr_t)address, n, writes, PC))                            \
      look_##name((uintptr_t)address, PC);                                                         \
  }
#define SIZE(n)                                                                                    \
  ALIGNED(read##n, n, false)                                                                       \
  ALIGNED(write##n, n, true)                                                                       \
  ACCESS(unaligned_read##n, access, n, false)                                                      \
  ACCESS(unaligned_write##n, access, n, true)                                                      \
  ACCESS(volatile_read##n, access_volatile_aligned, n, false)                                      \
  ACCESS(volatile_write##n, access_volatile_aligned, n, true)                                      \
  ACCESS(unaligned_volatile_read##n, access_volatile, n, false)                                    \
  ACCESS(unaligned_volatile_write##n, access_volatile, n, true)
SIZE(1)
SIZE(2)
SIZE(4)
SIZE(8)
SIZE(16)

#define NOTHING(name, params)                                                                      \
  EXPORT void name params;                                                                         \
  EXPORT void name params {}
NOTHING(__tsan_init, (void))
NOTHING(__tsan_func_exit, (void))
EXPORT void __tsan_func_entry(void *pc);
EXPORT void __tsan_func_entry(void *pc) {
  (void)pc;
}

// A pointer to a class's virtual functions; its value does not matter here.
EXPORT void __tsan_vptr_update(void *address, void *value);
EXPORT void __tsan_vptr_update(void *address, void *value) {
  (void)value;
  access(address, sizeof value, true, PC);
}
EXPORT void __tsan_vptr_read(void *address);
EXPORT void __tsan_vptr_read(void *address) {
  access(address, sizeof address, false, PC);
}

static void range(const void *address, size_t bytes, bool writes, const void *pc) {
  for (size_t i = 0; i < bytes; i += 16)
    access_kind((const char *)address + i, (int)(bytes - i < 16 ? bytes - i : 16), writes,
                AccessMove, pc);
}

EXPORT void __tsan_read_range(void *address, size_t bytes);
EXPORT void __tsan_read_range(void *address, size_t bytes) {
  range(address, bytes, false, PC);
}
EXPORT void __tsan_write_range(void *address, size_t bytes);
EXPORT void __tsan_write_range(void *address, size_t bytes) {
  range(address, bytes, true, PC);
}

// As __tsan_ by a kernel that was compiled so; as __wrap_ by Clang's plain calls (host_compiler.c).
#define MOVE(prefix, name)                                                                         \
  EXPORT void *prefix##name(void *to, const void *from, size_t bytes);                             \
  EXPORT void *prefix##name(void *to, const void *from, size_t bytes) {                            \
    range(from, bytes, false, PC);                                                                 \
    range(to, bytes, true, PC);                                                                    \
    return name(to, from, bytes);                                                                  \
  }
#define FILL(prefix)                                                                               \
  EXPORT void *prefix##memset(void *to, int value, size_t bytes);                                  \
  EXPORT void *prefix##memset(void *to, int value, size_t bytes) {                                 \
    range(to, bytes, true, PC);                                                                    \
    return memset(to, value, bytes);                                                               \
  }
MOVE(__tsan_, memcpy)
MOVE(__tsan_, memmove)
FILL(__tsan_)
MOVE(__wrap_, memcpy)
MOVE(__wrap_, memmove)
FILL(__wrap_)

// ---- atomics ------------------------------------------------------------------------------------

static inline void atomic(const volatile void *address, int bytes, bool writes, const void *pc) {
  if (cusim_self) access_atomic((uintptr_t)address, bytes, writes, AccessAtomic, pc);
}

// NOTE: cusim_atomic.h builds other operations from a weak compare-and-swap.
static inline void compare(const volatile void *address, int bytes, const void *pc) {
  if (cusim_self) access_atomic((uintptr_t)address, bytes, true, AccessCompare, pc);
}

#define FETCH(T, bits, name, builtin)                                                              \
  EXPORT T __tsan_atomic##bits##_##name(volatile T *p, T v, int order);                            \
  EXPORT T __tsan_atomic##bits##_##name(volatile T *p, T v, int order) {                           \
    (void)order;                                                                                   \
    atomic(p, bits / 8, true, PC);                                                                 \
    return builtin(p, v, __ATOMIC_SEQ_CST);                                                        \
  }
#define COMPARE(T, bits, name, announce)                                                           \
  EXPORT int __tsan_atomic##bits##_##name(volatile T *p, T *e, T v, int order, int failed);        \
  EXPORT int __tsan_atomic##bits##_##name(volatile T *p, T *e, T v, int order, int failed) {       \
    (void)order, (void)failed;                                                                     \
    announce;                                                                                      \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
  }
#define COMPARE_VALUE(T, bits) /* Clang's */                                                       \
  EXPORT T __tsan_atomic##bits##_compare_exchange_val(volatile T *p, T e, T v, int order, int no); \
  EXPORT T __tsan_atomic##bits##_compare_exchange_val(volatile T *p, T e, T v, int order,          \
                                                      int no) {                                    \
    (void)order, (void)no;                                                                         \
    compare(p, bits / 8, PC);                                                                      \
    __atomic_compare_exchange_n(p, &e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
    return e;                                                                                      \
  }
#define ATOMIC(T, bits)                                                                            \
  FETCH(T, bits, exchange, __atomic_exchange_n)                                                    \
  FETCH(T, bits, fetch_add, __atomic_fetch_add)                                                    \
  FETCH(T, bits, fetch_sub, __atomic_fetch_sub)                                                    \
  FETCH(T, bits, fetch_and, __atomic_fetch_and)                                                    \
  FETCH(T, bits, fetch_or, __atomic_fetch_or)                                                      \
  FETCH(T, bits, fetch_xor, __atomic_fetch_xor)                                                    \
  COMPARE(T, bits, compare_exchange_strong, compare(p, bits / 8, PC))                              \
  COMPARE(T, bits, compare_exchange_weak, atomic(p, bits / 8, true, PC))                           \
  COMPARE_VALUE(T, bits)                                                                           \
  EXPORT T __tsan_atomic##bits##_load(const volatile T *p, int order);                             \
  EXPORT T __tsan_atomic##bits##_load(const volatile T *p, int order) {                            \
    (void)order;                                                                                   \
    atomic(p, bits / 8, false, PC);                                                                \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                \
  EXPORT void __tsan_atomic##bits##_store(volatile T *p, T v, int order);                          \
  EXPORT void __tsan_atomic##bits##_store(volatile T *p, T v, int order) {                         \
    (void)order;                                                                                   \
    atomic(p, bits / 8, true, PC);                                                                 \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                      \
  }
ATOMIC(uint8_t, 8)
ATOMIC(uint16_t, 16)
ATOMIC(uint32_t, 32)
ATOMIC(uint64_t, 64)

EXPORT void __tsan_atomic_thread_fence(int order);
EXPORT void __tsan_atomic_thread_fence(int order) {
  (void)order;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
EXPORT void __tsan_atomic_signal_fence(int order);
EXPORT void __tsan_atomic_signal_fence(int order) {
  (void)order;
}

// ---- alignment ----------------------------------------------------------------------------------

// Called by -fsanitize=alignment for an access whose type requires more alignment than its address
// has.
typedef struct Mismatch {
  const void *file;
  uint32_t line, column;
  const void *type;
  unsigned char log_alignment, kind;
} Mismatch;

enum { kLoad = 0, kStore = 1 };

// A whole object is moved: a GPU moves a vector at once. Its members are separate scalars, and may
// be misaligned as such.
EXPORT void __ubsan_handle_type_mismatch_v1(const Mismatch *mismatch, const void *address);
EXPORT void __ubsan_handle_type_mismatch_v1(const Mismatch *mismatch, const void *address) {
  int alignment = 1 << mismatch->log_alignment;
  bool moved = mismatch->kind == kLoad || mismatch->kind == kStore;
  if (cusim_self && moved && (uintptr_t)address % (unsigned)alignment)
    fault_misaligned(address, alignment, PC);
}
