// mbarrier.c: mbarriers in shared memory, which complete by arrivals and by bytes.
#include "sim/exec/exec.h"

// The layout of an mbarrier's 8 bytes. `magic` distinguishes an initialised one from garbage.
typedef union Mbarrier {
  unsigned long long word;
  struct {
    unsigned long long pending : 13, expected : 13, phase : 1, magic : 10;
    long long bytes : 27; // announced by expect_tx, less what has landed
  };
} Mbarrier;

enum { kMbarMagic = 0x2b5, kMbarArrivals = (1 << 13) - 1 };

// The clocks of an mbarrier, or NULL if races are not checked.
static MbarClock *mbar_clock(Block *block, const void *bar) {
  if (!sim_settings()->race) return NULL;
  int i = 0;
  while (i < block->nmbars && block->mbars[i].bar != bar) i++;
  if (i == kMbarClocks) return NULL;
  if (i == block->nmbars) block->mbars[block->nmbars++] = (MbarClock){bar, NULL, NULL};
  return &block->mbars[i];
}

// Not for a block of another cluster: races between blocks are not checked there.
static void publish_at(Block *block, const void *bar, int thread) {
  if (cluster_owner(block, bar) != block) return;
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

int cusim_mbar_phase(unsigned long long word) {
  return (int)((Mbarrier){word}).phase;
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

// Releases the threads that wait for a phase which is now complete.
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

// Ends the phase when all have arrived and all expected bytes have landed.
static void settle(Block *from, unsigned long long *bar, Mbarrier state) {
  Block *block = cluster_owner(from, bar);
  bool done = state.pending == 0 && state.bytes == 0;
  if (done) state.pending = state.expected, state.phase ^= 1;
  *bar = state.word;
  if (!done) return;
  turn_phase(block, bar);
  wake(block, bar);
}

void mbar_complete(Block *block, unsigned long long *bar, int bytes, int thread, const void *pc) {
  Mbarrier state = read_mbar(bar, pc);
  state.bytes -= bytes;
  publish_at(block, bar, thread);
  settle(block, bar, state);
}

static void arrive(Fiber *fiber, unsigned long long *bar, int arrivals, int expect_bytes, int drop,
                   const void *pc) {
  Mbarrier state = {*bar};
  if ((int)state.pending < arrivals)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc,
                "more threads arrive at the mbarrier at %p than the %d it was initialised for",
                (void *)bar, (int)state.expected);
  state.bytes += expect_bytes;
  state.pending -= (unsigned)arrivals;
  state.expected -= (unsigned)drop;
  publish_at(fiber->block, bar, (int)fiber->self.linear);
  settle(fiber->block, bar, state);
}

void mbar_arrive(Fiber *fiber, unsigned long long *bar, int expect_bytes, const void *pc) {
  arrive(fiber, bar, 1, expect_bytes, 0, pc);
}

void cusim_mbar_arrive(unsigned long long *bar, int expect_bytes) {
  read_mbar(bar, __builtin_return_address(0));
  mbar_arrive(fiber_running(), bar, expect_bytes, __builtin_return_address(0));
}

unsigned long long cusim_mbar_arrive_many(unsigned long long *bar, int arrivals, int expect_bytes,
                                          int drop) {
  const void *pc = __builtin_return_address(0);
  Mbarrier before = read_mbar(bar, pc);
  if (arrivals < 0 || arrivals > kMbarArrivals)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc, "%d arrivals at an mbarrier", arrivals);
  arrive(fiber_running(), bar, arrivals, expect_bytes, drop ? arrivals : 0, pc);
  return before.word;
}

void cusim_mbar_more(unsigned long long *bar) {
  const void *pc = __builtin_return_address(0);
  Mbarrier state = read_mbar(bar, pc);
  if (state.pending == kMbarArrivals)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc, "the mbarrier at %p awaits too many", (void *)bar);
  state.pending++;
  *bar = state.word;
}

void cusim_mbar_expect(unsigned long long *bar, int bytes) {
  Mbarrier state = read_mbar(bar, __builtin_return_address(0));
  state.bytes += bytes;
  *bar = state.word;
}

void cusim_mbar_complete(unsigned long long *bar, int bytes) {
  Fiber *fiber = fiber_running();
  mbar_complete(fiber->block, bar, bytes, (int)fiber->self.linear, __builtin_return_address(0));
}

int cusim_mbar_pending(unsigned long long word) {
  Mbarrier state = {word};
  return (int)state.pending;
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

// Waits like mbar_wait, but returns false if the block could not continue otherwise.
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

// Nothing else can run: lets the threads inside of try_wait and test_wait return false. Most spin,
// so a block that comes here repeatedly without progress is deadlocked; but a thread may poll a
// hundred times before it does what the phase needs.
bool mbar_wake_trying(Block *block) {
  enum { kHopeless = 1000 };
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
