// sched_many.c: reductions of several whole tensors in one launch. Blocks have equal numbers of
// elements, tensors follow one another; the last block to arrive combines all partial results, a
// warp per tensor.
#include "sched.h"

#include <math.h>

static void add_scratch(Group *g, int words) {
  int64_t states = g->tile.grid[0] * words;
  sched_scratch(g, "own_states", DtF32, states);
  sched_scratch(g, "own_arrived", DtI32, 1);
}

static int64_t elements_of(const Group *part) {
  return type_count(&bundle_reduction(part)->in[0]->type);
}

// Dependent loads of the last block, whose warps read the accumulators of their tensors.
static double joined_steps(const Group *g) {
  double loads = 0;
  for (int i = 0; i < g->nparts; i++) loads += ceil((double)g->parts[i]->tile.grid[0] / kWarp);
  return ceil(loads * kWarp / g->tile.threads);
}

void sched_reduce_many(Group *g, const Arch *arch) {
  enum { kThreads = 256, kBlocksOfSm = 4, kMostFlight = 64, kMostLanes = 8 }; // flight: words
  Tile *t = &g->tile;
  const int words = op_monoid(bundle_reduction(g->parts[0]))->count;
  int64_t count = 0;
  for (int i = 0; i < g->nparts; i++) count += elements_of(g->parts[i]);
  t->threads = kThreads;
  t->depth = 4;
  while (t->depth > 1 && t->depth * kMostLanes / 2 * words > kMostFlight) t->depth /= 2;
  t->part = (int)round_up(ceil_div(count, arch->sms * kBlocksOfSm), kThreads * kMostLanes);
  Stream s = {.threads = kThreads, .elements = (double)count, .flops = g->flops / (double)count};
  for (int i = 0; i < g->nparts; i++) {
    Group *part = g->parts[i];
    part->tile.lanes = sched_lanes(part, sched_innermost(&bundle_reduction(part)->in[0]->type));
    part->tile.grid[0] = ceil_div(elements_of(part), t->part);
    t->grid[0] += part->tile.grid[0];
    s.vectors += (double)elements_of(part) / part->tile.lanes * part->ninputs;
  }
  t->lanes = g->parts[0]->tile.lanes;
  s.blocks = (double)t->grid[0];
  s.steps = ceil((double)t->part / kThreads / t->lanes / t->depth);
  s.barriers = log2(kThreads / kWarp) + 2;
  s.joined = joined_steps(g);
  Cost c = stream_cost(&s, g, arch);
  cost_note(t, &c);
  add_scratch(g, words);
}

const char *sched_many_tile(const Group *g) {
  return arena_printf(g->graph->arena, "%d tensors, %d each", g->nparts, g->tile.part);
}
