// race.c: data races: two unordered accesses to one place, not both reads or both atomic
// (NNGEN_SIM_CHECK=race).
#include "sim/check/shadow.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if !defined(__clang__)
#pragma GCC optimize("no-tree-slp-vectorize") // for record()
#endif

// ---- cells --------------------------------------------------------------------------------------

enum { kTable = 1 << 16, kChunk = 2 << 20 };

typedef struct Page {
  uintptr_t base;
  Cell *cells;
  struct Page *next;
} Page;

Shadow race_shadow;
static Page *pages[kTable];

// Allocates cells of one more page, all empty. They are carved from pieces that the host may map as
// huge pages: neighbouring threads touch cells that are far apart.
static Cell *new_cells(void) {
  static char *next, *end;
  enum { kBytes = kPageCells * sizeof(Cell) };
  if (next == end) {
    next = aligned_alloc(kChunk, kChunk);
    end = next;
    if (!next) return NULL;
    end = next + kChunk;
    madvise(next, kChunk, MADV_HUGEPAGE);
    memset(next, 0, kChunk);
  }
  next += kBytes;
  return (Cell *)(next - kBytes);
}

static Page *new_page(uintptr_t base) {
  Page *page = malloc(sizeof *page);
  Cell *cells = page ? new_cells() : NULL;
  if (!cells) fault_raise(CUDA_ERROR_OUT_OF_MEMORY, NULL, "no memory for the race detector");
  *page = (Page){base, cells, NULL};
  return page;
}

Cell *race_page(uintptr_t base) {
  Page **at = &pages[base / kPageBytes * 0x9e3779b1u % kTable];
  while (*at && (*at)->base != base) at = &(*at)->next;
  if (!*at) *at = new_page(base);
  size_t slot = base / kPageBytes % kRecentPages;
  race_shadow.recent[slot] = (RecentPage){.base = base, .cells = (*at)->cells};
  return (*at)->cells;
}

// ---- the worker that is looked at ---------------------------------------------------------------

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static __thread bool mine __attribute__((tls_model("initial-exec")));

static void trace_lock(const Launch *launch) {
  if (!launch->cooperative) return;
  pthread_mutex_lock(&turn);
  mine = true;
}

void trace_unlock(void) {
  if (!mine) return;
  mine = false;
  pthread_mutex_unlock(&turn);
}

void trace_launch(void) {
  race_shadow.launch_serial = race_shadow.block_serial + 1;
}

void race_block(Block *block) {
  block->serial = __atomic_add_fetch(&race_shadow.block_serial, 1, __ATOMIC_RELAXED);
  block->last_atomic = 0;
  sim_worker->nsuspects = 0;
  clock_begin(block);
  reading_forget(block);
  passed_forget(block);
}

// ---- races --------------------------------------------------------------------------------------

static inline bool conflicts(const Access *old, const Access *now, const Block *block,
                             bool shared) {
  if (!(old->bytes & now->bytes) || (old->atomic && now->atomic)) return false;
  return unordered(old, now->thread, block, shared);
}

static void report_race(const Access *old, bool old_writes, const Access *now, bool writes,
                        uintptr_t address, bool shared) {
  char there[512];
  fault_line(old->pc, there, sizeof there);
  const char *whose = old->block == now->block ? "thread" : "another block's thread";
  char where[512];
  fault_describe(address, where, sizeof where);
  Dl_info variable;
  if (!*where && dladdr((void *)address, &variable) && variable.dli_sname)
    snprintf(where, sizeof where, ": variable %s", variable.dli_sname);
  fault_raise(CUDA_ERROR_LAUNCH_FAILED, now->pc,
              "race on %s memory at %p: this %s and the %s by %s %u (%s) have no barrier between%s",
              shared ? "shared" : "global", (void *)address, writes ? "write" : "read",
              old_writes ? "write" : "read", whose, old->thread, there, where);
}

// Concurrent stores of the same value are allowed. A store's value is known at its thread's next
// operation: then the place must still hold the other store's value.
static void suspect(const Access *old, const Access *now, uintptr_t address, bool shared) {
  Worker *worker = sim_worker;
  if (worker->nsuspects == kSuspects) report_race(old, true, now, true, address, shared);
  Suspect *s = &worker->suspects[worker->nsuspects++];
  *s = (Suspect){*old, *now, address, shared, {0}};
  memcpy(s->before, (void *)(address & ~(uintptr_t)(kCellBytes - 1)), sizeof s->before);
}

void trace_settle_slowly(Worker *worker) {
  int n = worker->nsuspects;
  worker->nsuspects = 0;
  for (int i = 0; i < n; i++) {
    const Suspect *s = &worker->suspects[i];
    const unsigned char *cell = (void *)(s->address & ~(uintptr_t)(kCellBytes - 1));
    for (int b = 0; b < kCellBytes; b++)
      if (s->now.bytes & s->old.bytes & 1 << b && cell[b] != s->before[b])
        report_race(&s->old, true, &s->now, true, s->address, s->shared);
  }
}

// ---- compare-and-swap loops ---------------------------------------------------------------------

void trace_early(Fiber *fiber) {
  EarlyRead e = fiber->early;
  fiber->early.base = 0;
  if (e.old.compare && first_read_is(e.now.pc)) return;
  report_race(&e.old, true, &e.now, false, e.address, e.shared);
}

// The loop's first read of the value may be a plain one. A second such read is another loop.
static void follow_early(Fiber *fiber, uintptr_t address, int bytes, AccessKind kind) {
  EarlyRead *e = &fiber->early;
  if (kind == AccessCompare && address == e->base) {
    first_read_add(e->now.pc);
    e->base = 0;
  } else if (e->base - address < (unsigned)bytes) {
    trace_early(fiber);
  }
}

static bool is_early_read(Fiber *fiber, const Cell *cell, const Access *now, AccessKind kind,
                          uintptr_t base, uintptr_t address, bool shared) {
  EarlyRead *e = &fiber->early;
  if (kind != AccessPlain || !cell->write.atomic) return false;
  if (cell->write.compare && first_read_known(now->pc)) return true;
  if (e->base && e->base != base) trace_early(fiber);
  if (!e->base) *e = (EarlyRead){base, cell->write, *now, address, shared};
  return true;
}

// Field by field: loading as a whole what was just stored in pieces is slow.
static inline void record(Access *slot, const Access *now, uint8_t bytes) {
  slot->pc = now->pc;
  slot->block = now->block;
  slot->clock = now->clock;
  slot->atomics = now->atomics;
  slot->thread = now->thread;
  slot->bytes = bytes;
  slot->atomic = now->atomic;
  slot->async = now->async;
  slot->compare = now->compare;
}

// The write before this access is not ordered with it.
static __attribute__((noinline)) void after_write(Fiber *fiber, Cell *cell, const Access *now,
                                                  bool writes, AccessKind kind, uintptr_t base,
                                                  uintptr_t address, bool shared) {
  if (!writes && is_early_read(fiber, cell, now, kind, base, address, shared)) return;
  bool settled = kind == AccessPlain || (kind == AccessAsync && !shared); // before the next one
  if (!(writes && settled) || cell->write.atomic)
    report_race(&cell->write, true, now, writes, address, shared);
  suspect(&cell->write, now, address, shared);
}

static void own_first_read(Access *read, const Access *swap) {
  if (read->block != swap->block || read->thread != swap->thread || read->atomic) return;
  first_read_add(read->pc);
  read->atomic = true;
}

static Access access_of(const OtherRead *other) {
  return (Access){.pc = (const void *)(uintptr_t)other->pc,
                  .block = other->block,
                  .clock = other->when,
                  .thread = other->thread,
                  .bytes = other->bytes,
                  .atomic = other->atomic};
}

// Checks the read before the last one against a write that may be unordered with it.
static __attribute__((noinline)) void after_other(const Fiber *fiber, const Cell *cell,
                                                  const Access *now, AccessKind kind,
                                                  uintptr_t address, bool shared) {
  const Block *block = fiber->block;
  Access read = access_of(&cell->other);
  if (!(read.bytes & now->bytes) || (read.atomic && now->atomic)) return;
  if (passed_read(block, &read, now->thread)) return;
  if (kind == AccessCompare && first_read_is(read.pc)) return;
  report_race(&read, false, now, true, address, shared);
}

static void own_other_read(OtherRead *read, const Access *swap) {
  if (read->block != swap->block || read->thread != swap->thread || read->atomic) return;
  first_read_add((const void *)(uintptr_t)read->pc);
  read->atomic = true;
}

static inline void check_cell(Fiber *fiber, Cell *cell, const Access *now, bool writes,
                              AccessKind kind, uintptr_t base, uintptr_t address, bool shared) {
  const Block *block = fiber->block;
  if (kind == AccessCompare) {
    own_first_read(&cell->read, now);
    if (!cell->other.outside) own_other_read(&cell->other, now);
  }
  if (conflicts(&cell->write, now, block, shared))
    after_write(fiber, cell, now, writes, kind, base, address, shared);
  if (writes && conflicts(&cell->read, now, block, shared) &&
      !passed_read(block, &cell->read, now->thread) &&
      !(kind == AccessCompare && first_read_is(cell->read.pc)))
    report_race(&cell->read, false, now, writes, address, shared);
  if (writes && other_unordered(&cell->other, now->thread, block, shared))
    after_other(fiber, cell, now, kind, address, shared);
  if (kind == AccessProduct) return;
  if (!writes) keep_other(cell, now->thread, block, shared);
  Access *slot = writes ? &cell->write : &cell->read;
  bool same = slot->block == now->block && slot->thread == now->thread;
  bool more = same && slot->clock == now->clock;
  record(slot, now, now->bytes | (more ? slot->bytes : 0));
}

static void check_race(Fiber *fiber, uintptr_t address, int bytes, bool writes, AccessKind kind,
                       const void *pc, bool shared) {
  bool atomic = kind == AccessAtomic || kind == AccessCompare;
  Block *block = fiber->block;
  uintptr_t base = address;
  int thread = (int)fiber->self.linear;
  Access now = {.pc = pc,
                .block = block->serial,
                .clock = block->own[thread],
                .atomics = race_shadow.atomics,
                .thread = (uint16_t)thread,
                .atomic = atomic,
                .async = kind == AccessAsync,
                .compare = kind == AccessCompare};
  while (bytes > 0) {
    int first = (int)(address % kCellBytes);
    int part = bytes < kCellBytes - first ? bytes : kCellBytes - first;
    now.bytes = (uint8_t)(((1 << part) - 1) << first);
    check_cell(fiber, cell_of(address), &now, writes, kind, base, address, shared);
    address += (uintptr_t)part, bytes -= part;
  }
}

static void check_shared_written(Fiber *fiber, uintptr_t address, int bytes, const void *pc) {
  for (uintptr_t at = address & ~(uintptr_t)3; at < address + (uintptr_t)bytes; at += kCellBytes) {
    uint32_t first = fiber->block->cluster->blocks[0]->serial; // the cluster's follow each other
    if (cell_of(at)->write.block - first < (uint32_t)fiber->block->cluster->size) continue;
    char where[512];
    fault_describe(address, where, sizeof where);
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc,
                "read of %d bytes of shared memory that no thread of this block wrote, at %p%s",
                bytes, (void *)address, where);
  }
}

// The clock of atomic operations at an address: threads publish theirs there, and join it.
static struct Clock **atomic_clock(Block *block, uintptr_t address) {
  return &block->atomics[address / kCellBytes * 0x9e3779b1u % kAtomicClocks];
}

// PTX's volatile is a relaxed atomic, except for shared memory, where it once replaced __syncwarp,
// which is an error: there it is a plain access.
static void order_access(Fiber *fiber, uintptr_t address, int bytes, bool writes, AccessKind kind,
                         const void *pc, bool shared) {
  if (kind == AccessVolatile) kind = shared ? AccessPlain : AccessAtomic;
  bool atomic = kind == AccessAtomic || kind == AccessCompare;
  if (fiber->early.base) follow_early(fiber, address, bytes, kind);
  if (shared && !writes && !atomic) check_shared_written(fiber, address, bytes, pc);
  int thread = (int)fiber->self.linear;
  if (fiber->block->atomic_open[thread]) race_atomic_done(fiber->block, (unsigned)thread);
  if (atomic) clock_learn_atomic(fiber->block, *atomic_clock(fiber->block, address), thread);
  check_race(fiber, address, bytes, writes, kind, pc, shared);
  if (!atomic) return;
  clock_publish(fiber->block, atomic_clock(fiber->block, address), thread);
  fiber->block->last_atomic = ++race_shadow.atomics;
  fiber->block->atomic_open[thread] = true;
}

void race_access(Fiber *fiber, uintptr_t address, int bytes, bool writes, AccessKind kind,
                 const void *pc, bool shared) {
  if (shared && writes) reading_check(fiber, address, (size_t)bytes, false, pc);
  trace_lock(fiber->block->launch);
  order_access(fiber, address, bytes, writes, kind, pc, shared);
  trace_unlock();
}

void trace_atomic_done(Block *block, int thread) {
  if (!block->atomic_open[thread]) return;
  trace_lock(block->launch);
  race_atomic_done(block, (unsigned)thread);
  trace_unlock();
}

void trace_grid(Block *block) {
  if (!sim_settings()->race) return;
  trace_lock(block->launch);
  block->last_atomic = ++race_shadow.atomics;
  trace_unlock();
}

static void check_proxy(const Block *block, uintptr_t address, const void *pc) {
  const Access *write = &cell_of(address)->write;
  if (write->block != block->serial || write->async) return;
  if (write->clock < block->proxy[write->thread]) return;
  char line[512];
  fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc,
              "the asynchronous proxy reads shared memory at %p that thread %d wrote (%s) without "
              "fence.proxy.async behind",
              (void *)address, write->thread, fault_line(write->pc, line, sizeof line));
}

void race_proxy(const Block *block, uintptr_t address, int bytes, const void *pc) {
  trace_lock(block->launch);
  for (int i = 0; i < bytes; i += kCellBytes) check_proxy(block, address + (uintptr_t)i, pc);
  trace_unlock();
}
