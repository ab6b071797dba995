// trace.c: what is done with every memory access of a kernel, when NNGEN_SIM_CHECK or
// NNGEN_SIM_COUNT asks: bounds, unwritten memory, races, and counters.
//
// The host compiler's thread-sanitizer instrumentation calls __tsan_* before each access; those
// functions are here (tsan_abi.c) in place of its run-time library. For races, a shadow cell per
// 4 bytes of memory holds the last write and the last read: who, when (clock.c), from where.
#include "sim/check/check.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__clang__)
#pragma GCC optimize("no-tree-slp-vectorize") // for record()
#endif

typedef struct Cell { // one line of the processor's cache
  _Alignas(64) Access write;
  Access read;
} Cell;

enum { kPageBytes = 4096, kTable = 1 << 16 };

typedef struct Page {
  Cell cells[kPageBytes / kCellBytes];
  uintptr_t base;
  struct Page *next;
} Page;

// Used by one worker at a time: race checking runs the blocks one by one, but those of a
// cooperative launch, which take turns here.
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static __thread bool mine __attribute__((tls_model("initial-exec")));
static Page *pages[kTable];
static uint32_t block_serial, launch_serial; // of the running block; of the launch's first
static uint32_t atomics;

static Cell *cell_of(uintptr_t address) {
  static Page *last;
  uintptr_t base = address & ~(uintptr_t)(kPageBytes - 1);
  if (!last || last->base != base) {
    Page **at = &pages[(base >> 12) * 0x9e3779b1u % kTable];
    while (*at && (*at)->base != base) at = &(*at)->next;
    if (!*at) {
      *at = aligned_alloc(sizeof(Cell), sizeof **at);
      if (!*at) fault_raise(CUDA_ERROR_OUT_OF_MEMORY, NULL, "no memory for the race detector");
      memset(*at, 0, sizeof **at);
      (*at)->base = base;
    }
    last = *at;
  }
  return &last->cells[(address - base) / kCellBytes];
}

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
  launch_serial = block_serial + 1;
}

// Counts and forgets the bytes one launch touched.
static uint64_t count_touched(const Allocation *a, int which) {
  uint64_t sum = 0;
  if (!a->touched[which]) return 0;
  uint64_t *words = a->touched[which];
  for (size_t i = 0; i <= a->bytes / 64; i++) {
    if (!words[i]) continue;
    sum += (uint64_t)__builtin_popcountll(words[i]);
    words[i] = 0;
  }
  return sum;
}

void trace_launch_end(Launch *launch) {
  KernelCounters *c = launch->function->counters;
  if (!sim_settings()->count) return;
  c->distinct_read = c->distinct_written = 0;
  const Allocation *a;
  for (int i = 0; (a = memory_at(i)); i++) {
    c->distinct_read += count_touched(a, 0);
    c->distinct_written += count_touched(a, 1);
  }
}

void trace_block(Block *block) {
  if (sim_settings()->count) flow_block(block);
  if (!sim_settings()->race) return;
  block->serial = __atomic_add_fetch(&block_serial, 1, __ATOMIC_RELAXED);
  block->last_atomic = 0;
  sim_worker->nsuspects = 0;
  clock_begin(block);
}

void trace_block_end(Block *block) {
  if (!sim_settings()->count) return;
  KernelCounters *c = block->launch->function->counters;
  __atomic_fetch_add(&c->blocks, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&c->threads, (uint64_t)block->threads, __ATOMIC_RELAXED);
  __atomic_fetch_add(&c->barriers, block->arrivals, __ATOMIC_RELAXED);
  __atomic_fetch_add(&c->meetings, block->meetings, __ATOMIC_RELAXED);
  coalesce_block_end(c);
  flow_block_end(block);
  issues_block_end(block);
}

// ---- races --------------------------------------------------------------------------------------

// Blocks are ordered by nothing but atomics: the earlier block did one after its access, and the
// running one did one after that. (An over-approximation: it forgives, it does not accuse.)
static bool ordered_by_atomics(const Access *earlier, const Block *block) {
  return atomics > earlier->atomics && block->last_atomic > earlier->atomics;
}

static inline bool conflicts(const Access *old, const Access *now, const Block *block, bool shared) {
  if (old->block < launch_serial || !(old->bytes & now->bytes)) return false;
  if (old->atomic && now->atomic) return false;
  if (old->block == now->block) return !clock_ordered(block, old->thread, old->clock, now->thread);
  return !shared && !ordered_by_atomics(old, block);
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

// Stores of one value to one place are no error: one of them lands, whichever. What a store writes
// is known when its thread does the next thing: then the place must hold what the other store left.
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

// ---- a loop that compares and swaps -------------------------------------------------------------

void trace_early(Fiber *fiber) {
  EarlyRead e = fiber->early;
  fiber->early.base = 0;
  report_race(&e.old, true, &e.now, false, e.address, e.shared);
}

// The loop's first read of the value may be a plain one. A second such read is another loop.
static void follow_early(Fiber *fiber, uintptr_t address, int bytes, AccessKind kind) {
  EarlyRead *e = &fiber->early;
  if (kind == AccessCompare && address == e->base)
    e->base = 0;
  else if (e->base - address < (unsigned)bytes)
    trace_early(fiber);
}

static bool is_early_read(Fiber *fiber, const Cell *cell, const Access *now, AccessKind kind,
                          uintptr_t base, uintptr_t address, bool shared) {
  EarlyRead *e = &fiber->early;
  if (kind != AccessPlain || !cell->write.atomic) return false;
  if (e->base && e->base != base) trace_early(fiber);
  if (!e->base) *e = (EarlyRead){base, cell->write, *now, address, shared};
  return true;
}

// Field by field: what was just stored in pieces is slow to load as a whole.
static inline void record(Access *slot, const Access *now, uint8_t bytes) {
  slot->pc = now->pc;
  slot->block = now->block;
  slot->clock = now->clock;
  slot->atomics = now->atomics;
  slot->thread = now->thread;
  slot->bytes = bytes;
  slot->atomic = now->atomic;
  slot->async = now->async;
}

// The write before this access is not ordered with it.
static __attribute__((noinline)) void after_write(Fiber *fiber, Cell *cell, const Access *now,
                                                  bool writes, AccessKind kind, uintptr_t base,
                                                  uintptr_t address, bool shared) {
  if (!writes && is_early_read(fiber, cell, now, kind, base, address, shared)) return;
  if (!(writes && kind == AccessPlain) || cell->write.atomic)
    report_race(&cell->write, true, now, writes, address, shared);
  suspect(&cell->write, now, address, shared);
}

static inline void check_cell(Fiber *fiber, Cell *cell, const Access *now, bool writes,
                              AccessKind kind, uintptr_t base, uintptr_t address, bool shared) {
  const Block *block = fiber->block;
  if (kind == AccessCompare && cell->read.block == now->block && cell->read.thread == now->thread)
    cell->read.atomic = true; // the loop's first read
  if (conflicts(&cell->write, now, block, shared))
    after_write(fiber, cell, now, writes, kind, base, address, shared);
  if (writes && conflicts(&cell->read, now, block, shared))
    report_race(&cell->read, false, now, writes, address, shared);
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
  Access now = {pc, block->serial, block->own[thread], atomics, (uint16_t)thread, 0, atomic,
                kind == AccessAsync};
  while (bytes > 0) {
    int first = (int)(address % kCellBytes);
    int part = bytes < kCellBytes - first ? bytes : kCellBytes - first;
    now.bytes = (uint8_t)(((1 << part) - 1) << first);
    check_cell(fiber, cell_of(address), &now, writes, kind, base, address, shared);
    address += (uintptr_t)part, bytes -= part;
  }
}

// ---- bounds and unwritten memory ----------------------------------------------------------------

static bool in_range(uintptr_t address, int bytes, const void *begin, size_t size) {
  return begin && address >= (uintptr_t)begin && address + (size_t)bytes <= (uintptr_t)begin + size;
}

static bool on_stack(const Fiber *fiber, uintptr_t address) {
  return address - (uintptr_t)fiber->stack < fiber->stack_bytes;
}

static bool on_any_stack(const Worker *worker, uintptr_t address) {
  for (int i = 0; i < worker->nfibers; i++)
    if (on_stack(worker->fibers[i], address)) return true;
  return false;
}

// What kernels read behind the scenes: parameters, operands of meetings. (And built-in variables,
// which trace_access passes over first.)
static bool is_internal(const Worker *worker, const Fiber *fiber, uintptr_t address) {
  const Launch *launch = fiber->block->launch;
  return in_range(address, 1, worker, sizeof *worker) ||
         in_range(address, 1, launch->params, launch->params_bytes) ||
         in_range(address, 1, &launch->workspace, sizeof launch->workspace);
}

// A __device__ variable: global memory that lies in the module.
static bool is_variable(const Fiber *fiber, uintptr_t address) {
  const struct CUmod_st *own = fiber->block->launch->function->module;
  return address - own->base < own->bytes || module_of_address((void *)address);
}

static bool is_shared(const Worker *worker, uintptr_t address, int bytes) {
  for (unsigned r = 0; r < cusim_self->cluster_size; r++)
    if (in_range(address, bytes, cusim_self->peers[r], cusim_self->smem_bytes)) return true;
  return in_range(address, bytes, worker->tls_shared, worker->tls_bytes);
}

// The compiler's byte beside a shared variable of class type.
static bool is_guard(const Worker *worker, uintptr_t address) {
  const struct CUmod_st *module = worker->block.launch->function->module;
  size_t offset = address - (uintptr_t)worker->tls_shared;
  for (int i = 0; i < module->nguards; i++)
    if (offset - module->guards[i] < 8) return true;
  return false;
}

static void report_bounds(uintptr_t address, int bytes, bool writes, const void *pc) {
  char where[512];
  fault_describe(address, where, sizeof where);
  fault_raise(CUDA_ERROR_ILLEGAL_ADDRESS, pc, "%s of %d bytes at %p is out of bounds%s",
              writes ? "write" : "read", bytes, (void *)address, where);
}

static void report_unwritten(uintptr_t address, int bytes, const void *pc) {
  char where[512];
  fault_describe(address, where, sizeof where);
  fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc, "read of %d bytes that nobody wrote, at %p%s", bytes,
              (void *)address, where);
}

// A bit of `written` for each byte; those of an access lie in three bytes at most.
static void check_written(const Allocation *a, uintptr_t address, int bytes, bool writes,
                          const void *pc) {
  if (!a->written) return;
  size_t offset = address - a->begin;
  uint32_t bits = ((1u << bytes) - 1) << offset % 8; // bytes: 16 at most
  for (uint8_t *at = &a->written[offset / 8]; bits; at++, bits >>= 8) {
    uint8_t lacks = (uint8_t)(bits & ~*at);
    if (lacks && !writes) report_unwritten(address, bytes, pc);
    if (lacks) __atomic_fetch_or(at, lacks, __ATOMIC_RELAXED);
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

// ---- every access -------------------------------------------------------------------------------

static void touch(const Allocation *a, uintptr_t address, int bytes, bool writes) {
  if (!a->touched[writes]) return;
  size_t offset = address - a->begin;
  uint64_t *word = &a->touched[writes][offset / 64];
  uint64_t bits = ((1ull << bytes) - 1) << offset % 64; // bytes: 16 at most
  if (bits & ~*word) __atomic_fetch_or(word, bits, __ATOMIC_RELAXED);
  if (offset % 64 + (size_t)bytes <= 64) return;
  bits = ((1ull << bytes) - 1) >> (64 - offset % 64); // what lies in the next word
  __atomic_fetch_or(word + 1, bits, __ATOMIC_RELAXED);
}

static void count(KernelCounters *c, int bytes, bool writes, bool shared) {
  uint64_t *sum = shared ? (writes ? &c->shared_written : &c->shared_read)
                         : (writes ? &c->global_written : &c->global_read);
  __atomic_fetch_add(sum, (uint64_t)bytes, __ATOMIC_RELAXED);
}

// Where atomic operations at an address publish what their threads know, and take it.
static struct Clock **atomic_clock(Block *block, uintptr_t address) {
  return &block->atomics[address / kCellBytes * 0x9e3779b1u % kAtomicClocks];
}

// NOTE: an access is announced before it is made, and other threads may run between: what other
// blocks did until the thread's next step, it may have seen.
static void end_atomic(Block *block, int thread) {
  block->last_atomic = ++atomics;
  block->atomic_open[thread] = false;
}

// PTX's volatile is a relaxed atomic. Of shared memory it is what warps once used in place of
// __syncwarp, which is an error: there it is a plain access.
static void order_access(Fiber *fiber, uintptr_t address, int bytes, bool writes, AccessKind kind,
                         const void *pc, bool shared) {
  if (kind == AccessVolatile) kind = shared ? AccessPlain : AccessAtomic;
  bool atomic = kind == AccessAtomic || kind == AccessCompare;
  if (fiber->early.base) follow_early(fiber, address, bytes, kind);
  if (shared && !writes && !atomic) check_shared_written(fiber, address, bytes, pc);
  int thread = (int)fiber->self.linear;
  if (fiber->block->atomic_open[thread]) end_atomic(fiber->block, thread);
  if (atomic) clock_learn_atomic(fiber->block, *atomic_clock(fiber->block, address), thread);
  check_race(fiber, address, bytes, writes, kind, pc, shared);
  if (!atomic) return;
  clock_publish(fiber->block, atomic_clock(fiber->block, address), thread);
  fiber->block->last_atomic = ++atomics;
  fiber->block->atomic_open[thread] = true;
}

void trace_atomic_done(Block *block, int thread) {
  if (!block->atomic_open[thread]) return;
  trace_lock(block->launch);
  end_atomic(block, thread);
  trace_unlock();
}

void trace_grid(Block *block) {
  if (!sim_settings()->race) return;
  trace_lock(block->launch);
  block->last_atomic = ++atomics;
  trace_unlock();
}

void trace_access(Fiber *fiber, uintptr_t address, int bytes, bool writes, AccessKind kind,
                  const void *pc) {
  trace_settle();
  const Settings *settings = sim_settings();
  const Worker *worker = sim_worker;
  if (address == (uintptr_t)&cusim_self || address - (uintptr_t)fiber < sizeof *fiber) return;
  const Allocation *a = memory_find_again(address, bytes);
  bool global = a != NULL; // where the one before it was: neither stack nor shared memory
  if (!global && on_stack(fiber, address)) return;
  bool shared = !global && is_shared(worker, address, bytes);
  if (shared && fiber->block->launch->function->module->nguards && is_guard(worker, address))
    return;
  if (!global && !shared) {
    a = memory_find(address);
    global = a && in_range(address, bytes, (void *)a->begin, a->bytes);
  }
  if (!shared && !global &&
      (is_internal(worker, fiber, address) || on_any_stack(worker, address))) {
    if (kind == AccessAtomic && settings->race) { // in the grid's workspace
      trace_grid(fiber->block);
      fiber->block->atomic_open[fiber->self.linear] = true;
    }
    return;
  }
  bool variable = !shared && !global && is_variable(fiber, address);
  if (settings->address && !shared && !global && !variable)
    report_bounds(address, bytes, writes, pc);
  if (settings->address && global && fiber->block->launch->names &&
      names_outside(fiber->block->launch, a, address, bytes))
    report_bounds(address, bytes, writes, pc);
  if (settings->count && (shared || global)) {
    count(fiber->block->launch->function->counters, bytes, writes, shared);
    coalesce_access(fiber, address, bytes, shared, pc);
    if (global) touch(a, address, bytes, writes);
  }
  if (settings->address && global) check_written(a, address, bytes, writes, pc);
  if (!settings->race || !(shared || global || variable)) return;
  trace_lock(fiber->block->launch);
  order_access(fiber, address, bytes, writes, kind, pc, shared);
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

void trace_proxy_read(Fiber *fiber, uintptr_t address, int bytes, const void *pc) {
  if (!sim_settings()->race || !is_shared(sim_worker, address, bytes)) return;
  trace_lock(fiber->block->launch);
  for (int i = 0; i < bytes; i += kCellBytes) check_proxy(fiber->block, address + (uintptr_t)i, pc);
  trace_unlock();
}

void cusim_proxy_read(const void *address, int bytes) {
  const void *pc = __builtin_return_address(0);
  if (!sim_settings()->trace) return;
  trace_access(fiber_running(), (uintptr_t)address, bytes, false, AccessAsync, pc);
  trace_proxy_read(fiber_running(), (uintptr_t)address, bytes, pc);
}
