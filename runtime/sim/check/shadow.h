// shadow.h: what the race check remembers of memory, and the short way of an access that is all
// right. A cell per 4 bytes holds the last write, the last read, and one read more that another
// thread made before that: who, when (clock.c), from where. All else goes to trace_access.
#ifndef CUSIM_SHADOW_H
#define CUSIM_SHADOW_H

#include <string.h>

#include "sim/check/check.h"
#include "sim/state/found.h"

#pragma GCC visibility push(hidden)

// A read before the last one, by another thread, that is not ordered with it: a write may be ordered
// with the last one alone.
typedef struct OtherRead {
  uint64_t pc : 48, thread : 10, bytes : 4, atomic : 1;
  uint64_t outside : 1; // of another block than the read that followed it
  uint32_t block;
  uint32_t when; // the thread's clock; outside: atomic operations before it
} OtherRead;

typedef struct Cell { // one line of the processor's cache
  _Alignas(64) Access write;
  Access read;
  OtherRead other;
} Cell;

_Static_assert(sizeof(Cell) == 64 && kMaxThreads <= 1 << 10, "a line; a thread has 10 bits");

enum { kPageBytes = 4096, kPageCells = kPageBytes / kCellBytes, kRecentPages = 256 };

// Used by one worker at a time: race checking runs the blocks one by one, but those of a
// cooperative launch, which take turns (race_lock).
typedef struct Shadow {
  uint32_t block_serial, launch_serial; // of the running block; of the launch's first
  uint32_t atomics;                     // operations so far
  struct {
    uintptr_t base;
    Cell *cells;
  } recent[kRecentPages]; // pages that were found, by their number
} Shadow;

extern Shadow race_shadow;
Cell *race_page(uintptr_t base); // found, or made

static inline Cell *cell_of(uintptr_t address) {
  uintptr_t base = address & ~(uintptr_t)(kPageBytes - 1);
  size_t slot = base / kPageBytes % kRecentPages;
  Cell *cells = race_shadow.recent[slot].cells;
  if (__builtin_expect(race_shadow.recent[slot].base != base, 0)) cells = race_page(base);
  return &cells[(address - base) / kCellBytes];
}

// Blocks are ordered by nothing but atomics: the earlier block did one after its access, and the
// running one did one after that. (An over-approximation: it forgives, it does not accuse.)
static inline bool ordered_by_atomics(const Access *earlier, const Block *block) {
  return race_shadow.atomics > earlier->atomics && block->last_atomic > earlier->atomics;
}

// Plain reads with which loops that compare and swap begin (first_read.c), by their code address.
void first_read_add(const void *pc);
bool first_read_known(const void *pc);
bool first_read_is(const void *pc); // known, or on the line of one that is; slow

// Of accesses to the same cell, not both atomic; the later one by a thread of this block.
static inline bool unordered(const Access *old, int thread, const Block *block, bool shared) {
  if (old->block < race_shadow.launch_serial) return false;
  if (old->block == block->serial) return !clock_ordered(block, old->thread, old->clock, thread);
  return !shared && !ordered_by_atomics(old, block);
}

// NOTE: whether another block's read whose clock alone is known is ordered, nothing tells: the last
// read is of a later block then, and is looked at.
static inline bool other_unordered(const OtherRead *old, int thread, const Block *block,
                                   bool shared) {
  if (old->block < race_shadow.launch_serial) return false;
  if (old->block == block->serial)
    return !old->outside && !clock_ordered(block, old->thread, old->when, thread);
  return old->outside && !shared &&
         !(race_shadow.atomics > old->when && block->last_atomic > old->when);
}

// Of another launch, or the thread's own.
static inline bool is_past(const Access *old, const Block *block, int thread) {
  return old->block < race_shadow.launch_serial ||
         (old->block == block->serial && old->thread == thread);
}

static inline bool is_elsewhere(int a, int b) { // in another warp
  return a / kWarpLanes != b / kWarpLanes;
}

// The thread reads: what another one read last is kept, unless the read kept by now will do. It
// does not where it is ordered with this one, or where its thread is in this warp and the last one
// is not: warps are more seldom ordered than lanes.
static inline void keep_other(Cell *cell, int thread, const Block *block, bool shared) {
  const Access *last = &cell->read;
  if (is_past(last, block, thread)) return;
  bool same_block = last->block == block->serial;
  if (other_unordered(&cell->other, thread, block, shared)) {
    bool near = !cell->other.outside && !is_elsewhere(cell->other.thread, thread);
    if (!near || (same_block && !is_elsewhere(last->thread, thread))) return;
  }
  if (!unordered(last, thread, block, shared)) return;
  cell->other = (OtherRead){.pc = (uintptr_t)last->pc & 0xffffffffffff,
                            .thread = last->thread & (kMaxThreads - 1),
                            .bytes = last->bytes & 15,
                            .atomic = last->atomic,
                            .outside = !same_block,
                            .block = last->block,
                            .when = same_block ? last->clock : last->atomics};
}

// ---- the short way ------------------------------------------------------------------------------

// The words of an Access behind its pc, of a plain one.
typedef struct AccessWords {
  uint64_t when; // block, clock
  uint64_t what; // atomics, thread, bytes, none of the bits behind
} AccessWords;

_Static_assert(sizeof(Access) == sizeof(void *) + sizeof(AccessWords), "pc, then the words");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "shifts stand for fields");

// The thread's access to these bytes was remembered, and it published nothing since: whoever came
// between has been looked at. Else nothing at the cell is out of order, and it is remembered now.
// False: something is, perhaps.
static inline bool cell_quick(Cell *cell, AccessWords now, int thread, bool writes,
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

// The same of one cell whose page was found lately, without a call: false, too, where clocks would
// have to be asked.
static inline bool race_plain(const Fiber *fiber, uintptr_t address, int bytes, bool writes,
                              const void *pc) {
  const Block *block = fiber->block;
  int thread = (int)fiber->self.linear;
  uintptr_t base = address & ~(uintptr_t)(kPageBytes - 1);
  size_t slot = base / kPageBytes % kRecentPages;
  if (bytes > kCellBytes || fiber->early.base) return false;
  if (race_shadow.recent[slot].base != base) return false;
  Cell *cell = &race_shadow.recent[slot].cells[(address - base) / kCellBytes];
  Access *last = writes ? &cell->write : &cell->read;
  AccessWords old, now = words_of(fiber, address, bytes);
  memcpy(&old, &last->block, sizeof old);
  if (old.when != now.when || old.what != now.what) {
    if (block->atomic_open[thread] || !is_past(&cell->write, block, thread)) return false;
    if (writes && !is_past(&cell->read, block, thread)) return false;
    if (writes && other_unordered(&cell->other, thread, block, false)) return false;
    if (!writes) keep_other(cell, thread, block, false);
    if (old.when == now.when && last->thread == thread) now.what |= (uint64_t)last->bytes << 48;
    memcpy(&last->block, &now, sizeof now);
  }
  last->pc = pc;
  return true;
}

enum Quick { QuickRace = 1, QuickWritten = 2, QuickNames = 4 };

static inline unsigned quick_checks(const Launch *launch) {
  const Settings *settings = sim_settings();
  return (settings->race ? QuickRace : 0) | (settings->address ? QuickWritten : 0) |
         (settings->address && launch->names ? QuickNames : 0);
}

// The bytes, of one allocation, have been written: those of an aligned access lie in one byte of
// bits, or are two of these.
static inline bool is_written(const Allocation *a, uintptr_t address, int bytes) {
  if (!a->written) return true;
  size_t offset = address - a->begin;
  if (offset % (unsigned)bytes) return false;
  const uint8_t *at = &a->written[offset / 8];
  if (bytes == 16) return at[0] == 0xff && at[1] == 0xff;
  uint8_t bits = (uint8_t)(((1u << bytes) - 1) << offset % 8);
  return (*at & bits) == bits;
}

// Of the thread alone: its stack, and what shows it its built-in variables.
static inline bool is_own(const Fiber *fiber, uintptr_t address) {
  return address - (uintptr_t)fiber->stack < fiber->stack_bytes ||
         address == (uintptr_t)&cusim_self || address - (uintptr_t)fiber < sizeof *fiber;
}

// In shared memory of its block, all of it the kernel's own.
static inline bool is_own_shared(const Worker *worker, const Fiber *fiber, uintptr_t address,
                                 int bytes) {
  uintptr_t end = address + (uintptr_t)bytes, begin = (uintptr_t)worker->tls_shared;
  uintptr_t dynamic = (uintptr_t)fiber->self.smem;
  if (address >= dynamic && end <= dynamic + fiber->self.smem_bytes) return true;
  return address >= begin && end <= begin + worker->tls_bytes &&
         !fiber->block->launch->function->module->nguards;
}

// A plain access that has nothing to be said of. False: it is to be looked at.
static inline bool access_quick(uintptr_t address, int bytes, bool writes, const void *pc) {
  Worker *worker = sim_worker;
  if (!worker->quick || worker->nsuspects || address % (unsigned)bytes) return false;
  Fiber *fiber = fiber_running();
  const Allocation *a = memory_find_again(worker, address, bytes);
  unsigned checks = worker->quick;
  if (!a && is_own_shared(worker, fiber, address, bytes)) {
    if (checks & QuickRace) race_access(fiber, address, bytes, writes, AccessPlain, pc, true);
    return true;
  }
  if (!a) return is_own(fiber, address);
  if (checks & QuickWritten && !is_written(a, address, bytes)) return false;
  if (checks & QuickNames && names_outside(fiber->block->launch, a, address, bytes)) return false;
  return !(checks & QuickRace) || race_quick(fiber, address, bytes, writes, pc);
}

// The same of global memory in the plainest case: few instructions and no call.
static inline bool access_plain(uintptr_t address, int bytes, bool writes, const void *pc) {
  Worker *worker = sim_worker;
  if (!(worker->quick & QuickRace) || worker->quick & QuickNames) return false;
  if (worker->nsuspects || address % (unsigned)bytes) return false;
  const Allocation *a = memory_find_again(worker, address, bytes);
  if (!a || (worker->quick & QuickWritten && !is_written(a, address, bytes))) return false;
  return race_plain(fiber_running(), address, bytes, writes, pc);
}

#pragma GCC visibility pop
#endif
