// quick.h: fast paths for accesses without anything to report. All others go to trace_access.
#ifndef CUSIM_QUICK_H
#define CUSIM_QUICK_H

#include <string.h>

#include "sim/check/shadow.h"
#include "sim/state/found.h"

#pragma GCC visibility push(hidden)

// The words of a plain Access after its pc.
typedef struct AccessWords {
  uint64_t when; // block, clock
  uint64_t what; // atomics, thread, bytes, none of the bits behind
} AccessWords;

_Static_assert(sizeof(Access) == sizeof(void *) + sizeof(AccessWords), "pc, then the words");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "shifts stand for fields");

// True if the thread's access to these bytes is recorded already and it published nothing since
// (later accesses of others have been checked against it), or if nothing at the cell is unordered,
// and it is recorded now. False: the slow path decides.
static inline __attribute__((always_inline)) bool cell_quick(Cell *cell, AccessWords now,
                                                             int thread, bool writes,
                                                             const Block *block, const void *pc) {
  Access *slot = writes ? &cell->write : &cell->read;
  AccessWords old;
  memcpy(&old, &slot->block, sizeof old);
  if (old.when != now.when || old.what != now.what) {
    if (unordered(&cell->write, thread, block, false)) return false;
    if (writes && unordered(&cell->read, thread, block, false)) return false;
    if (writes && other_unordered(&cell->other, thread, block, false)) return false;
    if (!writes) keep_other(cell, thread, block, false);
    bool more = old.when == now.when && slot->thread == thread;
    if (more) now.what |= (uint64_t)slot->bytes << 48;
    memcpy(&slot->block, &now, sizeof now);
  }
  slot->pc = pc;
  return true;
}

static inline AccessWords words_of(const Fiber *fiber, uintptr_t address, int bytes) {
  const Block *block = fiber->block;
  unsigned thread = fiber->self.linear;
  int part = bytes < kCellBytes ? bytes : kCellBytes;
  uint64_t mask = ((1ull << part) - 1) << address % kCellBytes;
  return (AccessWords){block->serial | (uint64_t)block->own[thread] << 32,
                       race_shadow.atomics | (uint64_t)thread << 32 | mask << 48};
}

static inline bool race_quick(const Fiber *fiber, uintptr_t address, int bytes, bool writes,
                              const void *pc) {
  const Block *block = fiber->block;
  int thread = (int)fiber->self.linear;
  if (fiber->early.base) return false;
  trace_atomic_done(fiber->block, thread);
  AccessWords now = words_of(fiber, address, bytes);
  for (int i = 0; i < bytes; i += kCellBytes)
    if (!cell_quick(cell_of(address + (uintptr_t)i), now, thread, writes, block, pc)) return false;
  return true;
}

enum Quick { QuickRace = 1, QuickWritten = 2, QuickNames = 4 };

static inline unsigned quick_checks(const Launch *launch) {
  const Settings *settings = sim_settings();
  return (settings->race ? QuickRace : 0) | (settings->address ? QuickWritten : 0) |
         (settings->address && launch->names ? QuickNames : 0);
}

// True if the bytes, of one allocation, have been written. The bits of an aligned access are in one
// byte, or are two bytes.
static inline bool is_written(const Allocation *a, uintptr_t address, int bytes) {
  if (!a->written) return true;
  size_t offset = address - a->begin;
  if (offset % (unsigned)bytes) return false;
  const uint8_t *at = &a->written[offset / 8];
  if (bytes == 16) return at[0] == 0xff && at[1] == 0xff;
  uint8_t bits = (uint8_t)(((1u << bytes) - 1) << offset % 8);
  return (*at & bits) == bits;
}

// True for memory private to the thread: its stack, and its built-in variables.
static inline bool is_own(const Fiber *fiber, uintptr_t address) {
  return address - (uintptr_t)fiber->stack < fiber->stack_bytes ||
         address == (uintptr_t)&cusim_self || address - (uintptr_t)fiber < sizeof *fiber;
}

// The page of an access inside of the allocation.
static inline void page_lies_in(const Allocation *a, uintptr_t address) {
  uintptr_t base = address & ~(uintptr_t)(kPageBytes - 1);
  RecentPage *page = &race_shadow.recent[base / kPageBytes % kRecentPages];
  if (page->base != base || base < a->begin || (base - a->begin) % 8) return;
  if (base - a->begin + kPageBytes > a->bytes) return;
  page->written = a->written ? a->written + (base - a->begin) / 8 : NULL;
  page->changes = __atomic_load_n(&memory_changes, __ATOMIC_RELAXED);
}

// True inside of the block's shared memory that belongs to the kernel.
static inline bool is_own_shared(const Worker *worker, const Fiber *fiber, uintptr_t address,
                                 int bytes) {
  uintptr_t end = address + (uintptr_t)bytes, begin = (uintptr_t)worker->tls_shared;
  uintptr_t dynamic = (uintptr_t)fiber->self.smem;
  if (address >= dynamic && end <= dynamic + fiber->self.smem_bytes) return true;
  return address >= begin && end <= begin + worker->tls_bytes &&
         !fiber->block->launch->function->module->nguards;
}

// True for a plain access without anything to report; false: the slow path decides. NOTE:
// unoptimised code mostly reads its own stack. Bytes are a power of two; a division would cost more
// than all the rest.
static inline bool access_quick(uintptr_t address, int bytes, bool writes, const void *pc) {
  Worker *worker = sim_worker;
  if (worker->nsuspects || address & (unsigned)(bytes - 1)) return false;
  Fiber *fiber = fiber_running();
  if (is_own(fiber, address)) return true;
  if (!worker->quick) return false;
  const Allocation *a = memory_find_again(worker, address, bytes);
  unsigned checks = worker->quick;
  if (!a && is_own_shared(worker, fiber, address, bytes)) {
    if (checks & QuickRace) race_access(fiber, address, bytes, writes, AccessPlain, pc, true);
    return true;
  }
  if (!a) return false;
  if (checks & QuickWritten && !is_written(a, address, bytes)) return false;
  if (checks & QuickNames && names_outside(fiber->block->launch, a, address, bytes)) return false;
  if (!(checks & QuickRace)) return true;
  if (!race_quick(fiber, address, bytes, writes, pc)) return false;
  page_lies_in(a, address);
  return true;
}

// ---- the shortest way ---------------------------------------------------------------------------

// Bits of an aligned access within a page.
static inline bool is_page_written(const uint8_t *written, unsigned offset, int bytes) {
  const uint8_t *at = &written[offset / 8];
  if (bytes == 16) return at[0] == 0xff && at[1] == 0xff;
  uint8_t bits = (uint8_t)(((1u << bytes) - 1) << offset % 8);
  return (*at & bits) == bits;
}

// The page of an aligned access, if it was found recently, is in one allocation, and only races are
// checked; else NULL.
static inline __attribute__((always_inline)) const RecentPage *
page_of(uintptr_t address, int bytes) {
  const Worker *worker = sim_worker;
  unsigned offset = address % kPageBytes;
  const RecentPage *page = &race_shadow.recent[address / kPageBytes % kRecentPages];
  if (address % (unsigned)bytes || worker->nsuspects) return NULL;
  if (!(worker->quick & QuickRace) || worker->quick & QuickNames) return NULL;
  if (page->base != address - offset) return NULL;
  if (page->changes != __atomic_load_n(&memory_changes, __ATOMIC_RELAXED)) return NULL;
  if (page->written && !is_page_written(page->written, offset, bytes)) return NULL;
  return page;
}

// access_quick in the plainest case.
static inline __attribute__((always_inline)) bool access_plain(uintptr_t address, int bytes,
                                                               bool writes, const void *pc) {
  if (bytes > kCellBytes) return false;
  const RecentPage *page = page_of(address, bytes);
  if (!page) return false;
  const Fiber *fiber = fiber_running();
  Block *block = fiber->block;
  unsigned thread = fiber->self.linear;
  if (fiber->early.base) return false;
  if (block->atomic_open[thread]) race_atomic_done(block, thread);
  return cell_quick(&page->cells[address % kPageBytes / kCellBytes],
                    words_of(fiber, address, bytes), (int)thread, writes, block, pc);
}

// An atomic operation.
static inline void access_atomic(uintptr_t address, int bytes, bool writes, AccessKind kind,
                                 const void *pc) {
  if (page_of(address, bytes))
    race_access(fiber_running(), address, bytes, writes, kind, pc, false);
  else
    trace_access(fiber_running(), address, bytes, writes, kind, pc);
}

#pragma GCC visibility pop
#endif
