// barrier.c: the barriers of a block, all that its threads meet at by number.
#include "sim/exec/exec.h"

#include <string.h>

static bool complete(Block *block, const BlockBarrier *barrier) {
  return barrier->arrived &&
         barrier->arrived >= (barrier->expected ? barrier->expected : block->live);
}

// Lets those go on that wait; `last`, the thread whose arrival completed it, goes on too, if it
// is not negative.
static void release(Block *block, BlockBarrier *barrier, int last) {
  int warps = (block->threads + kWarpLanes - 1) / kWarpLanes;
  if (!barrier->expected) clock_join(block, &barrier->clock, block->exited);
  for (int w = 0; w < warps; w++) {
    if (!barrier->waiting[w]) continue;
    block->warps[w].ready |= barrier->waiting[w];
    block->ready_warps |= 1u << w;
    for (unsigned rest = barrier->waiting[w]; rest && barrier->clock; rest &= rest - 1)
      clock_take(block, barrier->clock, w * kWarpLanes + __builtin_ctz(rest));
    barrier->waiting[w] = 0;
  }
  if (last >= 0) clock_take(block, barrier->clock, last);
  clock_drop(&barrier->clock);
  barrier->result = barrier->count;
  barrier->count = barrier->arrived = 0;
}

// A warning sign: threads of one block are at one barrier from different places of the source,
// which the language only allows for named barriers. Places without a number differ by their lines.
static void compare_places(BlockBarrier *barrier, int place, const void *pc) {
  enum { kPairs = 64 }; // of addresses known to be one line: copies the compiler made of it
  static __thread struct {
    const void *a, *b;
  } same[kPairs];
  size_t slot = ((uintptr_t)pc ^ (uintptr_t)barrier->pc << 3) % kPairs;
  bool apart = place && barrier->place && place != barrier->place;
  if (!apart && same[slot].a == pc && same[slot].b == barrier->pc) return;
  char here[256], there[256];
  fault_line(pc, here, sizeof here);
  fault_line(barrier->pc, there, sizeof there);
  bool differ = strcmp(here, there) != 0;
  bool known = strchr(here, ':') && strchr(there, ':'); // without addr2line there are no lines
  if (apart || (known && differ))
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc,
                "not all threads reach the barrier at %s: others wait at %s", here,
                differ ? there : "another in that line");
  same[slot].a = pc;
  same[slot].b = barrier->pc;
}

static inline __attribute__((always_inline)) BlockBarrier *arrive(Fiber *fiber, int id, int threads,
                                                                  int place, const void *pc) {
  Block *block = fiber->block;
  if (id < 0 || id >= kBarriers)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc, "there is no barrier %d, only 0 to 15", id);
  BlockBarrier *barrier = &block->barriers[id];
  if (barrier->arrived && barrier->expected != threads)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc, "barrier %d is for %d threads here, for %d elsewhere",
                id, threads ? threads : block->threads,
                barrier->expected ? barrier->expected : block->threads);
  if (threads % kWarpLanes || threads > block->threads)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc,
                "barrier %d: %d threads is no multiple of 32, or more than the block's %d", id,
                threads, block->threads);
  if (!barrier->arrived) barrier->pc = pc, barrier->place = place;
  bool elsewhere = barrier->pc != pc || barrier->place != place;
  if (elsewhere && id == 0 && sim_settings()->basic) compare_places(barrier, place, pc);
  barrier->expected = threads;
  trace_meet(block);
  block->arrivals++;
  barrier->arrived++;
  clock_publish(block, &barrier->clock, (int)fiber->self.linear);
  return barrier;
}

static inline void wait_at(Fiber *fiber, BlockBarrier *barrier, const void *pc) {
  if (complete(fiber->block, barrier)) {
    release(fiber->block, barrier, (int)fiber->self.linear);
    return;
  }
  barrier->waiting[fiber->self.linear / kWarpLanes] |= 1u << fiber->self.linear % kWarpLanes;
  block_wait(fiber, WaitBarrier, barrier, pc);
}

void cusim_barrier(int id, int threads) {
  Fiber *fiber = fiber_running();
  const void *pc = __builtin_return_address(0);
  wait_at(fiber, arrive(fiber, id, threads, 0, pc), pc);
}

void cusim_barrier_at(int place) {
  Fiber *fiber = fiber_running();
  const void *pc = __builtin_return_address(0);
  wait_at(fiber, arrive(fiber, 0, 0, place, pc), pc);
}

void cusim_barrier_arrive(int id, int threads) {
  Fiber *fiber = fiber_running();
  BlockBarrier *barrier = arrive(fiber, id, threads, 0, __builtin_return_address(0));
  if (complete(fiber->block, barrier)) release(fiber->block, barrier, -1);
}

int cusim_barrier_count(int predicate) {
  Fiber *fiber = fiber_running();
  const void *pc = __builtin_return_address(0);
  BlockBarrier *barrier = arrive(fiber, 0, 0, 0, pc);
  barrier->count += predicate != 0;
  wait_at(fiber, barrier, pc);
  return barrier->result;
}

int cusim_barrier_reduce(int id, int threads, int predicate) {
  Fiber *fiber = fiber_running();
  const void *pc = __builtin_return_address(0);
  BlockBarrier *barrier = arrive(fiber, id, threads, 0, pc);
  barrier->count += predicate != 0;
  wait_at(fiber, barrier, pc);
  return barrier->result;
}

void cusim_barrier_named(int id, int threads, int place) {
  Fiber *fiber = fiber_running();
  const void *pc = __builtin_return_address(0);
  wait_at(fiber, arrive(fiber, id, threads, id || threads ? 0 : place, pc), pc);
}

int cusim_live_threads(void) {
  return fiber_running()->block->live;
}

// A thread has exited: it counts as present where all live threads are awaited, and what it did
// lies before such a barrier.
void barrier_exit(Block *block, int thread) {
  trace_meet(block);
  clock_publish(block, &block->exited, thread);
  BlockBarrier *all = &block->barriers[0];
  if (!all->expected && complete(block, all)) release(block, all, -1);
}
