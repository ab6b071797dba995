// copy_async.c: cp.async. A copy lands as late as the program allows: when its thread waits for its
// group, when an mbarrier needs it and nothing else can run, or when the thread ends. The source is
// read only then, so that a missing wait always shows as stale data. With a seed some land at once,
// which exposes early overwrites; but not if accesses are counted, because those of a warp count
// together.
#include "sim/exec/exec.h"

#include <stdlib.h>
#include <string.h>

// Traces the accesses as the thread's, when the copy lands, at the place where it was started.
static void trace(Fiber *fiber, const CopyEntry *entry) {
  if (entry->source_bytes)
    trace_access(fiber, (uintptr_t)entry->source, entry->source_bytes, false, AccessMove,
                 entry->pc);
  trace_access(fiber, (uintptr_t)entry->target, entry->bytes, true, AccessMove, entry->pc);
}

static void land(Fiber *fiber, CopyEntry *entry) {
  if (entry->bar) {
    fiber->block->deferred--;
    mbar_arrive(fiber, entry->bar, 0, entry->pc);
    return;
  }
  if (sim_settings()->trace) trace(fiber, entry);
  memcpy(entry->target, entry->source, (size_t)entry->source_bytes);
  memset(entry->target + entry->source_bytes, 0, (size_t)(entry->bytes - entry->source_bytes));
}

static void land_first(Fiber *fiber) {
  land(fiber, &fiber->copies[fiber->copy_head++ % kCopies]);
}

void copy_land_all(Fiber *fiber) {
  while (fiber->copy_head != fiber->copy_tail) land_first(fiber);
}

static CopyEntry *append(Fiber *fiber) {
  if (!fiber->copies) fiber->copies = malloc(kCopies * sizeof *fiber->copies);
  if (!fiber->copies) fault_raise(CUDA_ERROR_OUT_OF_MEMORY, NULL, "no memory for cp.async");
  if (fiber->copy_tail - fiber->copy_head == kCopies) land_first(fiber);
  return &fiber->copies[fiber->copy_tail++ % kCopies];
}

void cusim_cp_async(void *smem, const void *gmem, int bytes, int source_bytes) {
  Fiber *fiber = fiber_running();
  uintptr_t odd = ((uintptr_t)smem | (source_bytes ? (uintptr_t)gmem : 0)) % (uintptr_t)bytes;
  if (odd)
    fault_raise(CUDA_ERROR_MISALIGNED_ADDRESS, __builtin_return_address(0),
                "cp.async of %d bytes from %p to %p: not aligned to its size", bytes, gmem, smem);
  CopyEntry copy = {
      smem, gmem, bytes, source_bytes, fiber->copy_group, NULL, __builtin_return_address(0)};
  const Settings *s = sim_settings();
  bool at_once = fiber->block->random && !s->count && block_random(fiber->block) % 2;
  if (s->basic && !at_once)
    *append(fiber) = copy;
  else
    land(fiber, &copy);
}

void cusim_cp_async_commit(void) {
  fiber_running()->copy_group++;
}

void cusim_cp_async_wait(int groups) {
  Fiber *fiber = fiber_running();
  unsigned done = fiber->copy_group - (unsigned)groups; // groups below this one must have landed
  while (fiber->copy_head != fiber->copy_tail &&
         (int)(done - fiber->copies[fiber->copy_head % kCopies].group) > 0)
    land_first(fiber);
}

void cusim_cp_async_mbar_arrive(unsigned long long *bar) {
  Fiber *fiber = fiber_running();
  fiber->block->deferred++;
  *append(fiber) =
      (CopyEntry){.group = fiber->copy_group, .bar = bar, .pc = __builtin_return_address(0)};
}

static bool has_arrival(const Fiber *fiber) {
  for (unsigned i = fiber->copy_head; i != fiber->copy_tail; i++)
    if (fiber->copies[i % kCopies].bar) return true;
  return false;
}

static void land_to_arrival(Fiber *fiber) {
  while (!fiber->copies[fiber->copy_head % kCopies].bar) land_first(fiber);
  land_first(fiber);
}

bool copy_land_deferred(Block *block) {
  int first = block->random ? (int)(block_random(block) % (unsigned)block->threads) : 0;
  for (int i = 0; block->deferred && i < block->threads; i++) {
    int t = (first + i) % block->threads;
    Warp *warp = &block->warps[t / kWarpLanes];
    unsigned bit = 1u << t % kWarpLanes;
    if (!(warp->live & bit) || (warp->fresh & bit)) continue;
    Fiber *fiber = warp->fibers[t % kWarpLanes];
    if (!has_arrival(fiber)) continue;
    land_to_arrival(fiber);
    return true;
  }
  return false;
}
