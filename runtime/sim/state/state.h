// state.h: the state of running kernels: memory, modules, launches, blocks, threads: structs
// that the rooms below read and change.
//
// OS threads that run blocks touch only their Worker and their Launch.
#ifndef CUSIM_STATE_H
#define CUSIM_STATE_H

#include <stdatomic.h>
#include <time.h>

#include "sim/base/base.h"
#include "sim/counters.h"
#include "sim/device/cusim_abi.h"
#include "sim/names.h"
#include "sim/state/access.h"

#pragma GCC visibility push(hidden)

enum {
  kWarpLanes = 32,
  kMaxThreads = 1024,
  kMaxWarps = kMaxThreads / kWarpLanes,
  kBarriers = 16,
  kMostCluster = 16, // blocks
  kPoisonByte = 0xff // as float, half, bfloat16 and double: a NaN
};

// ---- memory (table.c, freed.c) ------------------------------------------------------------------

typedef enum MemoryKind { MemoryDevice, MemoryHost, MemoryRegistered } MemoryKind;

typedef struct Allocation {
  uintptr_t begin;
  size_t bytes;    // as requested
  size_t reserved; // begin + reserved is the guard page
  void *map;       // the whole mapping, guards included
  size_t map_bytes;
  MemoryKind kind;
  bool freeing; // when the stream gets there; no call may name it any more
  int serial;
  uint64_t *touched[2]; // a bit per byte that the running launch reads [0], writes [1]; counting
  uint8_t *written;     // a bit per byte, when unwritten reads are looked for
} Allocation;

const Allocation *memory_at(int index); // by address; null past the last
const Allocation *memory_find(uintptr_t address); // the one that holds it or its guards, or null
Allocation *memory_find_begin(uintptr_t address);
bool memory_inside(const Allocation *a, uintptr_t address); // not in its guards
bool memory_insert(Allocation *a);                          // false: no memory
void memory_take_out(Allocation *a);
void freed_keep(const Allocation *a);            // takes ownership of the mapping
const Allocation *freed_find(uintptr_t address); // that held it, guards included; or null
bool freed_drop(void);                           // false: nothing was kept

// ---- modules and launches -----------------------------------------------------------------------

struct CUfunc_st {
  struct CUmod_st *module;
  const CusimKernel *kernel;
  char *name; // the linker's
  int param_count;
  size_t static_smem; // bytes of static shared memory that its code reaches
  int max_dynamic_smem, carveout;
  bool wide_clusters; // of more than 8 blocks
  struct KernelCounters *counters;
  struct CUfunc_st *next;
};

typedef struct FlowBlock { // a basic block of a counted module
  const CusimBlock *row;
  int branch; // index among the blocks that branch, or -1
} FlowBlock;

struct CUmod_st {
  void *handle; // of dlopen
  int fd;       // the image's file, kept for line numbers
  const CusimImage *image;
  size_t tls_module; // of the static shared memory, or 0
  size_t tls_bytes;
  bool waits;     // its threads can wait for each other
  bool triggers;  // of C++: a kernel may let the next launch begin
  uintptr_t base; // load address
  size_t bytes;   // from there on
  uintptr_t code; // of the kernels, without the linker's stubs
  size_t code_bytes;
  uint64_t serial;   // of this module; addresses are reused
  FlowBlock *blocks; // by pc; counting
  int nblocks, nbranches;
  const CusimCountTable *counts; // of PTX; null: not counting
  uint32_t *guards; // offsets in static shared memory of the compiler's guards, 8 bytes each
  int nguards;
  CUfunction functions;
  struct CUmod_st *next;
};

typedef struct Launch {
  CUfunction function;
  unsigned grid[3], block[3];
  unsigned smem, smem_static; // dynamic; before it, static of a kernel from PTX
  bool cooperative;
  bool early;            // it may begin before the launch ahead of it in its stream has ended
  struct Launch *before; // that one, not yet run: griddepcontrol.wait has it run; or null
  atomic_ulong grid_arrived; // blocks at barriers of the grid, all turns together
  struct {
    unsigned bytes, barrier, unused[14];
  } workspace;
  bool loops;                // each block as a loop over its threads
  struct LaunchNames *names; // or null; counted
  void **params; // param_count pointers into the bytes after them; owned
  size_t params_bytes;
  unsigned cluster[3]; // blocks of one
  unsigned long total;           // blocks
  unsigned long units;           // clusters, which OS threads claim
  atomic_ulong next;             // cluster index to hand out
  atomic_int error;              // first fault's CUresult
  uint64_t order_add, order_mul; // seeded order: (i * mul + add) % units
  struct Lower *lower; // with a seed: which clusters have begun (lower.c); or null
} Launch;

extern CUmodule sim_modules; // all that are loaded
const struct CUmod_st *module_of_address(const void *pc);

// ---- fibers -------------------------------------------------------------------------------------

typedef struct CopyEntry { // an asynchronous copy that has not landed, or an arrival after such
  unsigned char *target;
  const unsigned char *source;
  int bytes, source_bytes; // the rest is zero-filled
  unsigned group;          // the commit group it belongs to
  unsigned long long *bar; // arrive there instead of copying
  const void *pc;
} CopyEntry;

typedef enum WaitKind {
  WaitNone, WaitMeeting, WaitBarrier, WaitMbar, WaitTryMbar, WaitLanes, WaitCluster, WaitRegisters
} WaitKind;

// Runs one CUDA thread at a time, and at its end the next thread of the block; or all threads of a
// block that runs as a loop.
typedef struct Fiber {
  CusimThread self; // first: cusim_self points here
  void *sp;         // saved stack pointer while it does not run
  struct Block *block;
  struct Fiber *next_free;
  unsigned char *stack; // lowest usable byte
  size_t stack_bytes;
  WaitKind wait; // reason of the wait, for reports
  const void *wait_object;
  const void *wait_pc;
  int wait_parity;
  bool try_result;   // result of mbar_try_wait
  CopyEntry *copies; // ring of kCopies, made on first use
  unsigned copy_head, copy_tail, copy_group;
  struct ProductEntry *products; // of warp groups (product_async.c), made on first use
  unsigned product_head, product_tail, product_group;
  int spins; // yields since it last made progress
  struct BulkCopy *stores, **last_store; // bulk copies out of shared memory that have not landed
  unsigned bulk_group;
  EarlyRead early;
  void *exit[5]; // exit of the thread from within a function: __builtin_setjmp's
  bool cluster_arrived; // has arrived at the cluster's barrier, and not waited
  unsigned cluster_phase; // of the barrier then
} Fiber;

enum { kCopies = 512 };

// ---- blocks -------------------------------------------------------------------------------------

struct Clock; // clock.c

typedef struct Meeting {
  unsigned mask, arrived;
  CusimWork work;
  const void *pc;
  struct Clock *clock; // published by the lanes that arrived
} Meeting;

typedef struct Warp {
  unsigned live;  // lanes that have not exited
  unsigned ready; // lanes whose fiber can run
  unsigned fresh; // lanes that have not started
  unsigned gathering;            // lanes that query which lanes are with them
  unsigned gathered[kWarpLanes]; // the answer to each
  int open;       // meetings in progress
  Meeting meetings[kWarpLanes];
  void *operands[kWarpLanes]; // of the meeting each lane is in
  Fiber *fibers[kWarpLanes];
} Warp;

typedef struct BlockBarrier {
  int expected;      // threads; 0: all live
  int arrived;       // threads, waiting or not
  int count, result; // predicates that held: in this phase, in the last
  const void *pc;    // of the first arrival
  int place;         // its place in the source
  unsigned waiting[kMaxWarps];
  struct Clock *clock; // published by the threads that arrived
} BlockBarrier;

typedef struct MbarClock { // of an mbarrier: of this phase, and of the last complete one
  const void *bar;
  struct Clock *clock, *done;
} MbarClock;

enum { kGroupThreads = 128, kGroups = kMaxThreads / kGroupThreads };

typedef struct GroupMeeting { // of a warp group
  int arrived;
  CusimWork work;
  const void *pc;
  void *operands[kGroupThreads];
} GroupMeeting;

enum { kMbarClocks = 64, kAtomicClocks = 64 };

// Blocks that run together; mostly one block.
typedef struct Cluster {
  int size;
  struct Block *blocks[kMostCluster];
  unsigned char *smem[kMostCluster]; // of each block
  unsigned long index;               // in the grid
  unsigned phase;                    // of their barrier
  int arrived;                       // threads, of this phase
} Cluster;

typedef struct Block {
  struct Launch *launch;
  Cluster *cluster;
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
  const void *work_pc;         // where it was called
  struct BulkCopy *loads, **last_load; // bulk copies into shared memory that have not landed
  GroupMeeting groups[kGroups];
  uint32_t proxy[kMaxThreads]; // clock of each thread at its last fence.proxy.async
  uint64_t ended;              // threads, of all blocks; never goes back
  uint64_t random;             // state of the seeded order
  uint64_t arrivals, meetings; // of threads at barriers, of lanes at meetings; for the counters
  struct Issues *issues[kMaxWarps]; // of its warps, or NULL (issues.c)
  uint32_t serial;             // of the block, over all launches (race checking)
  uint32_t last_atomic;        // number of its last atomic operation
  struct Clock *known[kMaxThreads]; // what each thread knows of the others, and its releases; has
  uint32_t own[kMaxThreads];        // it learned since; its last atomic may not have been made yet
  bool learned[kMaxThreads], atomic_open[kMaxThreads];
  MbarClock mbars[kMbarClocks];
  struct Readings *readings; // of products in flight (reading.c), or NULL
  struct Passed *passed[kMaxWarps]; // completed reads (passed.c); NULL before the first collective
  int registers[kMaxWarps]; // of a thread of each warp, since its setmaxnreg; 0: as at launch
  struct Clock *cluster_clocks[2]; // what threads published at the cluster's barrier, by its phase
  struct Clock *exited;         // published by threads that have ended
  struct Clock *atomics[kAtomicClocks]; // published at addresses, by their hash
  int nmbars;
} Block;

// An OS thread that runs blocks.
enum { kTlsGuard = 4096 }; // as in device/cusim_guard.s

typedef struct Worker {
  Block block;     // the first one of
  Cluster cluster; // the others are owned
  void *main_sp; // stack of the OS thread, while a fiber runs
  Fiber *free, **fibers; // free fibers; all fibers it has created
  int nfibers, last_stack;   // last_stack: of the fiber on whose stack an address was found last
  bool abandoned;            // the block ended with a fault
  unsigned quick;            // checks of the fast path of accesses (shadow.h); 0: it is disabled
  int nsuspects;
  Suspect suspects[kSuspects];
  unsigned char *tls_shared; // the module's static shared memory of this thread
  size_t tls_bytes;          // without the guard after it, kTlsGuard bytes
  const void *fault_pc, *fault_address; // signal -> report
  bool fault_known;       // the address is
  const char *fault_kind; // ", a write", ", a read" or, if the processor does not report it, ""
  int fault_signal, ticks; // ticks: since a thread ended
  void *signal_stack; // owned; NULL: the program has set one
  timer_t timer; // watchdog.c
  bool has_timer;
  MemoryFound found[1 << kFoundBits]; // last, by a hash of the address
  void *scratch; // owned; for the work of meetings
  size_t scratch_bytes;
  uint64_t ended_before;
} Worker;

extern __thread Worker *sim_worker __attribute__((tls_model("initial-exec")));

static inline Fiber *fiber_running(void) {
  return (Fiber *)cusim_self;
}
static inline Warp *fiber_warp(Fiber *fiber) {
  return &fiber->block->warps[fiber->self.linear / kWarpLanes];
}

#pragma GCC visibility pop
#endif
