// trace.c: called for every memory access of a kernel if NNGEN_SIM_CHECK or
// NNGEN_SIM_COUNT asks for it: bounds, unwritten memory, races, and counters.
//
// The host compiler's thread-sanitizer instrumentation calls __tsan_* before each access; those
// functions are here (tsan_abi.c) in place of its run-time library. Plain valid accesses
// take a fast path (shadow.h).
#include "sim/check/quick.h"

// Counts and forgets the bytes one launch touched.
static uint64_t count_touched(const Allocation *a, int which) {
  uint64_t sum = 0;
  if (!a->touched[which]) return 0;
  uint64_t *words = a->touched[which];
  for (size_t i = 0; i <= a->bytes / 64; i++) {
    if (!words[i]) continue;
    sum += (uint64_t)__builtin_popcountll(words[i]);
    words[i] = 0;
  }
  return sum;
}

void trace_launch_end(Launch *launch) {
  KernelCounters *c = launch->function->counters;
  if (!sim_settings()->count) return;
  c->distinct_read = c->distinct_written = 0;
  const Allocation *a;
  for (int i = 0; (a = memory_at(i)); i++) {
    c->distinct_read += count_touched(a, 0);
    c->distinct_written += count_touched(a, 1);
  }
}

void trace_block(Block *block) {
  const Settings *settings = sim_settings();
  if (settings->count) flow_block(block);
  if (settings->race) race_block(block);
  bool turns = settings->race && block->launch->cooperative; // blocks that run together
  sim_worker->quick = settings->count || turns ? 0 : quick_checks(block->launch);
}

void trace_block_end(Block *block) {
  if (sim_settings()->race) reading_forget(block), passed_forget(block);
  if (!sim_settings()->count) return;
  KernelCounters *c = block->launch->function->counters;
  __atomic_fetch_add(&c->blocks, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&c->threads, (uint64_t)block->threads, __ATOMIC_RELAXED);
  __atomic_fetch_add(&c->barriers, block->arrivals, __ATOMIC_RELAXED);
  __atomic_fetch_add(&c->meetings, block->meetings, __ATOMIC_RELAXED);
  coalesce_block_end(c);
  flow_block_end(block);
  issues_block_end(block);
}

// ---- bounds and unwritten memory ----------------------------------------------------------------

static bool in_range(uintptr_t address, int bytes, const void *begin, size_t size) {
  return begin && address >= (uintptr_t)begin && address + (size_t)bytes <= (uintptr_t)begin + size;
}

// True if on a fiber's stack. Collectives read the lanes' operands in turn, so the search starts at
// the last stack found, to both sides.
static bool on_any_stack(Worker *worker, uintptr_t address) {
  int n = worker->nfibers, up = worker->last_stack, down = up;
  for (int i = 0; i <= n / 2; i++) {
    bool above = is_own(worker->fibers[up], address);
    if (above || is_own(worker->fibers[down], address))
      return worker->last_stack = above ? up : down, true;
    up = up + 1 < n ? up + 1 : 0;
    down = down > 0 ? down - 1 : n - 1;
  }
  return false;
}

// Memory that kernels read internally: parameters, operands of collectives. (And built-in
// variables, which trace_access skips first.)
static bool is_internal(const Worker *worker, const Fiber *fiber, uintptr_t address) {
  const Launch *launch = fiber->block->launch;
  return in_range(address, 1, worker, sizeof *worker) ||
         in_range(address, 1, launch->params, launch->params_bytes) ||
         in_range(address, 1, &launch->workspace, sizeof launch->workspace);
}

// True for a __device__ variable of the kernel's module.
static bool is_own_variable(const Fiber *fiber, uintptr_t address) {
  const struct CUmod_st *own = fiber->block->launch->function->module;
  return address - own->base < own->bytes;
}

static bool is_shared(const Worker *worker, uintptr_t address, int bytes) {
  for (unsigned r = 0; r < cusim_self->cluster_size; r++)
    if (in_range(address, bytes, cusim_self->peers[r], cusim_self->smem_bytes)) return true;
  return in_range(address, bytes, worker->tls_shared, worker->tls_bytes);
}

// True for the compiler's guard byte of a shared variable of class type.
static bool is_guard(const Worker *worker, uintptr_t address) {
  const struct CUmod_st *module = worker->block.launch->function->module;
  size_t offset = address - (uintptr_t)worker->tls_shared;
  for (int i = 0; i < module->nguards; i++)
    if (offset - module->guards[i] < 8) return true;
  return false;
}

static void report_bounds(uintptr_t address, int bytes, bool writes, const void *pc) {
  char where[512];
  fault_describe(address, where, sizeof where);
  fault_raise(CUDA_ERROR_ILLEGAL_ADDRESS, pc, "%s of %d bytes at %p is out of bounds%s",
              writes ? "write" : "read", bytes, (void *)address, where);
}

static void report_unwritten(uintptr_t address, int bytes, const void *pc) {
  char where[512];
  fault_describe(address, where, sizeof where);
  fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc, "read of %d bytes that nobody wrote, at %p%s", bytes,
              (void *)address, where);
}

// One bit of `written` per byte; those of an access are in three bytes at most.
static void check_written(const Allocation *a, uintptr_t address, int bytes, bool writes,
                          const void *pc) {
  if (!a->written) return;
  size_t offset = address - a->begin;
  uint32_t bits = ((1u << bytes) - 1) << offset % 8; // bytes: 16 at most
  for (uint8_t *at = &a->written[offset / 8]; bits; at++, bits >>= 8) {
    uint8_t lacks = (uint8_t)(bits & ~*at);
    if (lacks && !writes) report_unwritten(address, bytes, pc);
    if (lacks) __atomic_fetch_or(at, lacks, __ATOMIC_RELAXED);
  }
}

// ---- every access -------------------------------------------------------------------------------

static void touch(const Allocation *a, uintptr_t address, int bytes, bool writes) {
  if (!a->touched[writes]) return;
  size_t offset = address - a->begin;
  uint64_t *word = &a->touched[writes][offset / 64];
  uint64_t bits = ((1ull << bytes) - 1) << offset % 64; // bytes: 16 at most
  if (bits & ~*word) __atomic_fetch_or(word, bits, __ATOMIC_RELAXED);
  if (offset % 64 + (size_t)bytes <= 64) return;
  bits = ((1ull << bytes) - 1) >> (64 - offset % 64); // what is in the next word
  __atomic_fetch_or(word + 1, bits, __ATOMIC_RELAXED);
}

static void count(KernelCounters *c, int bytes, bool writes, bool shared) {
  uint64_t *sum = shared ? (writes ? &c->shared_written : &c->shared_read)
                         : (writes ? &c->global_written : &c->global_read);
  __atomic_fetch_add(sum, (uint64_t)bytes, __ATOMIC_RELAXED);
}

void trace_access(Fiber *fiber, uintptr_t address, int bytes, bool writes, AccessKind kind,
                  const void *pc) {
  trace_settle();
  const Settings *settings = sim_settings();
  Worker *worker = sim_worker;
  const Allocation *a = memory_find_again(worker, address, bytes);
  bool global = a != NULL; // the last one was global: neither stack nor shared memory
  if (!global && is_own(fiber, address)) return;
  bool shared = !global && is_shared(worker, address, bytes);
  if (shared && fiber->block->launch->function->module->nguards && is_guard(worker, address))
    return;
  if (!global && !shared) {
    a = memory_find(address);
    global = a && in_range(address, bytes, (void *)a->begin, a->bytes);
  }
  bool own_variable = !shared && !global && is_own_variable(fiber, address);
  if (!shared && !global && !own_variable &&
      (is_internal(worker, fiber, address) || on_any_stack(worker, address))) {
    if (kind == AccessAtomic && settings->race) { // in the grid's workspace
      trace_grid(fiber->block);
      fiber->block->atomic_open[fiber->self.linear] = true;
    }
    return;
  }
  bool variable = own_variable || (!shared && !global && module_of_address((void *)address));
  if (settings->address && !shared && !global && !variable && !heap_holds(address, bytes))
    report_bounds(address, bytes, writes, pc);
  if (settings->address && global && fiber->block->launch->names &&
      names_outside(fiber->block->launch, a, address, bytes))
    report_bounds(address, bytes, writes, pc);
  if (settings->count && (shared || global)) {
    count(fiber->block->launch->function->counters, bytes, writes, shared);
    coalesce_access(fiber, address, bytes, shared, pc);
    if (global) touch(a, address, bytes, writes);
  }
  if (settings->address && global) check_written(a, address, bytes, writes, pc);
  if (!settings->race || !(shared || global || variable)) return;
  race_access(fiber, address, bytes, writes, kind, pc, shared);
  if (global) page_lies_in(a, address);
}

void trace_proxy_read(Fiber *fiber, uintptr_t address, int bytes, const void *pc) {
  if (sim_settings()->race && is_shared(sim_worker, address, bytes))
    race_proxy(fiber->block, address, bytes, pc);
}

// NOTE: for a kernel in C++ the wgmma is executed at its wait.
void cusim_proxy_read(const void *address, int bytes) {
  const void *pc = __builtin_return_address(0);
  Fiber *fiber = fiber_running();
  bool from_ptx = fiber->self.product_fences;
  if (!sim_settings()->trace) return;
  trace_access(fiber, (uintptr_t)address, bytes, false, from_ptx ? AccessProduct : AccessAsync, pc);
  trace_proxy_read(fiber, (uintptr_t)address, bytes, pc);
  if (from_ptx && sim_settings()->race) reading_add(fiber, (uintptr_t)address, bytes);
}
