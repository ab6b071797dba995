// signals.c: host signals in a running kernel: a touched guard page, a wild pointer, a division by
// zero. The handler continues the thread in fault_resume, on the fiber's own stack, so that
// ordinary code writes the report.
#include "sim/check/check.h"

#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

static struct sigaction before[64]; // the program's own handlers

// A stack may overflow below the kernel's frame, in a callee: finds the innermost return address
// into the kernel among those near the stack's end.
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
                "integer division by zero: a GPU continues, with a result that is not specified");
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
  // NOTE: x86 reports no address of a misaligned vector access or of a non-canonical one.
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

// At every launch, because a program (or a test framework) may have installed its own handlers
// since.
void fault_install(void (*give_up)(void)) {
  fault_when(give_up);
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
