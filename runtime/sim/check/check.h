// check.h: checks of running kernels: every access, races, faults and their reports, counters.
#ifndef CUSIM_CHECK_H
#define CUSIM_CHECK_H

#include "sim/state/state.h"

#pragma GCC visibility push(hidden)

// ---- faults (fault.c), the host's signals (signals.c) -------------------------------------------

// Signal handlers. give_up: ends the running block, whose launch has failed, and does not return.
void fault_install(void (*give_up)(void));
void fault_when(void (*give_up)(void)); // the same for faults found by checks
void fault_thread(Worker *worker);     // its alternate stack
void fault_thread_end(Worker *worker); // releases it
// Prints a report about the running thread and ends its block with `error`.
void fault_raise(CUresult error, const void *pc, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
// Writes ": offset 12 of allocation 3 of 64 bytes", or "", into text.
void fault_describe(uintptr_t address, char *text, size_t size);
void fault_deadlock(Block *block) __attribute__((noreturn));
void fault_misaligned(const void *address, int alignment, const void *pc)
    __attribute__((noreturn));
// Reports a block that wrote outside of its shared memory of `bytes` bytes; where: "past the end of
// static".
void fault_shared(const Block *block, const char *where, size_t bytes);
// In a signal handler: continues the running fiber in `where`, which ends its block.
void fault_continue(void *context, void (*where)(void));
// divide.c: in SIGFPE's handler: true if the division was INT_MIN / -1, whose result is now set.
bool divide_overflowed(void *context);
bool fault_is_wild(const unsigned char *code); // wild.c: true if misalignment cannot be the cause
// "template.cu:12" of a code address, or its symbol; into text, which is returned.
const char *fault_line(const void *pc, char *text, size_t size);

// ---- the watchdog (watchdog.c) ------------------------------------------------------------------

void watchdog_install(void); // the signal's handler
void watchdog_start(Worker *worker); // while it runs blocks
void watchdog_stop(Worker *worker);
void watchdog_close(Worker *worker);

// ---- names (names.c) ----------------------------------------------------------------------------

__attribute__((visibility("default"))) CUresult cusimNameLaunch(const char *layer, int count,
                                                                const CusimTensor *tensors);
struct LaunchNames *names_take(void); // declared for the next launch; owned by the caller
struct LaunchNames *names_keep(struct LaunchNames *names);
void names_release(struct LaunchNames *names);
const char *names_layer(const Launch *launch); // or null
// Writes ": byte 12 of tensor conv1.out", or "", into text.
void names_describe(const Launch *launch, uintptr_t address, char *text, size_t size);
// The allocation holds tensors of the launch, but none of them holds the access.
bool names_outside(const Launch *launch, const Allocation *a, uintptr_t address, int bytes);

// ---- tracing and counting (tsan_abi.c, trace.c, race.c, clock.c, flow.c) --------------------

// KernelCounters (counters.h) of one kernel, filled if NNGEN_SIM_COUNT=1.

void record_launch(void); // record.c: memory before and after
void record_launch_end(const Launch *launch);
void trace_launch(void);
// Called at the thread's next operation: its last atomic operation has completed.
void trace_atomic_done(Block *block, int thread);
void trace_grid(Block *block); // grid barrier: before a block arrives, and after
void trace_unlock(void); // when a report interrupts the race check
void trace_launch_end(Launch *launch);
void trace_block(Block *block);
void trace_block_end(Block *block);
// Memory allocated by kernels (heap.c). False: the piece was not allocated.
void *heap_take(size_t bytes);
bool heap_give(void *p);
bool heap_holds(uintptr_t address, int bytes); // wholly inside of one piece
typedef enum AccessKind {
  AccessPlain, // complete at the thread's next operation
  AccessMove,  // the same in several pieces, or by libcusim
  AccessAtomic,
  AccessCompare, // atomic compare-and-swap
  AccessVolatile,
  AccessAsync, // of a bulk copy or a product, when it happens
  AccessProduct // a read that lasts until a wait (reading.c)
} AccessKind;
// The asynchronous proxy reads shared memory: its writers must have fenced.
void trace_proxy_read(Fiber *fiber, uintptr_t address, int bytes, const void *pc);
void trace_access(Fiber *fiber, uintptr_t address, int bytes, bool writes, AccessKind kind,
                  const void *pc);
void race_block(Block *block); // before its threads run
void race_access(Fiber *fiber, uintptr_t address, int bytes, bool writes, AccessKind kind,
                 const void *pc, bool shared);
// Code that is unloaded, while nothing runs: its addresses may be reused (first_read.c).
void first_read_forget(uintptr_t begin, size_t bytes);
void race_proxy(const Block *block, uintptr_t address, int bytes, const void *pc);
// Shared memory that a wgmma reads until its wait, and writes to it before that, also by later
// copies.
void reading_forget(Block *block);
void reading_add(Fiber *fiber, uintptr_t address, int bytes);
void reading_check(Fiber *fiber, uintptr_t address, size_t bytes, bool later, const void *pc);
void trace_settle_slowly(Worker *worker);
static inline void trace_settle(void) { // before another thread runs
  if (__builtin_expect(sim_worker->nsuspects, 0)) trace_settle_slowly(sim_worker);
}
void trace_early(Fiber *fiber); // reports the early read
static inline void trace_leave(Fiber *fiber) { // before it waits or ends
  trace_settle();
  if (__builtin_expect(fiber->early.base != 0, 0)) trace_early(fiber);
}
void coalesce_access(Fiber *fiber, uintptr_t address, int bytes, bool shared, const void *pc);
void coalesce_block_end(KernelCounters *counters);
void trace_host_write(uintptr_t address, size_t bytes);
bool flow_load(CUmodule module, const CusimBlock *rows); // false: no memory
void flow_block(const Block *block);
void flow_block_end(const Block *block);
void issues_block_end(Block *block);

// All do nothing unless races are checked.
void clock_begin(Block *block);
void clock_publish_slowly(Block *block, struct Clock **place, int thread);
void clock_take(Block *block, struct Clock *from, int thread); // an acquire
void clock_drop_slowly(struct Clock **place);
void clock_join(struct Clock **place, const struct Clock *from); // adds it
void clock_learn(Block *block, const struct Clock *from, int thread); // join; `from` may still grow
// The same if each thread joins before it publishes: skipped if this thread was the last one there.
void clock_learn_atomic(Block *block, const struct Clock *from, int thread);
// Publishes what the thread has learned, without its own operations.
void clock_pass(Block *block, struct Clock **place, int thread);
static inline void clock_publish(Block *block, struct Clock **place, int thread) { // a release
  if (!sim_settings()->race) return;
  trace_atomic_done(block, thread);
  clock_publish_slowly(block, place, thread);
}
static inline void clock_drop(struct Clock **place) {
  if (*place) clock_drop_slowly(place);
}
// Reads of lanes before a warp collective that does not order memory (passed.c).
void passed_forget(Block *block);
void passed_meet(Block *block, int warp, unsigned lanes);
bool passed_read(const Block *block, const Access *read, int thread);

#pragma GCC visibility pop
#endif
