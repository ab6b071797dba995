// block.c: runs the threads of one block on the fibers of one OS thread.
//
// Nothing preempts a fiber: it runs until it waits in a collective or barrier, yields, or its CUDA
// thread ends. Each warp keeps the lanes that can run as a bit mask, the block a mask of warps,
// so that releasing a warp and choosing the next lane are a few instructions. A warp runs as
// long as it can (its data is in cache). With NNGEN_SIM_SEED the choices are random.
#include "sim/exec/exec.h"

#include <sched.h>
#include <string.h>

enum { kSpins = 64 };

void fiber_main(void);

uint64_t block_random(Block *block) { // xorshift64*
  uint64_t x = block->random;
  x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
  block->random = x;
  return x * 0x2545f4914f6cdd1dull >> 32;
}

// The lowest set bit, or with a seed any of them. bits is not 0.
static inline int choose(Block *block, unsigned bits) {
  if (!block->random) return __builtin_ctz(bits);
  int turn = (int)(block_random(block) % 32);
  unsigned turned = bits >> turn | (turn ? bits << (32 - turn) : 0);
  return (__builtin_ctz(turned) + turn) % 32;
}

// Removes the lane from its warp's masks; returns the fiber to continue, or a free one to start it.
static inline __attribute__((always_inline)) Fiber *take_lane(Block *block, Warp *warp, int lane) {
  unsigned bit = 1u << lane;
  if (warp->ready & bit) {
    warp->ready &= ~bit;
    return warp->fibers[lane];
  }
  warp->fresh &= ~bit;
  block->start = (int)(warp - block->warps) * kWarpLanes + lane;
  Fiber *fiber = fiber_take(sim_worker, block->launch);
  if (fiber) fiber->block = block;
  if (!fiber) fault_raise(CUDA_ERROR_OUT_OF_MEMORY, NULL, "no memory for another thread's stack");
  return fiber;
}

// No lane of the block can run: returns another block of the cluster that can, or the same one if a
// waiter was released. Else reports a deadlock.
static Block *stall(Block *block) {
  const Cluster *c = block->cluster;
  Block *next = c->size > 1 ? cluster_next(block) : NULL;
  if (next) return next;
  for (int r = 0; r < c->size; r++)
    if (copy_land_deferred(c->blocks[r]) || bulk_land_one(c->blocks[r])) return c->blocks[r];
  for (int r = 0; r < c->size; r++)
    if (mbar_wake_trying(c->blocks[r])) return c->blocks[r];
  for (int r = 0; r < c->size; r++)
    if (c->blocks[r]->live) fault_deadlock(c->blocks[r]);
  return block;
}

// The next fiber to run. Not called when all threads have ended.
static inline __attribute__((always_inline)) Fiber *pick(Block *block) {
  for (;;) {
    Warp *warp = &block->warps[block->warp];
    unsigned lanes = warp->ready ? warp->ready : warp->fresh;
    if (block->random) lanes = warp->ready | warp->fresh;
    if (lanes) return take_lane(block, warp, choose(block, lanes));
    if (warp->gathering && grid_gather(warp)) continue;
    block->ready_warps &= ~(1u << block->warp);
    if (block->ready_warps)
      block->warp = choose(block, block->ready_warps);
    else
      block = stall(block);
  }
}

static inline __attribute__((always_inline)) void go(Fiber *from, Fiber *to) {
  if (from == to) return;
  cusim_self = &to->self;
  fiber_switch(&from->sp, to->sp);
}

void block_wait(Fiber *fiber, WaitKind kind, const void *object, const void *pc) {
  trace_leave(fiber);
  fiber->wait = kind;
  fiber->wait_object = object;
  fiber->wait_pc = pc;
  go(fiber, pick(fiber->block));
  fiber->wait = WaitNone;
}

void block_ready(Fiber *fiber) {
  int warp = (int)(fiber->self.linear / kWarpLanes);
  fiber->block->warps[warp].ready |= 1u << fiber->self.linear % kWarpLanes;
  fiber->block->ready_warps |= 1u << warp;
}

// Yields to every other runnable lane: the warp's higher lanes first, then the other warps in turn.
void block_yield(Fiber *fiber) {
  trace_leave(fiber);
  Block *block = fiber->block;
  Warp *warp = fiber_warp(fiber);
  unsigned above = (warp->ready | warp->fresh) & ~((2u << fiber->self.linear % kWarpLanes) - 1);
  block_ready(fiber);
  if (above) {
    go(fiber, take_lane(block, warp, choose(block, above)));
    return;
  }
  unsigned later = block->ready_warps & ~((2u << block->warp) - 1);
  block->warp = choose(block, later ? later : block->ready_warps);
  go(fiber, pick(block));
}

void cusim_yield(void) {
  Fiber *fiber = fiber_running();
  block_yield(fiber);
  if (++fiber->spins % kSpins) return;
  Block *other = fiber->block->cluster->size > 1 ? cluster_next(fiber->block) : NULL;
  if (other) { // it may wait for another block of its cluster
    trace_leave(fiber);
    block_ready(fiber);
    go(fiber, pick(other));
  }
  // It may wait for another block, which may have failed. NOTE: a single block does not yield the
  // processor: the watchdog counts processor time, and would be late on a busy host.
  if (fiber->block->launch->cooperative) sched_yield();
  if (fiber->block->launch->lower) {
    trace_leave(fiber);
    lower_spin(fiber->block);
  }
  if (atomic_load_explicit(&fiber->block->launch->error, memory_order_relaxed)) block_abandon();
}

static void start_thread(Fiber *fiber, int index) {
  Block *block = fiber->block;
  CusimThread *self = &fiber->self;
  const unsigned *dim = block->launch->block;
  *self = block->place;
  self->stack_end = fiber->stack + fiber->stack_bytes;
  self->linear = self->thread[0] = (unsigned)index;
  if (dim[0] != (unsigned)block->threads) {
    self->thread[0] = (unsigned)index % dim[0];
    self->thread[1] = (unsigned)index / dim[0] % dim[1];
    self->thread[2] = (unsigned)index / dim[0] / dim[1];
  }
  fiber->copy_head = fiber->copy_tail = fiber->copy_group = 0;
  fiber->product_head = fiber->product_tail = fiber->product_group = 0;
  fiber->spins = 0;
  fiber->stores = NULL;
  fiber->last_store = &fiber->stores;
  fiber->bulk_group = 0;
  fiber->early.base = 0;
  fiber->cluster_arrived = false;
  fiber_warp(fiber)->fibers[index % kWarpLanes] = fiber;
}

static void end_thread(Fiber *fiber) {
  trace_leave(fiber);
  Block *block = fiber->block;
  if (fiber->copy_head != fiber->copy_tail) copy_land_all(fiber);
  if (fiber->stores) bulk_land_stores(fiber, fiber->bulk_group + 1);
  fiber_warp(fiber)->live &= ~(1u << fiber->self.linear % kWarpLanes);
  block->live--;
  block->ended++;
  meeting_exit(fiber);
  barrier_exit(block, (int)fiber->self.linear);
  if (block->cluster->arrived) cluster_exit(fiber);
}

// Runs a whole block whose threads cannot wait: the compiler's own loop.
static void run_loop(Fiber *fiber) {
  Block *block = fiber->block;
  start_thread(fiber, 0);
  block->launch->function->kernel->loop(block->launch->params);
  block->ended += (uint64_t)block->live;
  block->live = 0;
}

// True if this fiber takes the next lane of the running warp because no other lane can run.
static inline bool next_in_warp(Block *block) {
  Warp *warp = &block->warps[block->warp];
  if (block->random || warp->ready || !warp->fresh) return false;
  int lane = __builtin_ctz(warp->fresh);
  warp->fresh &= warp->fresh - 1;
  block->start = block->warp * kWarpLanes + lane;
  return true;
}

void cusim_exit(void) {
  __builtin_longjmp(fiber_running()->exit, 1);
}

static void run_threads(Fiber *volatile fiber_here) {
  Fiber *volatile fiber = fiber_here; // volatile: a thread may end in the midst of a call
  Block *volatile block = fiber->block;
  do {
    start_thread(fiber, block->start);
    if (__builtin_setjmp(fiber->exit) == 0)
      block->launch->function->kernel->enter(block->launch->params);
    end_thread(fiber);
  } while (next_in_warp(block));
}

// The main loop of a fiber: starts threads that have not run, runs them, yields.
void fiber_main(void) {
  Fiber *fiber = fiber_running();
  for (;;) {
    Block *block = fiber->block;
    if (block->launch->loops)
      run_loop(fiber);
    else
      run_threads(fiber);
    Worker *worker = sim_worker;
    fiber->next_free = worker->free;
    worker->free = fiber;
    if (cluster_lives(block->cluster)) {
      go(fiber, pick(block));
    } else {
      fiber_switch(&fiber->sp, worker->main_sp);
    }
  }
}

// The built-in variables common to the block: the cluster `index`, block `rank`.
static CusimThread place(const Worker *worker, const Launch *launch, unsigned long index,
                         unsigned rank) {
  const unsigned *dim = launch->cluster;
  CusimThread self = {.smem = worker->cluster.smem[rank], .smem_static = launch->smem_static};
  unsigned in_grid[3],
      in_cluster[3] = {rank % dim[0], rank / dim[0] % dim[1], rank / dim[0] / dim[1]};
  for (int i = 0; i < 3; i++) {
    unsigned clusters = launch->grid[i] / dim[i];
    in_grid[i] = (unsigned)(index % clusters);
    index /= clusters;
    self.block[i] = in_grid[i] * dim[i] + in_cluster[i];
  }
  self.smem_bytes = launch->smem_static + launch->smem;
  memcpy(self.block_dim, launch->block, sizeof self.block_dim);
  memcpy(self.grid_dim, launch->grid, sizeof self.grid_dim);
  memcpy(self.cluster_dim, dim, sizeof self.cluster_dim);
  self.cluster_rank = rank;
  self.cluster_size = (unsigned)worker->cluster.size;
  self.peers = worker->cluster.smem;
  return self;
}

static void clear(Block *block, Launch *launch, uint64_t random) {
  block->launch = launch;
  block->threads = block->live = (int)(launch->block[0] * launch->block[1] * launch->block[2]);
  int warps = (block->threads + kWarpLanes - 1) / kWarpLanes;
  for (int w = 0; w < warps; w++) {
    Warp *warp = &block->warps[w];
    int lanes = block->threads - w * kWarpLanes;
    warp->fresh = warp->live = lanes >= kWarpLanes ? ~0u : (1u << lanes) - 1;
    warp->ready = 0;
    warp->open = 0;
    warp->gathering = 0;
  }
  for (int i = 0; i < kBarriers; i++) clock_drop(&block->barriers[i].clock);
  for (int i = 0; i < 2; i++) clock_drop(&block->cluster_clocks[i]);
  memset(block->barriers, 0, sizeof block->barriers);
  clock_drop(&block->exited);
  for (; block->nmbars; block->nmbars--) {
    clock_drop(&block->mbars[block->nmbars - 1].clock);
    clock_drop(&block->mbars[block->nmbars - 1].done);
  }
  block->ready_warps = warps == kMaxWarps ? ~0u : (1u << warps) - 1;
  block->warp = 0;
  memset(block->registers, 0, sizeof block->registers);
  block->deferred = block->try_waiters = 0;
  block->working = false;
  bulk_drop(block);
  for (int i = 0; i < kGroups; i++) block->groups[i].arrived = 0;
  block->random = random;
  block->arrivals = block->meetings = 0;
}

// Ends a block whose launch has failed: its fibers are reset.
void block_abandon(void) {
  Worker *worker = sim_worker;
  void *lost;
  worker->abandoned = true;
  fiber_switch(&lost, worker->main_sp);
  __builtin_unreachable();
}

static void recover(Worker *worker) {
  worker->free = NULL;
  for (int i = 0; i < worker->nfibers; i++) {
    fiber_reset(worker->fibers[i]);
    worker->fibers[i]->next_free = worker->free;
    worker->free = worker->fibers[i];
  }
  worker->abandoned = false;
}

static void no_memory(Launch *launch) {
  int none = 0;
  if (!atomic_load(&launch->error))
    fputs("libcusim: no memory for the stack of a thread\n", stderr);
  atomic_compare_exchange_strong(&launch->error, &none, CUDA_ERROR_OUT_OF_MEMORY);
}

static Fiber *first_loop(Worker *worker) {
  Fiber *fiber = fiber_take(worker, worker->block.launch);
  fiber->block = &worker->block;
  return fiber;
}

void cluster_run(Worker *worker, Launch *launch, unsigned long index) {
  uint64_t seed = sim_settings()->seed;
  Cluster *c = &worker->cluster;
  c->index = index;
  c->phase = 0;
  c->arrived = 0;
  for (int r = 0; r < c->size; r++) {
    unsigned long number = index * (unsigned long)c->size + (unsigned long)r;
    c->blocks[r]->cluster = c;
    clear(c->blocks[r], launch, seed ? (seed * 0x9e3779b97f4a7c15ull + number) | 1 : 0);
  }
  if (!fiber_ready(worker)) {
    no_memory(launch);
    return;
  }
  for (int r = 0; r < c->size; r++) {
    c->blocks[r]->place = place(worker, launch, index, (unsigned)r);
    trace_block(c->blocks[r]);
  }
  Fiber *first = launch->loops ? first_loop(worker) : pick(&worker->block);
  cusim_self = &first->self;
  fiber_switch(&worker->main_sp, first->sp);
  cusim_self = NULL;
  for (int r = 0; r < c->size; r++) trace_block_end(c->blocks[r]);
  if (worker->abandoned) recover(worker);
}
