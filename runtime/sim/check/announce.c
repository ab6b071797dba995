// announce.c: accesses and operations that kernels and libcusim report explicitly because the
// compiler's instrumentation misses them or splits them.
#include "sim/check/quick.h"

#include <string.h>

void cusim_access(const void *address, int bytes, int writes) {
  if (sim_settings()->trace)
    trace_access(fiber_running(), (uintptr_t)address, bytes, writes != 0, AccessMove,
                 __builtin_return_address(0));
}

static void watch(uintptr_t address, int bytes, bool writes, AccessKind kind, const void *pc) {
  bool plain = kind == AccessPlain || kind == AccessMove, whole = !(bytes & (bytes - 1));
  if (plain && whole && access_quick(address, bytes, writes, pc)) return;
  if (kind == AccessAtomic || kind == AccessCompare)
    access_atomic(address, bytes, writes, kind, pc);
  else
    trace_access(fiber_running(), address, bytes, writes, kind, pc);
}

void cusim_watch(const void *address, int bytes, int how) {
  enum { kWidest = 16 };
  AccessKind kind = how & CusimCompares   ? AccessCompare
                    : how & CusimAtomic   ? AccessAtomic
                    : how & CusimVolatile ? AccessVolatile
                    : bytes > 8           ? AccessMove
                                          : AccessPlain;
  for (int i = 0; i < bytes; i += kWidest)
    watch((uintptr_t)address + (uintptr_t)i, bytes - i < kWidest ? bytes - i : kWidest,
          how & CusimWrites, kind, __builtin_return_address(0));
}

// NOTE: local memory is on the fiber's stack, next to the simulator's own data.
void cusim_watch_local(const void *address, int bytes, int writes) {
  const unsigned char *at = address;
  if (!sim_settings()->address) return;
  for (const CusimLocal *l = cusim_self->locals; l; l = l->before)
    if (at >= l->begin && at < l->end && bytes <= l->end - at) return;
  fault_raise(CUDA_ERROR_ILLEGAL_ADDRESS, __builtin_return_address(0),
              "%s of %d bytes at %p is outside of the thread's local variables",
              writes ? "write" : "read", bytes, address);
}

static void access_vector(const void *address, int bytes, bool writes, const void *pc) {
  enum { kWidest = 16 };
  for (int i = 0; i < bytes; i += kWidest)
    trace_access(fiber_running(), (uintptr_t)address + (uintptr_t)i,
                 bytes - i < kWidest ? bytes - i : kWidest, writes, AccessMove,
                 (const char *)pc + i);
}

void cusim_load(void *to, const void *from, int bytes) {
  access_vector(from, bytes, false, __builtin_return_address(0));
  memcpy(to, from, (size_t)bytes);
}

void cusim_store(void *to, const void *from, int bytes) {
  access_vector(to, bytes, true, __builtin_return_address(0));
  memcpy(to, from, (size_t)bytes);
}

// Memory that a copy or a fill of the host wrote.
void trace_host_write(uintptr_t address, size_t bytes) {
  const Allocation *a = memory_find(address);
  if (!a || !a->written || address < a->begin) return;
  size_t i = address - a->begin, end = i + bytes < a->bytes ? i + bytes : a->bytes;
  for (; i < end && i % 8; i++) a->written[i / 8] |= (uint8_t)(1u << i % 8);
  if (i < end) memset(a->written + i / 8, 0xff, (end - i) / 8);
  for (i = i < end ? i + (end - i) / 8 * 8 : end; i < end; i++)
    a->written[i / 8] |= (uint8_t)(1u << i % 8);
}

void cusim_count_flops(int kind, long long flops) {
  if (!sim_settings()->count) return;
  KernelCounters *counters = fiber_running()->block->launch->function->counters;
  __atomic_fetch_add(&counters->flops[kind], (uint64_t)flops, __ATOMIC_RELAXED);
}
