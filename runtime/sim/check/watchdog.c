// watchdog.c: ends a launch that never ends: a thread that spins on a plain load, an endless loop.
//
// Each OS thread that runs blocks has a timer on its own processor time, so that a debugger
// or a busy machine does not count. If no thread of a block has ended for NNGEN_SIM_TIMEOUT
// seconds (60; 0: never), the signal's handler sends the fiber into a report, as fault.c does; but
// only from the kernel's own code: elsewhere it might hold a lock of the C library.
#include "sim/check/check.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { kTicks = 4, kSignal = SIGVTALRM };

static void arm(const Worker *worker, double seconds) {
  struct itimerspec when = {
      .it_value = {(time_t)seconds, (long)((seconds - (double)(long)seconds) * 1e9)}};
  when.it_interval = when.it_value;
  timer_settime(worker->timer, 0, &when, NULL);
}

static void resume(void) {
  Worker *worker = sim_worker;
  arm(worker, sim_settings()->timeout / kTicks);
  fault_raise(CUDA_ERROR_LAUNCH_TIMEOUT, worker->fault_pc,
              "the kernel does not end: no thread of this block ended in %g s of processor time "
              "(NNGEN_SIM_TIMEOUT)",
              sim_settings()->timeout);
}

static bool in_kernel(const Worker *worker, uintptr_t pc) {
  const struct CUmod_st *module = worker->block.launch->function->module;
  return pc - module->code < module->code_bytes;
}

// Threads that have ended, of all blocks. A loop over a block's threads is at the one that runs.
static uint64_t ended(const Worker *worker) {
  uint64_t sum = worker->block.launch->loops ? cusim_self->linear : 0;
  for (int r = 0; r < worker->cluster.size; r++) sum += worker->cluster.blocks[r]->ended;
  return sum;
}

static struct sigaction before; // the program's own handler

static void pass_on(int signal, siginfo_t *info, void *context) {
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler == SIG_DFL) {
    sigaction(signal, &before, NULL);
    raise(signal); // ends the program, when this handler has returned
  } else if (before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  }
}

static void on_tick(int signal, siginfo_t *info, void *data) {
  enum { kRetry = 1000 }; // per second
  ucontext_t *context = data;
  Worker *worker = sim_worker;
  if (info->si_code != SI_TIMER || !worker || info->si_value.sival_ptr != worker) {
    pass_on(signal, info, data);
    return;
  }
  if (!cusim_self) return;
  if (ended(worker) != worker->ended_before) {
    worker->ended_before = ended(worker);
    worker->ticks = 0;
    return;
  }
  if (++worker->ticks < kTicks) return;
#if defined(__x86_64__)
  uintptr_t pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  uintptr_t pc = context->uc_mcontext.pc;
#else
  uintptr_t pc = worker->block.launch->function->module->code;
#endif
  if (!in_kernel(worker, pc)) {
    arm(worker, 1. / kRetry);
    return;
  }
  worker->ticks = 0;
  worker->fault_pc = (const void *)(pc + 1);
  fault_continue(context, resume);
}

// At every launch, because the program may have installed its own handler since.
void watchdog_install(void) {
  struct sigaction now,
      action = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
  if (sim_settings()->timeout <= 0) return;
  sigaction(kSignal, NULL, &now);
  if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_tick) return;
  before = now;
  sigaction(kSignal, &action, NULL);
}

void watchdog_start(Worker *worker) {
  double limit = sim_settings()->timeout;
  if (limit <= 0) return;
  if (!worker->has_timer) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = kSignal};
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    event.sigev_value.sival_ptr = worker;
    worker->has_timer = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &worker->timer) == 0;
  }
  worker->ticks = 0;
  if (worker->has_timer) arm(worker, limit / kTicks);
}

void watchdog_stop(Worker *worker) {
  static const struct itimerspec never;
  if (worker->has_timer) timer_settime(worker->timer, 0, &never, NULL);
}

void watchdog_close(Worker *worker) {
  if (worker->has_timer) timer_delete(worker->timer);
}
