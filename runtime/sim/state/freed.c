// freed.c: the allocations freed last. While checks are on, their addresses stay reserved and
// unmapped, so that an access to one faults and is reported as use after free.
#include "sim/state/state.h"

#include <sys/mman.h>

enum { kKept = 256 };
static const size_t kMostBytes = (size_t)1 << 38; // of addresses

static Allocation kept[kKept]; // a ring
static int first, count;
static size_t bytes;

static void let_go(void) {
  munmap(kept[first].map, kept[first].map_bytes);
  bytes -= kept[first].map_bytes;
  first = (first + 1) % kKept;
  count--;
}

void freed_keep(const Allocation *a) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (!sim_settings()->basic || a->map_bytes > kMostBytes / 4 ||
      mmap(a->map, a->map_bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED) {
    munmap(a->map, a->map_bytes);
    return;
  }
  while (count && (count == kKept || bytes + a->map_bytes > kMostBytes)) let_go();
  kept[(first + count++) % kKept] = *a;
  bytes += a->map_bytes;
}

const Allocation *freed_find(uintptr_t address) {
  for (int i = count - 1; i >= 0; i--) {
    const Allocation *a = &kept[(first + i) % kKept];
    if (address - (uintptr_t)a->map < a->map_bytes) return a;
  }
  return NULL;
}

bool freed_drop(void) {
  bool any = count > 0;
  while (count) let_go();
  return any;
}
