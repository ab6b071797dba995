// fiber.c: stacks and the life of fibers.
//
// A worker keeps every fiber it created; idle ones are in its free list. Stacks are
// mapped with a guard page below, so that an overflow faults instead of overwriting a neighbour.
// NOTE: stack tops are spread over a page: equal offsets would put the tops of all 32 lanes into
// the same L1 sets.
#include "sim/exec/exec.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kSpread = 320 };

void fiber_main(void); // block.c: main loop of a fiber

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(CUSIM_UCONTEXT)

// Registers that fiber_switch restores first, then the address it jumps to.
enum {
  kSaved = sizeof(void *) == 8 ?
#if defined(__x86_64__)
                               6
#else
                               20
#endif
                               : 0
};

void fiber_reset(Fiber *fiber) {
  size_t spread = ((uintptr_t)fiber / sizeof(Fiber) * kSpread) % 4096 & ~(size_t)63;
  void **top = (void **)(fiber->stack + fiber->stack_bytes - spread - 128);
#if defined(__x86_64__)
  *--top = 0; // fiber_main's return address: also ends backtraces, and aligns the stack
  *--top = (void *)fiber_main;
  top -= kSaved;
  memset(top, 0, kSaved * sizeof *top);
#else
  top -= kSaved;
  memset(top, 0, kSaved * sizeof *top);
  top[11] = (void *)fiber_main; // x30
#endif
  fiber->sp = top;
}

#else // any other host: ucontext, some 30 times slower

#include <ucontext.h>

void fiber_switch(void **save, void *load) {
  ucontext_t here;
  *save = &here;
  swapcontext(&here, load);
}

void fiber_reset(Fiber *fiber) {
  ucontext_t *context = (ucontext_t *)fiber->stack;
  getcontext(context);
  context->uc_stack.ss_sp = fiber->stack + sizeof *context;
  context->uc_stack.ss_size = fiber->stack_bytes - sizeof *context;
  makecontext(context, fiber_main, 0);
  fiber->sp = context;
}

#endif

// A page below the stack that faults. NOTE: the older way splits the mapping in two, of which a
// process may have some 65 000: the 270 000 threads of a cooperative grid would have no stacks.
static void guard_page(unsigned char *page, size_t bytes) {
  enum { kGuardInstall = 102, kMostSplits = 16384 }; // MADV_GUARD_INSTALL, Linux 6.13
  static atomic_int splits;
  if (madvise(page, bytes, kGuardInstall) == 0) return;
  if (atomic_fetch_add(&splits, 1) < kMostSplits) mprotect(page, bytes, PROT_NONE);
}

static unsigned char *map_stack(size_t bytes) {
  size_t guard = (size_t)sysconf(_SC_PAGESIZE);
  unsigned char *map = mmap(NULL, bytes + guard, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return NULL;
  guard_page(map, guard);
  return map + guard;
}

// By the settings, plus room for the variables of a kernel from PTX that needs more.
static size_t stack_bytes(const Launch *launch) {
  enum { kFrames = 32 << 10 }; // room for other frames
  size_t local = launch ? launch->function->kernel->local_bytes : 0;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), least = sim_settings()->stack_bytes;
  size_t need = local ? (local + kFrames + page - 1) / page * page : 0;
  return need > least ? need : least;
}

static Fiber *make(Worker *worker, size_t bytes) {
  Fiber **fibers = realloc(worker->fibers, (size_t)(worker->nfibers + 1) * sizeof *fibers);
  if (!fibers) return NULL;
  worker->fibers = fibers;
  Fiber *fiber = aligned_alloc(64, (sizeof *fiber + 63) & ~(size_t)63);
  if (!fiber) return NULL;
  memset(fiber, 0, sizeof *fiber);
  fiber->stack_bytes = bytes;
  fiber->stack = map_stack(fiber->stack_bytes);
  if (!fiber->stack) return free(fiber), NULL;
  fiber->block = &worker->block;
  fiber_reset(fiber);
  fibers[worker->nfibers++] = fiber;
  return fiber;
}

// Enlarges the stack if cuCtxSetLimit or the kernel requires it; out of memory it stays as it is.
static void grow(Fiber *fiber, size_t bytes) {
  size_t guard = (size_t)sysconf(_SC_PAGESIZE);
  unsigned char *stack = map_stack(bytes);
  if (!stack) return;
  munmap(fiber->stack - guard, fiber->stack_bytes + guard);
  fiber->stack = stack, fiber->stack_bytes = bytes;
  fiber_reset(fiber);
}

Fiber *fiber_take(Worker *worker, const Launch *launch) {
  Fiber *fiber = worker->free;
  size_t bytes = stack_bytes(launch);
  if (!fiber) return make(worker, bytes);
  worker->free = fiber->next_free;
  if (fiber->stack_bytes < bytes) grow(fiber, bytes);
  return fiber;
}

bool fiber_ready(Worker *worker) {
  if (!worker->free) worker->free = make(worker, stack_bytes(NULL));
  return worker->free != NULL;
}

void fiber_free(Fiber *fiber) {
  size_t guard = (size_t)sysconf(_SC_PAGESIZE);
  munmap(fiber->stack - guard, fiber->stack_bytes + guard);
  free(fiber->copies);
  free(fiber->products);
  free(fiber);
}
