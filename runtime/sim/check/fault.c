// fault.c: reports a kernel's fault (what, where, which thread) and ends its launch.
//
// Faults come from checks (fault_raise) and from the host's signals (signals.c). The launch then
// carries the driver's error code, which the next synchronising call returns.
#include "sim/check/check.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void (*give_up)(void); // the running block

void fault_when(void (*abandon)(void)) {
  give_up = abandon;
}

static void fault_give_up(void) __attribute__((noreturn));
static void fault_give_up(void) {
  give_up();
  __builtin_unreachable();
}

// ---- source lines -------------------------------------------------------------------------------

// True if a place is inside of device headers instead of the kernel's source, or has no line
// (instructions that the compiler merged).
static bool is_plumbing(const char *place) {
  return strstr(place, "device/cusim") || strstr(place, "lib/prim_sim") || strstr(place, ":?") ||
         strstr(place, "??");
}

// Queries binutils for the source line: of the inlined functions, the innermost that is not
// plumbing; if none, of the instructions before (kBack bytes). Only for reports; binutils come with
// the compiler.
static bool ask_addr2line(const struct CUmod_st *module, uintptr_t offset, char *text,
                          size_t size) {
  enum { kBack = 24 };
  char command[640], line[512];
  int length = snprintf(command, sizeof command, "addr2line -i -e /proc/%d/fd/%d", (int)getpid(),
                        module->fd);
  for (uintptr_t back = 0; back <= kBack && back <= offset; back++)
    length += snprintf(command + length, sizeof command - (size_t)length, " 0x%lx",
                       (unsigned long)(offset - back));
  snprintf(command + length, sizeof command - (size_t)length, " 2>/dev/null");
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
  long into = (long)(address - (uintptr_t)cusim_self->smem);
  for (unsigned r = 0; r < cusim_self->cluster_size; r++) {
    long of_peer = (long)(address - (uintptr_t)cusim_self->peers[r]);
    if (of_peer >= 0 && of_peer < (long)cusim_self->smem_bytes) into = of_peer;
  }
  size_t tls = address - (uintptr_t)worker->tls_shared;
  names_describe(worker->block.launch, address, text, size);
  size_t length = strlen(text);
  describe_allocation(address, text + length, size - length);
  if (length && text[length]) text[length] = ',';
  if (*text) return;
  if (worker->tls_bytes && tls < worker->tls_bytes)
    snprintf(text, size, ": offset %zu of static shared memory of %zu bytes", tls,
             worker->tls_bytes);
  else if (into >= 0 && into < (long)cusim_self->smem_static)
    snprintf(text, size, ": offset %ld of static shared memory of %u bytes", into,
             worker->block.launch->function->kernel->static_smem);
  else if (into >= -4096 && into < 2l << 20)
    snprintf(text, size, ": offset %ld of dynamic shared memory of %u bytes",
             into - (long)cusim_self->smem_static,
             cusim_self->smem_bytes - cusim_self->smem_static);
}

void fault_raise(CUresult error, const void *pc, const char *format, ...) {
  Fiber *fiber = fiber_running();
  if (first_fault(fiber->block->launch, error)) {
    flockfile(stderr);
    fputs("libcusim: ", stderr);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("\nlibcusim:   in ", stderr);
    describe_thread(stderr, fiber, pc);
    fprintf(stderr, " (%s)\n", error_name(error));
    funlockfile(stderr);
  }
  fault_give_up();
}

void fault_shared(const Block *block, const char *where, size_t bytes) {
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
  case WaitCluster:
    return "waits at its cluster's barrier";
  case WaitRegisters:
    return "waits at setmaxnreg for registers that no warp of its block gives up";
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
  fault_give_up();
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
