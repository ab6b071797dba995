// shadow.h: the race check's shadow memory. A cell per 4 bytes holds the last write, the last read,
// and one earlier read of another thread: who, when (clock.c), from where.
#ifndef CUSIM_SHADOW_H
#define CUSIM_SHADOW_H

#include <string.h>

#include "sim/check/check.h"
#include "sim/check/clock.h"

#pragma GCC visibility push(hidden)

// An earlier read by another thread that is not ordered before the last one: a write may be ordered
// after the last one only.
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

typedef struct RecentPage {
  uintptr_t base;
  Cell *cells;
  unsigned changes;       // memory_changes when all of the page lay in one allocation; 0: unknown
  const uint8_t *written; // the page's bits then, or null: not looked for
} RecentPage;

// Used by one worker at a time: with race checking blocks run one by one; those of a cooperative
// launch alternate (race_lock).
typedef struct Shadow {
  uint32_t block_serial, launch_serial; // of the running block; of the launch's first
  uint32_t atomics;                     // operations so far
  RecentPage recent[kRecentPages]; // pages that were found, by their number
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

// Only atomics order blocks: true if the earlier block did one after its access and the running one
// did one after that. (An over-approximation: misses races, reports no false ones.)
static inline bool ordered_by_atomics(const Access *earlier, const Block *block) {
  return race_shadow.atomics > earlier->atomics && block->last_atomic > earlier->atomics;
}

// Code addresses of initial plain loads of compare-and-swap loops (first_read.c).
void first_read_add(const void *pc);
bool first_read_known(const void *pc);
bool first_read_is(const void *pc); // known, or on the line of one that is; slow

// NOTE: an access is reported before it is made, and other threads may run in between: the thread
// may see what other blocks did until its next step.
static inline void race_atomic_done(Block *block, unsigned thread) {
  block->last_atomic = ++race_shadow.atomics;
  block->atomic_open[thread] = false;
}

// True if unordered, for accesses to the same cell, not both atomic; the later one by a thread of
// this block.
static inline bool unordered(const Access *old, int thread, const Block *block, bool shared) {
  if (old->block < race_shadow.launch_serial) return false;
  if (old->block == block->serial) return !clock_ordered(block, old->thread, old->clock, thread);
  return !shared && !ordered_by_atomics(old, block);
}

// NOTE: of another block's read only the clock is known, not whether it is ordered: then the last
// read is of a later block, and is checked.
static inline bool other_unordered(const OtherRead *old, int thread, const Block *block,
                                   bool shared) {
  if (old->block < race_shadow.launch_serial) return false;
  if (old->block == block->serial)
    return !old->outside && !clock_ordered(block, old->thread, old->when, thread);
  return old->outside && !shared &&
         !(race_shadow.atomics > old->when && block->last_atomic > old->when);
}

// True if of another launch, or the thread's own.
static inline bool is_past(const Access *old, const Block *block, int thread) {
  return old->block < race_shadow.launch_serial ||
         (old->block == block->serial && old->thread == thread);
}

static inline bool is_elsewhere(int a, int b) { // in another warp
  return a / kWarpLanes != b / kWarpLanes;
}

// On a read: keeps the other thread's last read, unless the read kept already is better: it is not
// ordered with this one, and its thread is in another warp while the last one's is not (warps are
// ordered more seldom than lanes).
static inline __attribute__((always_inline)) void keep_other(Cell *cell, int thread,
                                                             const Block *block, bool shared) {
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

#pragma GCC visibility pop
#endif
