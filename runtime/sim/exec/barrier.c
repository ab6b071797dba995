// barrier.c: the numbered barriers of a block.
#include "sim/exec/exec.h"

#include <pthread.h>
#include <string.h>

static bool complete(Block *block, const BlockBarrier *barrier) {
  return barrier->arrived &&
         barrier->arrived >= (barrier->expected ? barrier->expected : block->live);
}

// Releases the waiting threads; also `last`, the thread whose arrival completed it, unless
// negative.
static void release(Block *block, BlockBarrier *barrier, int last) {
  int warps = (block->threads + kWarpLanes - 1) / kWarpLanes;
  if (!barrier->expected) clock_join(&barrier->clock, block->exited);
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

// ---- one barrier from several places ------------------------------------------------------------

// Pairs of addresses known to be one source line: copies that the compiler made of it. Looking up
// lines is slow, so results are shared by all threads; each checks its own last pairs first.
enum { kPairs = 64, kSharedPairs = 4096 };
typedef struct Pair {
  const void *a, *b; // in this order: a < b
} Pair;

static size_t pair_slot(Pair p, size_t count) {
  uint64_t mixed = ((uintptr_t)p.a * 0x9e3779b97f4a7c15u) ^ ((uintptr_t)p.b * 0xc2b2ae3d27d4eb4fu);
  return (size_t)(mixed >> 32) % count;
}

// Is it among the pairs that all know? With `add` it is from now on.
static bool shared_pair(Pair p, bool add) {
  static Pair shared[kSharedPairs];
  static int count;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  if (count > kSharedPairs / 2) memset(shared, 0, sizeof shared), count = 0;
  size_t slot = pair_slot(p, kSharedPairs);
  while (shared[slot].a && (shared[slot].a != p.a || shared[slot].b != p.b))
    slot = (slot + 1) % kSharedPairs;
  bool found = shared[slot].a != NULL;
  if (!found && add) shared[slot] = p, count++;
  pthread_mutex_unlock(&lock);
  return found;
}

// A warning sign: threads of one block are at one barrier from different places of the source,
// which the language only allows for named barriers. Places without a number differ by their lines.
static void compare_places(BlockBarrier *barrier, int place, const void *pc) {
  static __thread Pair same[kPairs];
  bool ordered = (uintptr_t)pc < (uintptr_t)barrier->pc;
  Pair pair = {ordered ? pc : barrier->pc, ordered ? barrier->pc : pc};
  Pair *known = &same[pair_slot(pair, kPairs)];
  bool numbered = place && barrier->place, apart = numbered && place != barrier->place;
  if (numbered && !apart) return;
  if (!apart && known->a == pair.a && known->b == pair.b) return;
  if (apart || !shared_pair(pair, false)) {
    char here[256], there[256];
    fault_line(pc, here, sizeof here);
    fault_line(barrier->pc, there, sizeof there);
    bool differ = strcmp(here, there) != 0;
    bool lines = strchr(here, ':') && strchr(there, ':'); // without addr2line there are no lines
    if (apart || (lines && differ))
      fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc,
                  "not all threads reach the barrier at %s: others wait at %s", here,
                  differ ? there : "another in that line");
    shared_pair(pair, true);
  }
  *known = pair;
}

// ---- arriving and waiting -----------------------------------------------------------------------

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
                "barrier %d: %d threads is not a multiple of 32, or more than the block's %d", id,
                threads, block->threads);
  if (!barrier->arrived) barrier->pc = pc, barrier->place = place;
  bool elsewhere = barrier->pc != pc || barrier->place != place;
  if (elsewhere && id == 0 && sim_settings()->basic) compare_places(barrier, place, pc);
  barrier->expected = threads;
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

// A thread has exited: it counts as present at barriers of all live threads, and its operations are
// ordered before these.
void barrier_exit(Block *block, int thread) {
  clock_publish(block, &block->exited, thread);
  BlockBarrier *all = &block->barriers[0];
  if (!all->expected && complete(block, all)) release(block, all, -1);
}
