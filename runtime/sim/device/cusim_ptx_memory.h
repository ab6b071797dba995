// cusim_ptx_memory.h: loads, stores and atomics of PTX; each announces itself if it is traced.
#ifndef CUSIM_PTX_MEMORY_H
#define CUSIM_PTX_MEMORY_H

// Own: private to the thread, never traced. Local: only bounds are checked.
enum x_access { Plain, Volatile, Atomic, Constant, Own, Compares, Local };

template <class T, int N> struct alignas(N * sizeof(T) > 16 ? 16 : N * sizeof(T)) x_vector { T v[N]; };

template <class T> CUSIM_FN void x_watch(const void *p, int kind, bool writes) {
  constexpr int kBytes = int(sizeof(T)), kAlign = kBytes > 16 ? 16 : kBytes;
  if (__builtin_expect(size_t(p) % kAlign, 0)) cusim_misaligned(p, kAlign);
  if (CUSIM_TRACE && kind == Local)
    cusim_watch_local(p, kBytes, writes);
  else if (CUSIM_TRACE && kind != Own)
    cusim_watch(p, kBytes, (writes ? CusimWrites : 0) | (kind == Volatile ? CusimVolatile : 0) |
                               (kind == Atomic ? CusimAtomic : 0) |
                               (kind == Compares ? CusimCompares : 0));
}

struct x_local : CusimLocal { // as long as its function runs
  x_local(const u8 *p, u64 bytes) : CusimLocal{cusim_self->locals, p, p + bytes} {
    cusim_self->locals = this;
  }
  ~x_local() { cusim_self->locals = before; }
};

// Sixteen aligned bytes in one access, which today's processors make whole.
typedef u64 x_sixteen __attribute__((vector_size(16), may_alias));

// NOTE: a thread that spins on a flag yields before it reads what others published.
template <class T, int kKind> CUSIM_FN T x_ld(const u8 *p) {
  if constexpr (kKind == Volatile || kKind == Atomic) cusim_yield();
  x_watch<T>(p, kKind, false);
  T value;
  if constexpr (kKind == Volatile || kKind == Atomic) {
    if constexpr (sizeof(T) <= 8) {
      __atomic_load((const T *)p, &value, __ATOMIC_ACQUIRE);
      return value;
    } else if constexpr (sizeof(T) == 16) {
      x_sixteen whole = *(const volatile x_sixteen *)p;
      __atomic_thread_fence(__ATOMIC_ACQUIRE);
      return __builtin_bit_cast(T, whole);
    }
  }
  __builtin_memcpy(&value, p, sizeof value);
  return value;
}
template <int kKind, class T> CUSIM_FN void x_st(u8 *p, T value) {
  x_watch<T>(p, kKind, true);
  constexpr bool kWhole = kKind == Volatile || kKind == Atomic;
  if constexpr (kWhole && sizeof(T) <= 8) {
    __atomic_store((T *)p, &value, __ATOMIC_RELEASE);
  } else if constexpr (kWhole && sizeof(T) == 16) {
    __atomic_thread_fence(__ATOMIC_RELEASE);
    *(volatile x_sixteen *)p = __builtin_bit_cast(x_sixteen, value);
  } else
    __builtin_memcpy(p, &value, sizeof value);
}

// *p = f(*p) atomically; without a change a read, most likely by a spinning loop.
template <class T, class F> CUSIM_FN T x_update(u8 *at, F f) {
  T *p = (T *)at, old, desired;
  x_watch<T>(at, Atomic, true);
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do desired = f(old);
  while (!__atomic_compare_exchange(p, &old, &desired, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  if (__builtin_memcmp(&old, &desired, sizeof old) == 0) cusim_yield();
  return old;
}
CUSIM_FN void x_atom_vector(const u8 *p, int bytes) {
  if (size_t(p) % unsigned(bytes)) cusim_misaligned(p, bytes);
}
template <class T> CUSIM_FN T x_sum(T a, T b) {
  if constexpr (__is_class(T)) return x_add(a, b);
  else if constexpr (T(0.5f) != T(0)) return x_add(a, b);
  else return T(a + b);
}
// NOTE: red.add.f32 and atom.add.f32 flush subnormals in global memory on a GPU; not here.
template <class T> CUSIM_FN T x_atom_add(u8 *p, T v) {
  return x_update<T>(p, [v](T old) { return x_sum(old, v); });
}
template <class T> CUSIM_FN T x_atom_min(u8 *p, T v) {
  return x_update<T>(p, [v](T old) { return x_min(old, v); });
}
template <class T> CUSIM_FN T x_atom_max(u8 *p, T v) {
  return x_update<T>(p, [v](T old) { return x_max(old, v); });
}
template <class T> CUSIM_FN T x_atom_and(u8 *p, T v) {
  return x_update<T>(p, [v](T old) { return T(old & v); });
}
template <class T> CUSIM_FN T x_atom_or(u8 *p, T v) {
  return x_update<T>(p, [v](T old) { return T(old | v); });
}
template <class T> CUSIM_FN T x_atom_xor(u8 *p, T v) {
  return x_update<T>(p, [v](T old) { return T(old ^ v); });
}
template <class T> CUSIM_FN T x_atom_inc(u8 *p, T most) {
  return x_update<T>(p, [most](T old) { return old >= most ? T(0) : T(old + 1); });
}
template <class T> CUSIM_FN T x_atom_dec(u8 *p, T most) {
  return x_update<T>(p, [most](T old) { return old == 0 || old > most ? most : T(old - 1); });
}
// NOTE: for 128 bits the compilers' __atomic functions need a library; __sync is an instruction.
CUSIM_FN b128 x_swap(u8 *p, b128 expected, b128 desired) {
#if defined(__x86_64__)
  return __sync_val_compare_and_swap((b128 *)p, expected, desired);
#elif defined(__aarch64__)
  u64 low, high;
  u32 failed;
  __asm__ volatile("1: ldaxp %0, %1, [%3]\n cmp %0, %4\n ccmp %1, %5, #0, eq\n b.ne 2f\n"
                   " stlxp %w2, %6, %7, [%3]\n cbnz %w2, 1b\n b 3f\n"
                   "2: stlxp %w2, %0, %1, [%3]\n cbnz %w2, 1b\n3:"
                   : "=&r"(low), "=&r"(high), "=&r"(failed)
                   : "r"(p), "r"(u64(expected)), "r"(u64(expected >> 64)), "r"(u64(desired)),
                     "r"(u64(desired >> 64))
                   : "cc", "memory");
  return b128(high) << 64 | low;
#else
#error "no exchange of 128 bits on this host"
#endif
}
CUSIM_FN b128 x_atom_cas(u8 *p, b128 expected, b128 desired) {
  x_watch<b128>(p, Compares, true);
  b128 old = x_swap(p, expected, desired);
  cusim_yield();
  return old;
}
CUSIM_FN b128 x_atom_exch(u8 *p, b128 v) {
  x_watch<b128>(p, Atomic, true);
  b128 old = 0;
  for (b128 seen; (seen = x_swap(p, old, v)) != old;) old = seen;
  cusim_yield();
  return old;
}
template <class T> CUSIM_FN T x_atom_exch(u8 *p, T v) {
  T old = x_update<T>(p, [v](T) { return v; });
  cusim_yield();
  return old;
}
template <class T> CUSIM_FN T x_atom_cas(u8 *p, T expected, T desired) {
  x_watch<T>(p, Compares, true);
  __atomic_compare_exchange((T *)p, &expected, &desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  cusim_yield();
  return expected;
}

// ---- spaces -------------------------------------------------------------------------------------

CUSIM_FN bool x_isspacep_shared(const u8 *p) {
  return size_t(p - cusim_self->smem + 1024) < size_t(cusim_self->smem_bytes + 1024);
}
CUSIM_FN bool x_isspacep_local(const u8 *p) {
  u8 here;
  return p >= &here && p < cusim_self->stack_end;
}
CUSIM_FN bool x_isspacep_cluster(const u8 *p);
// Constant memory is in a separate section; the linker defines its bounds if it exists.
#define X_CONST __attribute__((section("cusim_const")))
extern "C" __attribute__((weak, visibility("hidden"))) u8 __start_cusim_const[],
    __stop_cusim_const[];
CUSIM_FN bool x_isspacep_const(const u8 *p) {
  return p >= __start_cusim_const && p < __stop_cusim_const;
}
CUSIM_FN bool x_isspacep_global(const u8 *p) {
  return !x_isspacep_cluster(p) && !x_isspacep_local(p) && !x_isspacep_const(p);
}
CUSIM_FN bool x_isspacep_param(const u8 *) { return false; }

#endif
