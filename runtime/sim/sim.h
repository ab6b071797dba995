// sim.h: the structs of libcusim, and the prototypes of each file, in the order a launch passes
// through them: launch -> block -> fiber; loading beside it. What waits between the API and a
// launch is in work.h; compiling, which needs none of them, in compile.h.
//
// Locking: `sim_lock` is held by every API call while it reads or changes the state below, and
// while queued work runs. Worker threads touch only their Block and the Launch they are given.
#ifndef CUSIM_SIM_H
#define CUSIM_SIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "cuda_api.h"
#include "sim/counters.h"
#include "sim/device/cusim_abi.h"
#include "sim/names.h"

#define CUDA_API(name, symbol, params)                                                             \
  __attribute__((visibility("default"))) CUresult symbol params;
#define NVRTC_API(name, symbol, params)                                                            \
  __attribute__((visibility("default"))) nvrtcResult symbol params;
#define NVRTC_TEXT(name, symbol, params)                                                           \
  __attribute__((visibility("default"))) const char *symbol params;
#include "cuda_api.def"
#define NEWER_API(name, symbol, since, params)                                                     \
  __attribute__((visibility("default"))) CUresult symbol params;
#include "sim/newer.def"

#pragma GCC visibility push(hidden)

enum {
  kWarpLanes = 32,
  kMaxThreads = 1024,
  kMaxWarps = kMaxThreads / kWarpLanes,
  kBarriers = 16,
  kPoisonByte = 0xff // as float, half, bfloat16 and double: a NaN
};

// ---- settings (settings.c), devices (device.c) ----------------------------------------

typedef struct Settings {
  bool basic;    // poison, red zones, late copies, alignment
  bool trace;    // kernels are built with instrumented accesses
  bool race;     // two threads, one location, no barrier between
  bool address;  // each access lies inside an allocation or the block's shared memory
  bool count;    // NNGEN_SIM_COUNT: fill KernelCounters
  uint64_t seed; // NNGEN_SIM_SEED; 0: the natural order
  int threads;   // NNGEN_SIM_THREADS; OS threads that run blocks
  int kernel_registers; // NNGEN_SIM_KERNEL_REGISTERS, that each kernel needs; 0: not known
  double timeout; // NNGEN_SIM_TIMEOUT, seconds; 0: none
  size_t stack_bytes; // NNGEN_SIM_STACK_KIB; of a fiber
  bool ready;    // they have been read
} Settings;

// The GPU that is modelled: NNGEN_SIM_DEVICE=sm_80|sm_90a|sm_100a, fields by NNGEN_SIM_<FIELD>.
typedef struct DeviceModel {
  const char *arch, *name;
  int major, minor;
  int multiprocessors, threads_per_sm, blocks_per_sm, registers_per_sm;
  int smem_per_sm, smem_optin, smem_default; // bytes; optin: most a block may ask for
  int clock_khz, memory_clock_khz, bus_bits, l2_bytes;
  size_t memory; // bytes; 0: what the host has
} DeviceModel;

extern Settings sim_current_settings;
void sim_settings_read(void);
static inline const Settings *sim_settings(void) {
  if (__builtin_expect(!sim_current_settings.ready, 0)) sim_settings_read();
  return &sim_current_settings;
}
const DeviceModel *sim_device(void);
extern pthread_mutex_t sim_lock;  // recursive
bool sim_initialized(void);       // cuInit was called
CUresult sim_context_usable(void); // success, or why the calling thread has no context
CUresult sim_context_check(void); // success, or why the calling thread may not call
CUresult sim_error_take(void);    // the error that running work left; it stays, as on a GPU
void sim_error_set(CUresult error);
// Returns the error, with one line on stderr that says why.
CUresult sim_refuse(CUresult error, const char *format, ...) __attribute__((format(printf, 2, 3)));
CUcontext sim_context(void);                // the calling thread's; null: none
CUcontext sim_error_blame(CUcontext ctx); // whose work runs now; returns whose did before

// ---- handles (handles.c) ------------------------------------------------------------------------

typedef enum HandleKind {
  HandleStream,
  HandleEvent,
  HandleGraph,
  HandleNode,
  HandleExec,
  HandleModule,
  HandleFunction
} HandleKind;

bool handle_add(HandleKind kind, const void *handle); // false: no memory
void handle_drop(const void *handle);                 // which may be none
bool handle_is(HandleKind kind, const void *handle);  // the program was given it, and not freed it
void *handle_next(HandleKind kind, size_t *index);    // from index 0 on; null: no more

// ---- fibers (fiber.c) ---------------------------------------------------------------------------

typedef struct CopyEntry { // an asynchronous copy that has not landed, or an arrival behind such
  unsigned char *target;
  const unsigned char *source;
  int bytes, source_bytes; // the rest is zero-filled
  unsigned group;          // the commit group it belongs to
  unsigned long long *bar; // arrive there instead of copying
  const void *pc;
} CopyEntry;

typedef enum WaitKind { WaitNone, WaitMeeting, WaitBarrier, WaitMbar, WaitTryMbar } WaitKind;

// One CUDA thread at a time; when it ends, the fiber takes the next thread of the block. Or all
// threads of blocks that run as a loop.
typedef struct Fiber {
  CusimThread self; // first: cusim_self points here
  void *sp;         // saved stack pointer while it does not run
  struct Block *block;
  struct Fiber *next_free;
  unsigned char *stack; // lowest usable byte
  size_t stack_bytes;
  WaitKind wait; // what it waits for, for reports
  const void *wait_object;
  const void *wait_pc;
  int wait_parity;
  bool try_result;   // what mbar_try_wait returns
  CopyEntry *copies; // ring of kCopies, made on first use
  unsigned copy_head, copy_tail, copy_group;
  int spins; // yields since it last made progress
} Fiber;

enum { kCopies = 512 };

// ---- blocks (block.c, barrier.c, copy_async.c) --------------------------------------------------

struct Clock; // clock.c

typedef struct Meeting {
  unsigned mask, arrived;
  CusimWork work;
  const void *pc;
  struct Clock *clock; // what those that arrived published
} Meeting;

typedef struct Warp {
  unsigned live;  // lanes that have not exited
  unsigned ready; // lanes whose fiber can run
  unsigned fresh; // lanes that have not started
  int open;       // meetings in progress
  Meeting meetings[kWarpLanes];
  void *operands[kWarpLanes]; // of the meeting each lane is in
  Fiber *fibers[kWarpLanes];
} Warp;

typedef struct BlockBarrier {
  int expected;      // threads; 0: all live
  int arrived;       // threads, waiting or not
  int count, result; // predicates that held: of this phase, of the last
  const void *pc;    // of the first arrival
  int place;         // the same, in the source
  unsigned waiting[kMaxWarps];
  struct Clock *clock; // what those that arrived published
} BlockBarrier;

typedef struct MbarClock { // the same for an mbarrier: of this phase, and of the last complete one
  const void *bar;
  struct Clock *clock, *done;
} MbarClock;

enum { kMbarClocks = 64, kAtomicClocks = 64 };

typedef struct Block {
  struct Launch *launch;
  Warp warps[kMaxWarps];
  BlockBarrier barriers[kBarriers];
  int threads, live;
  CusimThread place;           // the built-in variables that all its threads share
  unsigned ready_warps;        // warps that may have ready or fresh lanes
  int warp;                    // the one that runs
  int start;                   // thread that the next free fiber begins
  int deferred;                // mbarrier arrivals that wait for copies
  int try_waiters;             // fibers inside mbar_try_wait
  bool working;                // one lane does the work of a meeting
  uint64_t ended;              // threads, of all blocks; never goes back
  uint64_t random;             // state of the seeded order
  uint64_t arrivals, meetings; // of threads at barriers, of lanes at meetings; for the counters
  uint32_t serial;             // of the block, over all launches (race checking)
  uint32_t last_atomic;        // number of its last atomic operation
  struct Clock *known[kMaxThreads]; // what each thread knows of the others
  uint32_t own[kMaxThreads];
  MbarClock mbars[kMbarClocks];
  struct Clock *atomics[kAtomicClocks]; // what was published at addresses, by their hash
  int nmbars;
} Block;

typedef struct Access { // as the race check remembers it
  const void *pc;
  uint32_t block;   // serial of the block; 0: none
  uint32_t clock;   // of the thread
  uint32_t atomics; // atomic operations in the launch before it
  uint16_t thread;
  uint8_t bytes; // of the cell, as a mask
  bool atomic;
} Access;

enum { kCellBytes = 4, kSuspects = 8 }; // one access has 5 cells at most

typedef struct Suspect { // a store that races unless it changes nothing
  Access old, now;
  uintptr_t address;
  bool shared;
  unsigned char before[kCellBytes];
} Suspect;

// An OS thread that runs blocks.
enum { kTlsGuard = 4096 }; // as in device/cusim_guard.s

typedef struct Worker {
  Block block;
  void *main_sp; // its own stack, while a fiber runs
  Fiber *free;
  Fiber **fibers; // all it has made
  int nfibers;
  bool abandoned;            // the block ended with a fault
  int nsuspects;
  Suspect suspects[kSuspects];
  unsigned char *smem;       // dynamic shared memory between red zones
  unsigned char *tls_shared; // the module's static shared memory of this thread
  size_t tls_bytes;          // without the guard behind it, kTlsGuard bytes
  const void *fault_pc, *fault_address; // signal -> report
  bool fault_known; // the address is
  const char *fault_kind; // ", a write", ", a read" or, where the processor does not tell, ""
  int fault_signal;
  void *signal_stack; // owned; null: the program has set its own
  timer_t timer; // watchdog.c
  bool has_timer;
  int ticks; // since a thread ended
  uint64_t ended_before;
} Worker;

extern __thread Worker *sim_worker __attribute__((tls_model("initial-exec")));

static inline Fiber *fiber_running(void) {
  return (Fiber *)cusim_self;
}
static inline Warp *fiber_warp(Fiber *fiber) {
  return &fiber->block->warps[fiber->self.linear / kWarpLanes];
}

void fiber_switch(void **save, void *load); // fiber_switch.S, or fiber.c with ucontext
Fiber *fiber_take(Worker *worker);          // from the free list, or made; null without memory
bool fiber_ready(Worker *worker);           // at least one is in the free list, or was made
void fiber_reset(Fiber *fiber);             // its stack starts over
void fiber_free(Fiber *fiber);

void block_run(Worker *worker, struct Launch *launch, unsigned long index);
void block_wait(Fiber *fiber, WaitKind kind, const void *object, const void *pc);
void block_ready(Fiber *fiber); // the fiber may go on
void block_yield(Fiber *fiber);
void block_stall(Block *block); // nothing can run: free a waiter, or report a deadlock
void block_abandon(void) __attribute__((noreturn)); // gives the running block up
uint64_t block_random(Block *block);

void meeting_exit(Fiber *fiber); // a lane has exited: meetings may be complete
void barrier_exit(Block *block);
bool mbar_done(unsigned long long *bar, int parity);
void mbar_arrive(Fiber *fiber, unsigned long long *bar, int expect_bytes, const void *pc);
bool mbar_wake_trying(Block *block);
void copy_land_all(Fiber *fiber);
bool copy_land_deferred(Block *block); // lands copies that an mbarrier waits for; false: none

// ---- modules (module.c), launches (launch.c) ----------------------------------------------------

struct CUfunc_st {
  struct CUmod_st *module;
  const CusimKernel *kernel;
  char *name; // the linker's
  int param_count;
  size_t static_smem; // bytes of static shared memory that its code reaches
  int max_dynamic_smem;
  int carveout;
  struct KernelCounters *counters;
  struct CUfunc_st *next;
};

typedef struct FlowBlock { // a basic block of a counted module
  const CusimBlock *row;
  int branch; // its number among those that branch, or -1
} FlowBlock;

struct CUmod_st {
  void *handle; // of dlopen
  int fd;       // the image's file, kept for line numbers
  const CusimImage *image;
  size_t tls_module; // of the static shared memory; 0: none
  size_t tls_bytes;
  bool waits;     // its threads can wait for each other
  uintptr_t base; // load address
  size_t bytes;   // from there on
  uintptr_t code; // of the kernels, without the linker's stubs
  size_t code_bytes;
  uint64_t serial;   // of this module; addresses come again
  FlowBlock *blocks; // by pc; counting
  int nblocks, nbranches;
  CUfunction functions;
  struct CUmod_st *next;
};

typedef struct Launch {
  CUfunction function;
  unsigned grid[3], block[3];
  unsigned smem;
  bool cooperative;
  bool loops; // each block as a loop over its threads
  struct LaunchNames *names; // or null; counted
  void **params; // param_count pointers into the bytes behind them; owned
  size_t params_bytes;
  unsigned long total;           // blocks
  atomic_ulong next;             // block index to hand out
  atomic_int error;              // first fault's CUresult
  uint64_t order_add, order_mul; // seeded block order: (i * mul + add) % total
} Launch;

CUresult launch_make(Launch *launch, CUfunction function, const unsigned grid[3],
                     const unsigned block[3], unsigned smem, void **params, void **extra);
Launch *launch_copy(const Launch *launch);
void launch_free(Launch *launch); // the params it owns
CUresult launch_run(Launch *launch);
int function_threads(CUfunction function); // most in a block (function.c)
int function_blocks_per_sm(CUfunction function, int threads, size_t smem);
const struct CUmod_st *module_of_address(const void *pc);
bool module_owns(CUfunction function);
// The linker's name of a kernel of an image, by its name in the source; owned by the caller.
char *module_lower_name(const void *image, const char *name);
uint32_t module_checksum(const void *image, size_t length);
bool image_read(CUmodule module); // image.c: code, waits; false: no memory
bool shared_measure(CUmodule module, const char *image); // shared.c: static_smem; the same

// ---- faults (fault.c) ---------------------------------------------------------------------------

void fault_install(void);             // signal handlers
void fault_thread(Worker *worker);     // its alternate stack
void fault_thread_end(Worker *worker); // gives it back
// Prints one report about the running thread and gives its block up with `error`.
void fault_raise(CUresult error, const void *pc, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
// ": offset 12 of allocation 3 of 64 bytes", or nothing, into text.
void fault_describe(uintptr_t address, char *text, size_t size);
void fault_deadlock(Block *block) __attribute__((noreturn));
void fault_misaligned(const void *address, int alignment, const void *pc)
    __attribute__((noreturn));
// The block has written beside its shared memory of so many bytes: `where`, "past the end of static".
void fault_shared(const Worker *worker, const char *where, size_t bytes);
// In a signal's handler: the running fiber continues in `where`, which gives its block up.
void fault_continue(void *context, void (*where)(void));
// divide.c: in SIGFPE's handler: the division was INT_MIN / -1; it has its result and is over.
bool divide_overflowed(void *context);
bool fault_is_wild(const unsigned char *code); // wild.c: no alignment is what it lacks
// "template.cu:12" of a code address, or its symbol; into text, which is returned.
const char *fault_line(const void *pc, char *text, size_t size);

// ---- the watchdog (watchdog.c) ------------------------------------------------------------------

void watchdog_install(void); // the signal's handler
void watchdog_start(Worker *worker); // while it runs blocks
void watchdog_stop(Worker *worker);
void watchdog_close(Worker *worker);

// ---- memory (memory.c, freed.c, pool.c) ---------------------------------------------------------

typedef enum MemoryKind { MemoryDevice, MemoryHost, MemoryRegistered } MemoryKind;

typedef struct Allocation {
  uintptr_t begin;
  size_t bytes;    // as asked for
  size_t reserved; // begin + reserved is the guard page
  void *map;       // the whole mapping, guards included
  size_t map_bytes;
  MemoryKind kind;
  bool freeing; // when the stream comes by; no call may name it any more
  int serial;
  uint64_t *touched[2]; // a bit per byte that the running launch reads [0], writes [1]; counting
  uint8_t *written;     // a bit per byte, when unwritten reads are looked for
} Allocation;

const Allocation *memory_at(int index); // by address; null past the last
const Allocation *memory_find(uintptr_t address);           // the allocation that holds it, or null
CUresult memory_range_check(CUdeviceptr ptr, size_t bytes); // a device range that a call names
CUresult memory_make(size_t bytes, MemoryKind kind, void **out);
size_t memory_used(void);               // of device memory, bytes
bool memory_free_later(CUdeviceptr ptr); // marks a device allocation; false: it is none
void memory_check_red_zones(void);
bool memory_is_pageable(const void *ptr); // host memory the driver does not know
void memory_release(CUdeviceptr ptr);
void freed_keep(const Allocation *a);               // takes the mapping over
const Allocation *freed_find(uintptr_t address); // that held it, guards included; or null
bool freed_drop(void);                              // false: nothing was kept

// ---- names (names.c) ----------------------------------------------------------------------------

__attribute__((visibility("default"))) CUresult cusimNameLaunch(const char *layer, int count,
                                                                const CusimTensor *tensors);
struct LaunchNames *names_take(void); // what the thread said of its next launch; the caller's
struct LaunchNames *names_keep(struct LaunchNames *names);
void names_release(struct LaunchNames *names);
const char *names_layer(const Launch *launch); // or null
// ": byte 12 of tensor conv1.out", or nothing, into text.
void names_describe(const Launch *launch, uintptr_t address, char *text, size_t size);
// The allocation holds tensors of the launch, but none of them holds the access.
bool names_outside(const Launch *launch, const Allocation *a, uintptr_t address, int bytes);

// ---- tracing and counting (tsan_abi.c, trace.c, clock.c, coalesce.c, flow.c) --------------------

// KernelCounters: what one kernel did, filled while NNGEN_SIM_COUNT=1 (counters.h).

void trace_launch(void);
void trace_unlock(void); // when a report interrupts the race check
void trace_launch_end(Launch *launch);
void trace_block(Block *block);
void trace_block_end(Block *block);
typedef enum AccessKind {
  AccessPlain, // the next thing its thread does
  AccessMove,  // the same in several pieces, or by libcusim
  AccessAtomic,
  AccessVolatile
} AccessKind;
void trace_access(Fiber *fiber, uintptr_t address, int bytes, bool writes, AccessKind kind,
                  const void *pc);
void trace_settle_slowly(Worker *worker);
static inline void trace_settle(void) { // before another thread runs
  if (__builtin_expect(sim_worker->nsuspects, 0)) trace_settle_slowly(sim_worker);
}
void coalesce_access(Fiber *fiber, uintptr_t address, int bytes, bool shared, const void *pc);
void coalesce_block_end(KernelCounters *counters);
void trace_host_write(uintptr_t address, size_t bytes);
bool flow_load(CUmodule module, const CusimBlock *rows); // false: no memory
void flow_block(const Block *block);
void flow_block_end(const Block *block);

// All do nothing unless races are looked for.
void clock_begin(Block *block);
void clock_publish_slowly(Block *block, struct Clock **place, int thread);
void clock_take(Block *block, struct Clock *from, int thread); // an acquire
void clock_drop_slowly(struct Clock **place);
void clock_learn(Block *block, const struct Clock *from, int thread); // take, when it may grow
static inline void clock_publish(Block *block, struct Clock **place, int thread) { // a release
  if (sim_settings()->race) clock_publish_slowly(block, place, thread);
}
static inline void clock_drop(struct Clock **place) {
  if (*place) clock_drop_slowly(place);
}
bool clock_ordered(const Block *block, int earlier, uint32_t when, int now);

#pragma GCC visibility pop
#endif
