// reading.c: shared memory that wgmma reads while in flight, for kernels
// from PTX (NNGEN_SIM_CHECK=race). libcusim executes a wgmma at once; a GPU reads its
// operands up to the wait.
//
// NOTE: it ends for every thread that is ordered after the wait of one thread of its warp group: on
// a GPU the warps end together, and CUTLASS releases a stage by one thread of each warp group.
#include "sim/check/clock.h"

#include <stdlib.h>

enum { kUnit = 16, kWaits = 8 };

typedef struct Wait { // groups up to `done` were waited for, first at the thread's clock
  unsigned done;
  uint32_t clock;
} Wait;

typedef struct Unit { // of shared memory
  unsigned group[kGroups]; // commit group (from 1 on) that reads it, by warp group; or 0
} Unit;

typedef struct Readings { // of a block
  Wait waits[kMaxThreads][kWaits]; // the last ones of each thread, at their number modulo kWaits
  unsigned nwaits[kMaxThreads];
  Unit units[];
} Readings;

void reading_forget(Block *block) {
  free(block->readings);
  block->readings = NULL;
}

static Block *owner(Block *block, uintptr_t address) {
  const Cluster *c = block->cluster;
  for (int r = 0; r < c->size && c->size > 1; r++)
    if (address - (uintptr_t)c->smem[r] < block->place.smem_bytes) return c->blocks[r];
  return block;
}

// The unit at the address, or NULL if not in the block's shared memory.
static Unit *unit_of(const Block *block, uintptr_t address) {
  size_t at = address - (uintptr_t)block->place.smem;
  return at < block->place.smem_bytes ? &block->readings->units[at / kUnit] : NULL;
}

void reading_add(Fiber *fiber, uintptr_t address, int bytes) {
  Block *block = fiber->block;
  if (!block->readings)
    block->readings = calloc(1, sizeof *block->readings +
                                    (block->place.smem_bytes / kUnit + 1) * sizeof(Unit));
  if (!block->readings)
    fault_raise(CUDA_ERROR_OUT_OF_MEMORY, NULL, "no memory for the race detector");
  for (int i = 0; i < bytes; i += kUnit) {
    Unit *unit = unit_of(block, address + (uintptr_t)i);
    if (unit) unit->group[fiber->self.linear / kGroupThreads] = fiber->self.product_groups + 1;
  }
}

void cusim_product_waited(void) {
  Fiber *fiber = fiber_running();
  unsigned thread = fiber->self.linear;
  Readings *r = fiber->block->readings;
  if (!r) return;
  Wait *last = &r->waits[thread][(r->nwaits[thread] + kWaits - 1) % kWaits];
  if (last->done == fiber->self.product_done) return;
  r->waits[thread][r->nwaits[thread]++ % kWaits] =
      (Wait){fiber->self.product_done, fiber->block->own[thread]};
}

// True if the thread has waited for the group and `now` is ordered after that.
static bool is_behind(const Block *block, int thread, unsigned group, const Fiber *now) {
  const Readings *r = block->readings;
  unsigned end = r->nwaits[thread], first = end > kWaits ? end - kWaits : 0;
  for (unsigned i = first; i < end; i++) {
    const Wait *wait = &r->waits[thread][i % kWaits];
    if (wait->done < group) continue;
    return (first && i == first) || now->block != block || // its first wait is forgotten
           clock_ordered(block, thread, wait->clock, (int)now->self.linear);
  }
  return false;
}

static bool is_done(const Block *block, int warp_group, unsigned group, const Fiber *now) {
  for (int t = warp_group * kGroupThreads; t < (warp_group + 1) * kGroupThreads; t++)
    if (is_behind(block, t, group, now)) return true;
  return false;
}

static void check_unit(const Block *block, const Fiber *now, uintptr_t address, bool later,
                       const void *pc) {
  Unit *unit = unit_of(block, address);
  for (int g = 0; unit && g < kGroups; g++) {
    if (!unit->group[g]) continue;
    if (!is_done(block, g, unit->group[g], now))
      fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc,
                  "%s shared memory at %p, which a product of warp group %d reads: this is "
                  "not ordered after its wgmma.wait_group",
                  later ? "a copy into" : "write of", (void *)address, g);
    unit->group[g] = 0;
  }
}

void reading_check(Fiber *fiber, uintptr_t address, size_t bytes, bool later, const void *pc) {
  Block *block = owner(fiber->block, address);
  if (!block->readings) return;
  uintptr_t end = address + bytes;
  for (address -= address % kUnit; address < end; address += kUnit)
    check_unit(block, fiber, address, later, pc);
}
