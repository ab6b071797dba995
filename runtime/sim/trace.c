// trace.c: counters of kernels, and the host services kernels call.
#include "sim/sim.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

long long cusim_clock(void) {
#if defined(__x86_64__)
  return (long long)__rdtsc();
#else
  return stream_now();
#endif
}

long long cusim_nanotime(void) { return stream_now(); }

void cusim_count_flops(int kind, long long flops) {
  if (!sim_settings()->count) return;
  KernelCounters *counters = fiber_running()->block->launch->function->counters;
  __atomic_fetch_add(&counters->flops[kind], (uint64_t)flops, __ATOMIC_RELAXED);
}
