// bulk.c: the copies of sm_90's asynchronous proxy: bulk and tensor, into shared memory and out of
// it.
//
// A load lands as late as the program allows: when the block waits for nothing but its mbarrier. A
// store reads shared memory when its thread waits for its group, or ends. A copy's accesses count
// as its thread's, made when it lands.
#include "sim/exec/bulk.h"

#include <stdlib.h>
#include <string.h>

enum { kWidest = 16 };

// A reduction changes each element in one step, as atomics do.
void bulk_trace(const BulkCopy *copy, const void *address, unsigned bytes, bool writes) {
  if (!sim_settings()->trace) return;
  AccessKind kind = copy->reduce && writes ? AccessAtomic : AccessAsync;
  for (unsigned i = 0; i < bytes; i += kWidest)
    trace_access(copy->fiber, (uintptr_t)address + i,
                 (int)(bytes - i < kWidest ? bytes - i : kWidest), writes, kind, copy->pc);
  if (!writes) trace_proxy_read(copy->fiber, (uintptr_t)address, (int)bytes, copy->pc);
}

// Piece by piece: the value written by each is checked when the next one is traced.
static void store_all(const BulkCopy *copy) {
  bulk_trace(copy, copy->smem, copy->bytes, false);
  for (unsigned i = 0; i < copy->bytes; i += kWidest) {
    bulk_trace(copy, copy->gmem + i, kWidest, true);
    bulk_move_all(copy->gmem + i, copy->smem + i, kWidest, copy->type, copy->reduce);
  }
}

// ---- landing ------------------------------------------------------------------------------------

static void land(BulkCopy *copy) {
  if (copy->load) {
    if (!copy->tensor) bulk_trace(copy, copy->gmem, copy->bytes, false);
    bulk_trace(copy, copy->smem, copy->bytes, true);
  } else if (copy->tensor) {
    bulk_trace(copy, copy->smem, copy->bytes, false);
  }
  if (copy->tensor)
    bulk_move_tensor(copy);
  else if (copy->load)
    bulk_move_all(copy->smem, copy->gmem, copy->bytes, copy->type, copy->reduce);
  else
    store_all(copy);
  if (copy->bar)
    mbar_complete(copy->fiber->block, copy->bar, (int)copy->bytes, copy->thread, copy->pc);
  free(copy);
}

bool bulk_land_one(Block *block) {
  BulkCopy **at = &block->loads, *copy;
  int n = 0;
  for (copy = block->loads; copy; copy = copy->next) n++;
  if (!n) return false;
  for (int skip = block->random ? (int)(block_random(block) % (unsigned)n) : 0; skip; skip--)
    at = &(*at)->next;
  copy = *at;
  *at = copy->next;
  if (!copy->next) block->last_load = at;
  land(copy);
  return true;
}

void bulk_land_stores(Fiber *fiber, unsigned group) {
  while (fiber->stores && (int)(group - fiber->stores->group) > 0) {
    BulkCopy *copy = fiber->stores;
    fiber->stores = copy->next;
    land(copy);
  }
  if (!fiber->stores) fiber->last_store = &fiber->stores;
}

void bulk_drop(Block *block) {
  for (BulkCopy *copy = block->loads, *next; copy; copy = next) {
    next = copy->next;
    free(copy);
  }
  block->loads = NULL;
  block->last_load = &block->loads;
}

// ---- called by kernels --------------------------------------------------------------------------

static void check(const BulkCopy *copy) {
  uintptr_t smem = (uintptr_t)copy->smem, gmem = (uintptr_t)copy->gmem;
  bool odd = copy->tensor ? smem % 128 : (smem | gmem | copy->bytes) % 16;
  if (odd)
    fault_raise(CUDA_ERROR_MISALIGNED_ADDRESS, copy->pc,
                "a bulk copy of %u bytes, shared memory at %p, global memory at %p: not aligned "
                "to %d",
                copy->bytes, (void *)smem, (void *)gmem, copy->tensor ? 128 : 16);
}

static void start(BulkCopy made) {
  Fiber *fiber = fiber_running();
  Block *block = fiber->block;
  made.fiber = fiber;
  made.thread = (int)fiber->self.linear;
  made.group = fiber->bulk_group;
  check(&made);
  if (made.load && sim_settings()->race)
    reading_check(fiber, (uintptr_t)made.smem, made.bytes, true, made.pc);
  BulkCopy *copy = malloc(sizeof *copy);
  if (!copy) fault_raise(CUDA_ERROR_OUT_OF_MEMORY, made.pc, "no memory for a bulk copy");
  *copy = made;
  if (!sim_settings()->basic) {
    land(copy);
  } else if (copy->load) {
    *block->last_load = copy;
    block->last_load = &copy->next;
  } else {
    *fiber->last_store = copy;
    fiber->last_store = &copy->next;
  }
}

void cusim_bulk_load(void *smem, const void *gmem, unsigned bytes, unsigned long long *bar) {
  start((BulkCopy){.load = true, .smem = smem, .gmem = (unsigned char *)gmem, .bytes = bytes,
                   .bar = bar, .pc = __builtin_return_address(0)});
}

void cusim_bulk_reduce(void *smem, const void *from, unsigned bytes, unsigned long long *bar,
                       int reduce, int type) {
  start((BulkCopy){.load = true, .smem = smem, .gmem = (unsigned char *)from, .bytes = bytes,
                   .bar = bar, .reduce = reduce, .type = type,
                   .pc = __builtin_return_address(0)});
}

void cusim_bulk_store(void *gmem, const void *smem, unsigned bytes, int reduce, int type) {
  start((BulkCopy){.smem = (unsigned char *)smem, .gmem = gmem, .bytes = bytes, .reduce = reduce,
                   .type = type, .pc = __builtin_return_address(0)});
}

static BulkCopy of_tensor(const void *map, const int *at, int rank, const void *pc) {
  BulkCopy copy = {.tensor = true, .rank = rank, .pc = pc};
  memcpy(&copy.map, map, sizeof copy.map);
  memcpy(copy.at, at, (size_t)rank * sizeof *at);
  const char *wrong = bulk_tensor_wrong(&copy.map, at, rank);
  if (wrong)
    fault_raise(CUDA_ERROR_ILLEGAL_INSTRUCTION, pc, "a tensor map at %p, for %d dimensions: %s",
                map, rank, wrong);
  copy.bytes = bulk_tensor_bytes(&copy.map);
  return copy;
}

void cusim_tensor_load(void *smem, const void *map, const int *at, int rank,
                       unsigned long long *bar, const int *offsets) {
  BulkCopy copy = of_tensor(map, at, rank, __builtin_return_address(0));
  copy.load = true;
  copy.smem = smem;
  copy.bar = bar;
  for (int i = 0; offsets && i < rank - 2; i++) copy.offsets[i] = offsets[i];
  start(copy);
}

void cusim_tensor_store(const void *map, const int *at, int rank, const void *smem, int reduce) {
  BulkCopy copy = of_tensor(map, at, rank, __builtin_return_address(0));
  copy.smem = (unsigned char *)smem;
  copy.reduce = reduce;
  start(copy);
}

void cusim_store_async(void *smem, const void *values, int bytes, unsigned long long *bar) {
  Fiber *fiber = fiber_running();
  const void *pc = __builtin_return_address(0);
  if ((uintptr_t)smem % (unsigned)bytes) fault_misaligned(smem, bytes, pc);
  if (sim_settings()->trace)
    for (int i = 0; i < bytes; i += kWidest)
      trace_access(fiber, (uintptr_t)smem + (unsigned)i, bytes - i < kWidest ? bytes - i : kWidest,
                   true, AccessAsync, pc);
  memcpy(smem, values, (size_t)bytes);
  mbar_complete(fiber->block, bar, bytes, (int)fiber->self.linear, pc);
}

void cusim_bulk_commit(void) {
  fiber_running()->bulk_group++;
}

void cusim_bulk_wait(int groups, int read) {
  (void)read;
  Fiber *fiber = fiber_running();
  bulk_land_stores(fiber, fiber->bulk_group - (unsigned)groups);
}

void cusim_proxy_fence(void) {
  Fiber *fiber = fiber_running();
  if (sim_settings()->race)
    fiber->block->proxy[fiber->self.linear] = ++fiber->block->own[fiber->self.linear];
}
