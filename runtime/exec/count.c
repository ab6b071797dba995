// count.c: libcusim's counters of a kernel. On a GPU, use a profiler.
#include <dlfcn.h>
#include <string.h>

#include "exec/exec.h"
#include "sim/counters.h"

bool count_available(const Device *device) {
  return device->info.kind == DeviceSim && dlsym(device->library, "cusimKernelCounters");
}

static int64_t sum_flops(const KernelCounters *c) {
  uint64_t sum = c->flops[0] + c->flops[1] + c->flops[2];
  for (int width = 0; width < 3; width++)
    sum += c->ops[width][0] + c->ops[width][1] + 2 * c->ops[width][2] + c->ops[width][3];
  return (int64_t)sum;
}

int count_kernel(const Loaded *loaded, int kernel, KernelCounts *counts, Error *err) {
  CUresult (*read)(CUfunction, KernelCounters *, size_t) = NULL;
  void *address = dlsym(loaded->device->library, "cusimKernelCounters");
  if (!address) return err_set(err, ExitNoDevice, "only libcusim counts; on a GPU use ncu");
  memcpy(&read, &address, sizeof address);
  KernelCounters c;
  if (read(loaded->functions[kernel], &c, sizeof c))
    return err_set(err, ExitNoDevice, "libcusim has no counters of kernel %d", kernel);
  *counts = (KernelCounts){.launches = (int64_t)c.launches,
                           .bytes_read = (int64_t)c.global_read,
                           .bytes_written = (int64_t)c.global_written,
                           .distinct_bytes = (int64_t)(c.distinct_read + c.distinct_written),
                           .requests = (int64_t)c.global_requests,
                           .sectors = (int64_t)c.global_sectors,
                           .ideal_sectors = (int64_t)c.global_ideal_sectors,
                           .shared_requests = (int64_t)c.shared_requests,
                           .bank_conflicts = (int64_t)c.bank_conflicts,
                           .flops = sum_flops(&c),
                           .branches = (int64_t)c.branches,
                           .divergent_branches = (int64_t)c.divergent_branches};
  return ExitOk;
}
