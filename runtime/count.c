// count.c: what libcusim counted while a kernel ran. A GPU's counters are a profiler's business.
#include <dlfcn.h>
#include <string.h>

#include "runtime.h"

// libcusim's struct of the same fields (runtime/sim/sim.h: KernelCounters), read whole.
typedef struct SimCounters {
  uint64_t launches, blocks, threads;
  uint64_t global_read, global_written, shared_read, shared_written;
  uint64_t flops[3];
  uint64_t barriers, meetings;
  uint64_t global_requests, global_sectors, global_ideal_sectors;
  uint64_t shared_requests, shared_wavefronts, bank_conflicts;
} SimCounters;

bool count_available(const Device *device) {
  return device->info.kind == DeviceSim && dlsym(device->library, "cusimKernelCounters");
}

int count_kernel(const Loaded *loaded, int kernel, KernelCounts *counts, Error *err) {
  CUresult (*read)(CUfunction, SimCounters *, size_t) = NULL;
  void *address = dlsym(loaded->device->library, "cusimKernelCounters");
  if (!address) return err_set(err, ExitNoDevice, "only libcusim counts; on a GPU use ncu");
  memcpy(&read, &address, sizeof address);
  SimCounters c;
  if (read(loaded->functions[kernel], &c, sizeof c))
    return err_set(err, ExitNoDevice, "libcusim has no counters of kernel %d", kernel);
  *counts = (KernelCounts){.launches = (int64_t)c.launches,
                           .bytes_read = (int64_t)c.global_read,
                           .bytes_written = (int64_t)c.global_written,
                           .requests = (int64_t)c.global_requests,
                           .sectors = (int64_t)c.global_sectors,
                           .ideal_sectors = (int64_t)c.global_ideal_sectors,
                           .shared_requests = (int64_t)c.shared_requests,
                           .bank_conflicts = (int64_t)c.bank_conflicts};
  return ExitOk;
}
