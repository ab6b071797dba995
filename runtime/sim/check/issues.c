// issues.c: instructions of kernels from PTX, by kind, as warps issue them (NNGEN_SIM_COUNT=1).
//
// The lanes of a warp run one after the other, each announcing its basic blocks. Their n-th
// passages through a block are one passage of the warp, so a warp passes as often as the lane that
// gets there most often. NOTE: lanes that get there in different turns of a loop, never together,
// count less than on a GPU.
#include "sim/check/check.h"

#include <stdlib.h>

_Static_assert(sizeof((KernelCounters){0}).instructions == CusimCountKinds * sizeof(uint64_t),
               "counters.h names the kinds");

typedef struct Passes { // of a warp through one block
  uint32_t lanes[kWarpLanes], most;
} Passes;

struct Issues {
  const CusimCountTable *table;
  Passes blocks[];
};

static struct Issues *issues_of(Block *block, unsigned warp) {
  struct Issues *issues = block->issues[warp];
  const CusimCountTable *table = block->launch->function->module->counts;
  if (issues || !table) return issues;
  issues = calloc(1, sizeof *issues + (size_t)table->blocks * sizeof *issues->blocks);
  if (!issues) {
    atomic_store(&block->launch->error, CUDA_ERROR_OUT_OF_MEMORY);
    return NULL;
  }
  issues->table = table;
  return block->issues[warp] = issues;
}

void cusim_count_block(int number) {
  Fiber *fiber = fiber_running();
  struct Issues *issues = issues_of(fiber->block, fiber->self.linear / kWarpLanes);
  if (!issues) return;
  Passes *passes = &issues->blocks[number];
  uint32_t mine = ++passes->lanes[fiber->self.linear % kWarpLanes];
  if (mine > passes->most) passes->most = mine;
}

static void add_up(const struct Issues *issues, uint64_t *sums) {
  for (int b = 0; b < issues->table->blocks; b++)
    for (int k = 0; issues->blocks[b].most && k < CusimCountKinds; k++)
      sums[k] += (uint64_t)issues->blocks[b].most * issues->table->rows[b].kinds[k];
}

void issues_block_end(Block *block) {
  KernelCounters *counters = block->launch->function->counters;
  uint64_t sums[CusimCountKinds] = {0};
  for (int w = 0; w < kMaxWarps; w++) {
    if (!block->issues[w]) continue;
    add_up(block->issues[w], sums);
    free(block->issues[w]);
    block->issues[w] = NULL;
  }
  for (int k = 0; k < CusimCountKinds; k++)
    if (sums[k]) __atomic_fetch_add(&counters->instructions[k], sums[k], __ATOMIC_RELAXED);
}
