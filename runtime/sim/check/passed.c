// passed.c: reads of a warp's lanes before a shuffle, vote, match or the
// like (NNGEN_SIM_CHECK=race).
//
// Such a collective does not order memory: a lane's earlier writes may not be read after it
// without __syncwarp. But it waits for all lanes of its mask, whose earlier reads are then
// complete: a write after the collective comes after those reads. NVIDIA's cooperative groups and
// many reductions rely on that. Like clock.c, for the lanes of one warp and for reads only.
#include "sim/check/check.h"

#include <stdlib.h>
#include <string.h>

typedef struct Passed {
  uint32_t until[kWarpLanes][kWarpLanes]; // [lane]: the clocks of the others whose reads are over
} Passed;

void passed_forget(Block *block) {
  for (int w = 0; w < kMaxWarps; w++) {
    free(block->passed[w]);
    block->passed[w] = NULL;
  }
}

// Joins what any of the lanes knows.
static void join(const Passed *p, unsigned lanes, uint32_t *until) {
  memset(until, 0, sizeof p->until[0]);
  for (; lanes; lanes &= lanes - 1) {
    const uint32_t *from = p->until[__builtin_ctz(lanes)];
    for (int i = 0; i < kWarpLanes; i++) until[i] = from[i] > until[i] ? from[i] : until[i];
  }
}

void passed_meet(Block *block, int warp, unsigned lanes) {
  if (!sim_settings()->race) return;
  uint32_t until[kWarpLanes];
  uint32_t *own = &block->own[warp * kWarpLanes];
  Passed *p = block->passed[warp];
  if (!p) p = block->passed[warp] = calloc(1, sizeof *p);
  if (!p) fault_raise(CUDA_ERROR_OUT_OF_MEMORY, NULL, "no memory for the race detector");
  if (lanes != ~0u) join(p, lanes, until); // all know only their own clocks
  for (unsigned rest = lanes; rest; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    until[lane] = own[lane]++;
  }
  for (unsigned rest = lanes; rest; rest &= rest - 1)
    memcpy(p->until[__builtin_ctz(rest)], until, sizeof until);
}

bool passed_read(const Block *block, const Access *read, int thread) {
  const Passed *p = block->passed[thread / kWarpLanes];
  if (!p || read->block != block->serial || read->thread / kWarpLanes != thread / kWarpLanes)
    return false;
  return p->until[thread % kWarpLanes][read->thread % kWarpLanes] >= read->clock;
}
