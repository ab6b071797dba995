// fault.c: a kernel did something wrong: says what, where and who, and ends its launch.
//
// Faults come from checks (fault_raise) and from the host's signals: a touched guard page, a wild
// pointer, a division by zero. The signal handler continues the thread in fault_resume, on the
// fiber's own stack, so that the report is written by ordinary code. The launch then carries the
// driver's error code, which the next synchronising call returns.
#include "sim/sim.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

// ---- source lines -------------------------------------------------------------------------------

// Whether a place is inside what kernels stand on, not in the kernel's own source.
static bool is_plumbing(const char *place) {
  return strstr(place, "device/cusim") || strstr(place, "lib/prim_sim") || strstr(place, "??");
}

// Asks binutils for the line: of the functions inlined there, the innermost that is not plumbing.
// Only while a report is written; the compiler brought binutils along.
static bool ask_addr2line(const struct CUmod_st *module, uintptr_t offset, char *text,
                          size_t size) {
  char command[128], line[512];
  snprintf(command, sizeof command, "addr2line -i -e /proc/%d/fd/%d 0x%lx 2>/dev/null",
           (int)getpid(), module->fd, (unsigned long)offset);
  FILE *pipe = popen(command, "r");
  bool found = false;
  while (pipe && fgets(line, sizeof line, pipe)) {
    line[strcspn(line, " \n")] = 0;
    if (found || is_plumbing(line)) continue;
    const char *folder = strstr(line, "/cusim-"); // the compiler's; names in it are the program's
    const char *name = folder ? strchr(folder + 1, '/') + 1 : line;
    snprintf(text, size, "%s", strncmp(name, "./", 2) ? name : name + 2);
    found = true;
  }
  if (pipe) pclose(pipe);
  return found;
}

const char *fault_line(const void *pc, char *text, size_t size) {
  Dl_info info;
  const struct CUmod_st *module = pc ? module_of_address(pc) : NULL;
  if (module && ask_addr2line(module, (uintptr_t)pc - module->base - 1, text, size)) return text;
  if (pc && dladdr(pc, &info) && info.dli_sname)
    snprintf(text, size, "%s+0x%lx", info.dli_sname,
             (unsigned long)((uintptr_t)pc - (uintptr_t)info.dli_saddr));
  else
    snprintf(text, size, "%p", pc);
  return text;
}

// ---- reports ------------------------------------------------------------------------------------

static bool first_fault(Launch *launch, CUresult error) {
  trace_unlock();
  int none = 0;
  return atomic_compare_exchange_strong(&launch->error, &none, (int)error);
}

// "kernel k, layer conv1, block (0,0,0), thread (5,0,0), template.cu:12"
static void describe_thread(FILE *out, const Fiber *fiber, const void *pc) {
  const CusimThread *self = &fiber->self;
  char line[512];
  const char *layer = names_layer(fiber->block->launch);
  fprintf(out, "kernel %s%s%s, block (%u,%u,%u), thread (%u,%u,%u)",
          fiber->block->launch->function->name, layer ? ", layer " : "", layer ? layer : "",
          self->block[0], self->block[1], self->block[2], self->thread[0], self->thread[1],
          self->thread[2]);
  if (pc) fprintf(out, ", %s", fault_line(pc, line, sizeof line));
}

static void describe_allocation(uintptr_t address, char *text, size_t size) {
  const Allocation *a = memory_find(address), *freed = a ? NULL : freed_find(address);
  if (freed && address - freed->begin < freed->bytes)
    snprintf(text, size, ": offset %lu of allocation %d of %zu bytes, which was freed",
             (unsigned long)(address - freed->begin), freed->serial, freed->bytes);
  else if (a && address < a->begin)
    snprintf(text, size, ": %lu bytes before allocation %d of %zu bytes",
             (unsigned long)(a->begin - address), a->serial, a->bytes);
  else if (a && address >= a->begin + a->bytes)
    snprintf(text, size, ": %lu bytes past the end of allocation %d of %zu bytes",
             (unsigned long)(address - a->begin - a->bytes), a->serial, a->bytes);
  else if (a)
    snprintf(text, size, ": offset %lu of allocation %d of %zu bytes",
             (unsigned long)(address - a->begin), a->serial, a->bytes);
}

void fault_describe(uintptr_t address, char *text, size_t size) {
  const Worker *worker = sim_worker;
  long into = (long)(address - (uintptr_t)worker->smem);
  size_t tls = address - (uintptr_t)worker->tls_shared;
  names_describe(worker->block.launch, address, text, size);
  size_t length = strlen(text);
  describe_allocation(address, text + length, size - length);
  if (length && text[length]) text[length] = ',';
  if (*text) return;
  if (worker->tls_bytes && tls < worker->tls_bytes)
    snprintf(text, size, ": offset %zu of static shared memory of %zu bytes", tls,
             worker->tls_bytes);
  else if (into >= -4096 && into < 2l << 20)
    snprintf(text, size, ": offset %ld of dynamic shared memory of %u bytes", into,
             cusim_self->smem_bytes);
}

void fault_raise(CUresult error, const void *pc, const char *format, ...) {
  Fiber *fiber = fiber_running();
  if (first_fault(fiber->block->launch, error)) {
    const char *name = NULL;
    cuGetErrorName(error, &name);
    flockfile(stderr);
    fputs("libcusim: ", stderr);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("\nlibcusim:   in ", stderr);
    describe_thread(stderr, fiber, pc);
    fprintf(stderr, " (%s)\n", name);
    funlockfile(stderr);
  }
  block_abandon();
}

void fault_shared(const Worker *worker, const char *where, size_t bytes) {
  const Block *block = &worker->block;
  const char *layer = names_layer(block->launch);
  if (!first_fault(block->launch, CUDA_ERROR_ILLEGAL_ADDRESS)) return;
  fprintf(stderr,
          "libcusim: write %s shared memory of %zu bytes\n"
          "libcusim:   in kernel %s%s%s, block (%u,%u,%u) (CUDA_ERROR_ILLEGAL_ADDRESS)\n",
          where, bytes, block->launch->function->name, layer ? ", layer " : "", layer ? layer : "",
          block->place.block[0], block->place.block[1], block->place.block[2]);
}

static const char *wait_name(const Fiber *fiber) {
  switch (fiber->wait) {
  case WaitMeeting:
    return "waits for other lanes of its warp";
  case WaitBarrier:
    return "waits at a block barrier";
  case WaitMbar:
  case WaitTryMbar:
    return "waits for an mbarrier that never completes";
  default:
    return "runs";
  }
}

// All threads of the block wait. Prints each distinct place once, with how many wait there.
void fault_deadlock(Block *block) {
  enum { kPlaces = 8 };
  struct {
    const void *pc;
    Fiber *fiber;
    int count;
  } places[kPlaces];
  int nplaces = 0;
  for (int t = 0; t < block->threads; t++) {
    Warp *warp = &block->warps[t / kWarpLanes];
    Fiber *fiber = warp->fibers[t % kWarpLanes];
    if (!(warp->live >> t % kWarpLanes & 1)) continue;
    int i = 0;
    while (i < nplaces && places[i].pc != fiber->wait_pc) i++;
    if (i == kPlaces) continue;
    if (i == nplaces)
      places[nplaces++].pc = fiber->wait_pc, places[i].fiber = fiber, places[i].count = 0;
    places[i].count++;
  }
  if (first_fault(block->launch, CUDA_ERROR_LAUNCH_FAILED)) {
    flockfile(stderr);
    fprintf(stderr, "libcusim: deadlock: no thread of the block can go on (%d of %d have exited)\n",
            block->threads - block->live, block->threads);
    for (int i = 0; i < nplaces; i++) {
      fputs("libcusim:   ", stderr);
      describe_thread(stderr, places[i].fiber, places[i].pc);
      fprintf(stderr, " %s", wait_name(places[i].fiber));
      if (places[i].count > 1) fprintf(stderr, ", like %d more", places[i].count - 1);
      fputc('\n', stderr);
    }
    funlockfile(stderr);
  }
  block_abandon();
}

void block_stall(Block *block) {
  if (copy_land_deferred(block) || mbar_wake_trying(block)) return;
  fault_deadlock(block);
}

void fault_misaligned(const void *address, int alignment, const void *pc) {
  char where[512];
  fault_describe((uintptr_t)address, where, sizeof where);
  fault_raise(CUDA_ERROR_MISALIGNED_ADDRESS, pc, "misaligned access: %p is not a multiple of %d%s",
              address, alignment, where);
}

void cusim_misaligned(const void *address, int alignment) {
  fault_misaligned(address, alignment, __builtin_return_address(0));
}

// A kernel's printf. The text is made first: a bad pointer in the arguments faults there, where no
// lock is held that the rest of the program would wait for.
int cusim_printf(const char *format, ...) {
  char text[2048], *all = text;
  va_list ap, again;
  va_start(ap, format);
  va_copy(again, ap);
  int length = vsnprintf(text, sizeof text, format, ap);
  if (length >= (int)sizeof text && (all = malloc((size_t)length + 1)))
    vsnprintf(all, (size_t)length + 1, format, again);
  va_end(again);
  va_end(ap);
  if (length > 0 && all) fwrite(all, 1, (size_t)length, stdout);
  if (all != text) free(all);
  return length;
}

void cusim_trap(void) {
  fault_raise(CUDA_ERROR_LAUNCH_FAILED, __builtin_return_address(0), "the kernel trapped");
}

void cusim_assert_fail(const char *condition, const char *file, int line, const char *function) {
  fault_raise(CUDA_ERROR_ASSERT, __builtin_return_address(0), "%s:%d: %s: assertion `%s` failed",
              file, line, function, condition);
}

// ---- signals ------------------------------------------------------------------------------------

static struct sigaction before[64]; // the program's own handlers

// A stack can end below the kernel's frame, in what it called: then the innermost return address
// into the kernel, of those that lie at the stack's end.
static const void *overflow_place(const Fiber *fiber, const void *pc) {
  enum { kWords = 512 };
  void *const *at = (void *const *)fiber->stack;
  for (int i = 0; i < kWords && !module_of_address(pc); i++)
    if (module_of_address(at[i])) return at[i];
  return pc;
}

static void fault_resume(void) {
  Worker *worker = sim_worker;
  Fiber *fiber = fiber_running();
  uintptr_t address = (uintptr_t)worker->fault_address;
  if (address < (uintptr_t)fiber->stack && address + 65536 >= (uintptr_t)fiber->stack)
    fault_raise(CUDA_ERROR_HARDWARE_STACK_ERROR, overflow_place(fiber, worker->fault_pc),
                "stack overflow: NNGEN_SIM_STACK_KIB gives each thread more than %zu KiB",
                fiber->stack_bytes >> 10);
  if (worker->fault_signal == SIGFPE)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, worker->fault_pc,
                "integer division by zero: a GPU goes on, with a result that is not specified");
  if (worker->fault_signal == SIGILL)
    fault_raise(CUDA_ERROR_ILLEGAL_INSTRUCTION, worker->fault_pc, "illegal instruction");
  if (!worker->fault_known && module_of_address(worker->fault_pc) &&
      fault_is_wild((const unsigned char *)worker->fault_pc - 1))
    fault_raise(CUDA_ERROR_ILLEGAL_ADDRESS, worker->fault_pc,
                "illegal access through a wild pointer, beyond the address space");
  if (worker->fault_signal == SIGBUS || !worker->fault_known)
    fault_raise(CUDA_ERROR_MISALIGNED_ADDRESS, worker->fault_pc,
                "misaligned vector access (or a wild pointer: the host does not tell which)");
  char where[512];
  fault_describe(address, where, sizeof where);
  fault_raise(CUDA_ERROR_ILLEGAL_ADDRESS, worker->fault_pc, "illegal access to %p%s%s",
              worker->fault_address, worker->fault_kind, where);
}

static void pass_on(int signal, siginfo_t *info, void *context) {
  struct sigaction *old = &before[signal];
  if (old->sa_flags & SA_SIGINFO && old->sa_sigaction)
    old->sa_sigaction(signal, info, context);
  else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
    old->sa_handler(signal);
  else
    sigaction(signal, old, NULL); // returns to the instruction, which faults again, for good
}

void fault_continue(void *data, void (*where)(void)) {
  ucontext_t *context = data;
  Fiber *fiber = fiber_running();
  uintptr_t top = (uintptr_t)(fiber->stack + fiber->stack_bytes) & ~(uintptr_t)63;
#if defined(__x86_64__)
  context->uc_mcontext.gregs[REG_RSP] = (greg_t)(top - 8);
  context->uc_mcontext.gregs[REG_RIP] = (greg_t)where;
#elif defined(__aarch64__)
  context->uc_mcontext.sp = top;
  context->uc_mcontext.pc = (uintptr_t)where;
#else
  (void)context, (void)top;
  where();
#endif
}

static void on_signal(int signal, siginfo_t *info, void *data) {
  const ucontext_t *context = data;
  Worker *worker = sim_worker;
  if (!worker || !cusim_self) {
    pass_on(signal, info, data);
    return;
  }
  if (signal == SIGFPE && divide_overflowed(data)) return;
  worker->fault_signal = signal;
  worker->fault_address = info->si_addr;
  // NOTE: x86 tells no address of an aligned vector access that is not, nor of a non-canonical one.
  worker->fault_known = signal != SIGSEGV || info->si_code != SI_KERNEL;
  worker->fault_kind = "";
#if defined(__x86_64__)
  enum { kPageFault = 14, kWrite = 2 }; // its bit in the error code
  if (context->uc_mcontext.gregs[REG_TRAPNO] == kPageFault)
    worker->fault_kind = context->uc_mcontext.gregs[REG_ERR] & kWrite ? ", a write" : ", a read";
  worker->fault_pc = (void *)(context->uc_mcontext.gregs[REG_RIP] + 1);
#elif defined(__aarch64__)
  worker->fault_pc = (void *)(context->uc_mcontext.pc + 1);
#endif
  fault_continue(data, fault_resume);
}

// At every launch: a program (or a test framework) may have put its own handlers in since.
void fault_install(void) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  struct sigaction action = {.sa_sigaction = on_signal,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction now;
    sigaction(signals[i], NULL, &now);
    if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_signal) continue;
    before[signals[i]] = now;
    sigaction(signals[i], &action, NULL);
  }
}

void fault_thread(Worker *worker) {
  enum { kAlternateStack = 64 << 10 };
  stack_t old;
  if (sigaltstack(NULL, &old) == 0 && !(old.ss_flags & SS_DISABLE)) return;
  stack_t mine = {.ss_sp = malloc(kAlternateStack), .ss_size = kAlternateStack};
  worker->signal_stack = mine.ss_sp;
  if (mine.ss_sp) sigaltstack(&mine, NULL);
}

void fault_thread_end(Worker *worker) {
  stack_t none = {.ss_flags = SS_DISABLE};
  if (worker->signal_stack) sigaltstack(&none, NULL);
  free(worker->signal_stack);
}
