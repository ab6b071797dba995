// barrier.c: the ways threads of a block wait for each other: meetings of lanes, block barriers,
// and mbarriers in shared memory.
#include "sim/sim.h"

#include <string.h>

// ---- meetings ----------------------------------------------------------------------------------

// A meeting without work is __syncwarp, which also orders memory.
static void order_lanes(Block *block, Warp *warp, Meeting *meeting, unsigned lanes) {
  for (unsigned rest = lanes; rest && meeting->clock; rest &= rest - 1)
    clock_take(block, meeting->clock,
               (int)(warp - block->warps) * kWarpLanes + __builtin_ctz(rest));
}

static void close_meeting(Warp *warp, Meeting *meeting) {
  clock_drop(&meeting->clock);
  *meeting = warp->meetings[--warp->open];
}

static inline void do_work(Block *block, Warp *warp, CusimWork work, unsigned lanes) {
  block->working = true;
  work(warp->operands, lanes);
  block->working = false;
}

// All that live have arrived: does the work and lets them go on.
static void finish(Block *block, Warp *warp, Meeting *meeting) {
  if (meeting->work) do_work(block, warp, meeting->work, meeting->arrived);
  order_lanes(block, warp, meeting, meeting->arrived);
  warp->ready |= meeting->arrived;
  block->ready_warps |= 1u << (warp - block->warps);
  close_meeting(warp, meeting);
}

static Meeting *find(Warp *warp, unsigned mask, CusimWork work, const void *pc) {
  for (int i = 0; i < warp->open; i++) {
    Meeting *meeting = &warp->meetings[i];
    if (meeting->mask == mask && meeting->work == work) return meeting;
    if (meeting->mask == mask)
      fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc,
                  "lanes of one warp, all of mask %08x, meet in different operations", mask);
  }
  Meeting *meeting = &warp->meetings[warp->open++];
  *meeting = (Meeting){mask, 0, work, pc, NULL};
  return meeting;
}

void cusim_meet(unsigned mask, CusimWork work, void *operands) {
  Fiber *fiber = fiber_running();
  Warp *warp = fiber_warp(fiber);
  int lane = fiber->self.linear % kWarpLanes;
  const void *pc = __builtin_return_address(0);
  if (!(mask >> lane & 1))
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc, "lane %d is not in its own mask %08x", lane, mask);
  Meeting *meeting = find(warp, mask, work, pc);
  warp->operands[lane] = operands;
  fiber->block->meetings++;
  meeting->arrived |= 1u << lane;
  if (!work) clock_publish(fiber->block, &meeting->clock, (int)fiber->self.linear);
  if (warp->live & mask & ~meeting->arrived) {
    block_wait(fiber, WaitMeeting, meeting, pc);
    return;
  }
  meeting->arrived &= ~(1u << lane); // this one runs on
  unsigned others = meeting->arrived;
  if (work) do_work(fiber->block, warp, work, others | 1u << lane);
  order_lanes(fiber->block, warp, meeting, others | 1u << lane);
  close_meeting(warp, meeting);
  warp->ready |= others;
  fiber->block->ready_warps |= 1u << (warp - fiber->block->warps);
}

void meeting_exit(Fiber *fiber) {
  Warp *warp = fiber_warp(fiber);
  for (int i = warp->open - 1; i >= 0; i--) {
    Meeting *meeting = &warp->meetings[i];
    if (!(warp->live & meeting->mask & ~meeting->arrived)) finish(fiber->block, warp, meeting);
  }
}

// ---- block barriers -----------------------------------------------------------------------------

static bool complete(Block *block, const BlockBarrier *barrier) {
  return barrier->arrived &&
         barrier->arrived >= (barrier->expected ? barrier->expected : block->live);
}

// Lets those go on that wait; `last`, the thread whose arrival completed it, goes on too, if it
// is not negative.
static void release(Block *block, BlockBarrier *barrier, int last) {
  int warps = (block->threads + kWarpLanes - 1) / kWarpLanes;
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

int cusim_live_threads(void) {
  return fiber_running()->block->live;
}

// A thread has exited: it counts as present where all live threads are awaited.
void barrier_exit(Block *block) {
  BlockBarrier *all = &block->barriers[0];
  if (!all->expected && complete(block, all)) release(block, all, -1);
}

// ---- mbarriers ----------------------------------------------------------------------------------

// An mbarrier's 8 bytes, as libcusim packs them. `magic` tells an initialised one from garbage.
typedef union Mbarrier {
  unsigned long long word;
  struct {
    unsigned long long pending : 13, expected : 13, phase : 1, magic : 10;
    long long bytes : 27; // announced by expect_tx, less what has landed
  };
} Mbarrier;

enum { kMbarMagic = 0x2b5, kMbarArrivals = (1 << 13) - 1 };

// Where an mbarrier's clocks are kept; null when races are not looked for.
static MbarClock *mbar_clock(Block *block, const void *bar) {
  if (!sim_settings()->race) return NULL;
  int i = 0;
  while (i < block->nmbars && block->mbars[i].bar != bar) i++;
  if (i == kMbarClocks) return NULL;
  if (i == block->nmbars) block->mbars[block->nmbars++] = (MbarClock){bar, NULL, NULL};
  return &block->mbars[i];
}

static void publish_at(Block *block, const void *bar, int thread) {
  MbarClock *clocks = mbar_clock(block, bar);
  if (clocks) clock_publish(block, &clocks->clock, thread);
}

static void take_from(Block *block, const void *bar, int thread) {
  MbarClock *clocks = mbar_clock(block, bar);
  if (clocks) clock_take(block, clocks->done, thread);
}

static void turn_phase(Block *block, const void *bar) {
  MbarClock *clocks = mbar_clock(block, bar);
  if (!clocks) return;
  clock_drop(&clocks->done);
  clocks->done = clocks->clock;
  clocks->clock = NULL;
}

static Mbarrier read_mbar(unsigned long long *bar, const void *pc) {
  if ((uintptr_t)bar % sizeof *bar)
    fault_raise(CUDA_ERROR_MISALIGNED_ADDRESS, pc, "mbarrier at %p is not 8-aligned", (void *)bar);
  Mbarrier state = {*bar};
  if (state.magic != kMbarMagic)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc, "mbarrier at %p was never initialised", (void *)bar);
  return state;
}

void cusim_mbar_init(unsigned long long *bar, int arrivals) {
  const void *pc = __builtin_return_address(0);
  if ((uintptr_t)bar % sizeof *bar)
    fault_raise(CUDA_ERROR_MISALIGNED_ADDRESS, pc, "mbarrier at %p is not 8-aligned", (void *)bar);
  if (arrivals < 1 || arrivals > kMbarArrivals)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc, "mbarrier for %d arrivals", arrivals);
  Mbarrier state = {0};
  state.pending = state.expected = (unsigned)arrivals;
  state.magic = kMbarMagic;
  *bar = state.word;
}

// Lets those go on that wait for a phase which is now done.
static void wake(Block *block, unsigned long long *bar) {
  for (int t = 0; t < block->threads; t++) {
    Warp *warp = &block->warps[t / kWarpLanes];
    unsigned bit = 1u << t % kWarpLanes;
    if (!(warp->live & bit) || ((warp->fresh | warp->ready) & bit)) continue;
    Fiber *fiber = warp->fibers[t % kWarpLanes];
    if (fiber->wait != WaitMbar && fiber->wait != WaitTryMbar) continue;
    if (fiber->wait_object != bar || !mbar_done(bar, fiber->wait_parity)) continue;
    fiber->try_result = true;
    fiber->wait = WaitNone;
    block_ready(fiber);
  }
}

void mbar_arrive(Fiber *fiber, unsigned long long *bar, int expect_bytes, const void *pc) {
  Block *block = fiber->block;
  Mbarrier state = {*bar};
  if (!state.pending)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc,
                "more threads arrive at the mbarrier at %p than the %d it was initialised for",
                (void *)bar, (int)state.expected);
  state.bytes += expect_bytes;
  state.pending--;
  publish_at(block, bar, (int)fiber->self.linear);
  bool done = state.pending == 0 && state.bytes == 0;
  if (done) state.pending = state.expected, state.phase ^= 1;
  *bar = state.word;
  if (!done) return;
  turn_phase(block, bar);
  wake(block, bar);
}

void cusim_mbar_arrive(unsigned long long *bar, int expect_bytes) {
  read_mbar(bar, __builtin_return_address(0));
  mbar_arrive(fiber_running(), bar, expect_bytes, __builtin_return_address(0));
}

bool mbar_done(unsigned long long *bar, int parity) {
  Mbarrier state = {*bar};
  return (int)state.phase != (parity & 1);
}

void cusim_mbar_wait(unsigned long long *bar, int parity) {
  Fiber *fiber = fiber_running();
  const void *pc = __builtin_return_address(0);
  read_mbar(bar, pc);
  fiber->wait_parity = parity;
  while (!mbar_done(bar, parity)) block_wait(fiber, WaitMbar, bar, pc);
  take_from(fiber->block, bar, (int)fiber->self.linear);
}

// Waits like mbar_wait, but gives false when the block could not go on otherwise.
int cusim_mbar_try_wait(unsigned long long *bar, int parity) {
  Fiber *fiber = fiber_running();
  Block *block = fiber->block;
  const void *pc = __builtin_return_address(0);
  read_mbar(bar, pc);
  int thread = (int)fiber->self.linear;
  if (mbar_done(bar, parity)) return take_from(block, bar, thread), fiber->spins = 0, 1;
  fiber->wait_parity = parity;
  fiber->try_result = false;
  block->try_waiters++;
  block_wait(fiber, WaitTryMbar, bar, pc);
  block->try_waiters--;
  fiber->spins = fiber->try_result ? 0 : fiber->spins + 1;
  if (fiber->try_result) take_from(block, bar, thread);
  return fiber->try_result;
}

// Nothing else can run: lets the threads inside try_wait return false. They spin, so a block that
// got here again and again without any progress is deadlocked.
bool mbar_wake_trying(Block *block) {
  enum { kHopeless = 8 };
  bool woken = false;
  for (int t = 0; block->try_waiters && t < block->threads; t++) {
    Warp *warp = &block->warps[t / kWarpLanes];
    unsigned bit = 1u << t % kWarpLanes;
    Fiber *fiber = warp->fibers[t % kWarpLanes];
    if (!(warp->live & bit) || ((warp->fresh | warp->ready) & bit)) continue;
    if (fiber->wait != WaitTryMbar || fiber->spins > kHopeless) continue;
    fiber->wait = WaitNone;
    block_ready(fiber);
    woken = true;
  }
  return woken;
}
