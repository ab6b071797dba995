// flow.c: counts floating-point operations and divergent branches between a kernel's memory
// accesses (NNGEN_SIM_COUNT=1).
//
// The compiler announces each basic block by a call (assembly.c); its row has the block's
// operations. A branch is the n-th passage of a warp's lanes through a block that ends in a
// conditional jump; it diverges if its lanes enter different blocks next. Lanes run one
// after the other, so passages are kept per (warp, block) until every live lane has continued.
// Blocks of called functions do not count for the caller: each thread keeps a step
// per call, identified by the frame's address.
#include "sim/check/check.h"

#include <stdlib.h>
#include <string.h>

typedef struct Passage {
  const void *next; // the block that the first lane entered
  unsigned lanes;   // that have gone on
  bool divergent;
} Passage;

typedef struct Trail { // of one warp through one block that branches
  unsigned passed[kWarpLanes];
  unsigned first; // number of passages[0]
  int count, room;
  Passage *passages;
} Trail;

typedef struct Step { // a thread's last branch in one function
  Trail *trail;
  unsigned number;
  uintptr_t frame;
} Step;

enum { kCache = 1024 };

typedef struct Path { // of a thread, outermost function first
  Step *steps;
  int depth, room;
} Path;

typedef struct Flow { // of one OS thread
  const struct CUmod_st *module;
  uint64_t serial; // of the module: another may be loaded at its address
  size_t ntrails;
  uint64_t *runs; // of each block of the module
  Trail *trails;  // by warp, then by block that branches
  struct {
    const void *pc;
    int block;
  } cache[kCache];
  Path paths[kMaxThreads];
  uint64_t ops[CusimWidths][CusimOps]; // not of blocks
  uint64_t branches, divergent;
} Flow;

static __thread Flow *here __attribute__((tls_model("initial-exec")));

// ---- the module's blocks ------------------------------------------------------------------------

static int by_pc(const void *a, const void *b) {
  const FlowBlock *x = a, *y = b;
  return x->row->pc < y->row->pc ? -1 : x->row->pc > y->row->pc;
}

bool flow_load(CUmodule module, const CusimBlock *rows) {
  int count = 0;
  while (rows && rows[count].pc) count++;
  module->blocks = calloc((size_t)count + 1, sizeof *module->blocks);
  if (!module->blocks) return false;
  for (int i = 0; i < count; i++) {
    module->blocks[i].row = &rows[i];
    module->blocks[i].branch = rows[i].branches ? module->nbranches++ : -1;
  }
  qsort(module->blocks, (size_t)count, sizeof *module->blocks, by_pc);
  module->nblocks = count;
  return true;
}

static int search(const struct CUmod_st *module, const void *pc) {
  int low = 0, high = module->nblocks;
  while (low < high) {
    int middle = (low + high) / 2;
    if (module->blocks[middle].row->pc < pc)
      low = middle + 1;
    else
      high = middle;
  }
  return low < module->nblocks && module->blocks[low].row->pc == pc ? low : -1;
}

static int find(Flow *flow, const void *pc) {
  size_t slot = ((uintptr_t)pc ^ (uintptr_t)pc >> 10) % kCache;
  if (flow->cache[slot].pc != pc) {
    flow->cache[slot].pc = pc;
    flow->cache[slot].block = search(flow->module, pc);
  }
  return flow->cache[slot].block;
}

// ---- passages -----------------------------------------------------------------------------------

static bool take_module(Flow *flow, const struct CUmod_st *module) {
  for (size_t i = 0; i < flow->ntrails; i++) free(flow->trails[i].passages);
  free(flow->trails);
  free(flow->runs);
  for (int t = 0; t < kMaxThreads; t++) free(flow->paths[t].steps);
  memset(flow, 0, sizeof *flow);
  flow->runs = calloc((size_t)module->nblocks + 1, sizeof *flow->runs);
  flow->trails = calloc((size_t)module->nbranches * kMaxWarps + 1, sizeof *flow->trails);
  if (!flow->runs || !flow->trails) return false;
  flow->ntrails = (size_t)module->nbranches * kMaxWarps;
  flow->module = module;
  flow->serial = module->serial;
  return true;
}

void flow_block(const Block *block) {
  const struct CUmod_st *module = block->launch->function->module;
  if (!here) here = calloc(1, sizeof *here);
  bool same = here && here->module == module && here->serial == module->serial;
  if (!here || (!same && !take_module(here, module)))
    atomic_store(&block->launch->error, CUDA_ERROR_OUT_OF_MEMORY);
}

static Passage *passage_of(Trail *trail, unsigned number) {
  int at = (int)(number - trail->first);
  if (at < 0) return NULL;
  if (at >= trail->room) {
    int room = 2 * at + 8;
    Passage *grown = realloc(trail->passages, (size_t)room * sizeof *grown);
    if (!grown) return NULL;
    trail->passages = grown;
    trail->room = room;
  }
  for (; trail->count <= at; trail->count++) trail->passages[trail->count] = (Passage){0};
  return &trail->passages[at];
}

// Passages in front that all live lanes have made.
static void retire(Trail *trail, unsigned live) {
  int done = 0;
  while (done < trail->count && !(live & ~trail->passages[done].lanes)) done++;
  if (!done) return;
  trail->count -= done;
  trail->first += (unsigned)done;
  memmove(trail->passages, trail->passages + done, (size_t)trail->count * sizeof *trail->passages);
}

// The thread continues from a branch into the block at pc.
static void go_on(Flow *flow, const Fiber *fiber, const Step *step, const void *pc) {
  unsigned thread = fiber->self.linear;
  Trail *trail = step->trail;
  Passage *passage = passage_of(trail, step->number);
  if (!passage) return;
  if (!passage->lanes) flow->branches++, passage->next = pc;
  if (passage->next != pc && !passage->divergent) flow->divergent++, passage->divergent = true;
  passage->lanes |= 1u << thread % kWarpLanes;
  const Warp *warp = &fiber->block->warps[thread / kWarpLanes];
  bool first = passage == trail->passages;
  if (first && !(warp->live & ~passage->lanes)) retire(trail, warp->live);
}

// The thread's next passage through a block that branches.
static Step pass(Flow *flow, unsigned thread, int branch, uintptr_t frame) {
  Trail *trail = &flow->trails[(int)(thread / kWarpLanes) * flow->module->nbranches + branch];
  return (Step){trail, trail->passed[thread % kWarpLanes]++, frame};
}

// Grows the path by one step. Out of memory: the branch is not counted, and the launch fails.
static bool path_grows(Path *path, const Block *block) {
  if (path->depth < path->room) return true;
  int room = 2 * path->room + 4;
  Step *grown = realloc(path->steps, (size_t)room * sizeof *grown);
  if (!grown) {
    atomic_store(&block->launch->error, CUDA_ERROR_OUT_OF_MEMORY);
    return false;
  }
  path->steps = grown;
  path->room = room;
  return true;
}

// ---- called by compiled kernels -----------------------------------------------------------------

__attribute__((visibility("default"))) void __sanitizer_cov_trace_pc(void);
__attribute__((visibility("default"))) void __sanitizer_cov_trace_pc(void) {
  Flow *flow = here;
  if (!cusim_self || !flow || !flow->module) return;
  const void *pc = __builtin_return_address(0);
  const Fiber *fiber = fiber_running();
  int index = find(flow, pc);
  if (index < 0) return;
  flow->runs[index]++;
  if (fiber->block->working) return; // one lane works for its whole warp: no path of its own
  uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
  Path *path = &flow->paths[fiber->self.linear];
  // Branches of this function, and of functions that have returned, continue at this block.
  while (path->depth && path->steps[path->depth - 1].frame <= frame)
    go_on(flow, fiber, &path->steps[--path->depth], pc);
  int branch = flow->module->blocks[index].branch;
  if (branch >= 0 && path_grows(path, fiber->block))
    path->steps[path->depth++] = pass(flow, fiber->self.linear, branch, frame);
}

void cusim_count_op(int width, int op, long long count) {
  if (here) here->ops[width][op] += (uint64_t)count;
}

// ---- the block's end ----------------------------------------------------------------------------

static void clear(Flow *flow, int threads) {
  int trails = (threads + kWarpLanes - 1) / kWarpLanes * flow->module->nbranches;
  for (int i = 0; i < trails; i++) {
    Passage *passages = flow->trails[i].passages;
    int room = flow->trails[i].room;
    flow->trails[i] = (Trail){.passages = passages, .room = room};
  }
  for (int t = 0; t < threads; t++) flow->paths[t].depth = 0;
  memset(flow->ops, 0, sizeof flow->ops);
  flow->branches = flow->divergent = 0;
}

static void add_runs(Flow *flow) {
  for (int i = 0; i < flow->module->nblocks; i++) {
    const CusimBlock *row = flow->module->blocks[i].row;
    for (int k = 0; flow->runs[i] && k < CusimWidths * CusimOps; k++)
      flow->ops[k / CusimOps][k % CusimOps] += flow->runs[i] * row->ops[k / CusimOps][k % CusimOps];
    flow->runs[i] = 0;
  }
}

void flow_block_end(const Block *block) {
  KernelCounters *counters = block->launch->function->counters;
  if (!here || !here->module) return;
  add_runs(here);
  for (int k = 0; k < CusimWidths * CusimOps; k++)
    __atomic_fetch_add(&counters->ops[k / CusimOps][k % CusimOps],
                       here->ops[k / CusimOps][k % CusimOps], __ATOMIC_RELAXED);
  __atomic_fetch_add(&counters->branches, here->branches, __ATOMIC_RELAXED);
  __atomic_fetch_add(&counters->divergent_branches, here->divergent, __ATOMIC_RELAXED);
  clear(here, block->threads);
}
