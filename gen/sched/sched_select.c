// sched_select.c: top-k of rows: warps per row, and splits of a row if there are too few rows for
// the GPU.
#include "sched.h"

#include <math.h>

typedef struct Shape {
  int64_t rows, length;
  int best;
} Shape;

enum {
  kKeyIssue = 12,   // instructions per element: its key, and comparing it
  kMergeIssue = 300 // of a warp: 32 keys sorted and merged; also its latency in clocks
};

// Expected merges of a warp over `count` elements in random order; it merges 32 that beat the best.
static double merges(double count, int best) {
  if (count <= best) return ceil(count / kWarp);
  return (best + best * log(count / best)) / kWarp + 1;
}

static Cost select_cost(Tile *t, const Shape *x, const Group *g, const Arch *arch, int columns,
                        int64_t parts) {
  int warps = t->threads / kWarp / columns;
  int64_t chunk = (int64_t)warps * kWarp * t->items * t->lanes;
  t->rows = columns;
  t->part = (int)round_up(ceil_div(x->length, parts), chunk);
  t->splits = (int)ceil_div(x->length, t->part);
  t->grid[0] = ceil_div(x->rows, columns) * t->splits;
  if (t->splits == 1) t->part = (int)x->length;
  double chunks = ceil((double)t->part / (double)chunk);
  double own = merges((double)t->part / warps, x->best), joins = log2(warps);
  Stream s = {.blocks = (double)t->grid[0], .threads = t->threads};
  s.elements = (double)x->rows * (double)x->length;
  s.vectors = s.elements / t->lanes;
  s.flops = kKeyIssue + g->flops / s.elements;
  s.flops += (own + joins) * kMergeIssue * s.blocks * t->threads / s.elements;
  s.steps = chunks + (own + joins) * kMergeIssue / 800;
  s.barriers = t->together ? joins : 2 * chunks;
  s.joined = t->splits > 1 ? ceil(t->splits / (double)warps) + joins : 0;
  return stream_cost(&s, g, arch);
}

static void add_scratch(Group *g, const Shape *x) {
  int64_t keys = g->tile.splits * x->rows * round_up(x->best, kWarp);
  int64_t counts = g->tile.grid[0] / g->tile.splits;
  sched_scratch(g, "own_keys", DtI64, keys);
  sched_scratch(g, "own_arrived", DtI32, counts);
}

// Strided rows: as many per block as neighbours fill a sector (for bytes half of one), a warp each.
static void across(Tile *t, const Type *in) {
  t->lanes = 1;
  t->rows = dtype_size(in->dtype) < 4 ? 16 : 8;
  t->threads = t->rows * kWarp;
}

void sched_select(Group *g, const Arch *arch) {
  Tile *t = &g->tile, best = {.seconds = INFINITY};
  const Node *n = g->anchor;
  const Type *in = &n->in[0]->type;
  int64_t length = in->dim[n->attr.axis];
  Shape x = {type_count(in) / length, length, (int)n->attr.count};
  int last = in->rank - 1;
  while (last > 0 && in->dim[in->order[last]] == 1) last--;
  t->together = in->order[last] == n->attr.axis || length == 1;
  t->threads = 256;
  if (t->together)
    t->lanes = sched_divide_down(4, sched_lanes(g, length));
  else
    across(t, in);
  t->items = t->lanes > 2 ? 2 : 4; // 8 keys per thread need 16 registers
  int least = t->together ? 1 : t->rows, most = t->together ? t->threads / kWarp : t->rows;
  for (int columns = least; columns <= most; columns *= 2)
    for (int64_t parts = 1; parts == 1 || (parts <= 512 && parts * kWarp <= length); parts *= 2) {
      Cost c = select_cost(t, &x, g, arch, columns, parts);
      cost_note(t, &c);
      if (c.seconds < best.seconds * (1 - 1e-9)) best = *t;
    }
  *t = best;
  if (t->splits > 1) add_scratch(g, &x);
}
