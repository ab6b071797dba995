// sched_heads.c: a separate kernel for rows of attention heads (heads.c): lanes per row.
#include "sched.h"

#include <math.h>

void sched_heads(Group *g, const Arch *arch) {
  enum { kThreads = 256, kChunk = 16, kInFlight = 4 };
  const Type *t = &g->anchor->type;
  Tile *tile = &g->tile;
  int64_t depth = t->dim[t->order[t->rank - 1]], rows = type_count(t) / depth;
  int pack = kChunk / (int)dtype_size(t->dtype), sweeps = 1;
  for (int i = 0; i < g->nnodes; i++) sweeps += g->nodes[i]->op->cls == OpReduce;
  tile->threads = kThreads, tile->lanes = sched_divide_down(pack, depth);
  for (tile->tm = 1; tile->tm < kWarp && tile->tm * 2 * tile->lanes <= depth;) tile->tm *= 2;
  tile->rows = kThreads / tile->tm, tile->items = (int)ceil_div(depth, tile->tm * tile->lanes);
  tile->grid[0] = ceil_div(rows * tile->tm, kThreads);
  Stream s = {.blocks = (double)tile->grid[0], .threads = kThreads};
  s.elements = (double)type_count(t);
  s.vectors = s.elements / tile->lanes * (sweeps + g->ninputs);
  s.flops = g->flops / s.elements;
  s.steps = ceil(tile->items / (double)kInFlight);
  Cost c = stream_cost(&s, g, arch);
  cost_note(tile, &c);
}
